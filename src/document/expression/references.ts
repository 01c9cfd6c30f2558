import type { Expression, Reference, Segment, Template } from './types.ts';

/**
 * Every path that a template reads, in the order of the text; a path read twice is listed twice. Nothing is
 * evaluated, so branches that will not be taken are listed too. Parts that cannot be read list nothing.
 */
export function references(template: Template): readonly Reference[] {
  return template.parts.flatMap((part) => (part.kind === 'expression' ? referencesOf(part.expression) : []));
}

/** The same for one expression. */
export function referencesOf(expression: Expression): readonly Reference[] {
  const found: Reference[] = [];
  collect(expression, false, found);
  return found;
}

function collect(node: Expression, guarded: boolean, found: Reference[]): void {
  switch (node.kind) {
    case 'literal':
      return;
    case 'path': {
      // A bare root reads nothing, but it has to be found to be refused.
      found.push({
        text: pathText(node.segments),
        path: node.segments.map((s) => s.name),
        span: node.span,
        guarded,
      });
      return;
    }
    case 'member':
      collect(node.object, guarded, found);
      return;
    case 'not':
      collect(node.operand, guarded, found);
      return;
    case 'binary':
      collect(node.left, guarded, found);
      collect(node.right, guarded, found);
      return;
    case 'list':
      for (const item of node.items) collect(item, guarded, found);
      return;
    case 'call':
      node.args.forEach((arg, i) => {
        collect(arg, guarded || (node.name === 'default' && i < node.args.length - 1), found);
      });
  }
}

/** A path as people write it. */
export function pathText(segments: readonly (Segment | string)[]): string {
  return segments
    .map((s) => (typeof s === 'string' ? s : s.name))
    .map((name, i) =>
      /^[\p{L}\p{N}_][\p{L}\p{N}_-]*$/u.test(name)
        ? i === 0
          ? name
          : `.${name}`
        : `[${JSON.stringify(name)}]`,
    )
    .join('');
}
