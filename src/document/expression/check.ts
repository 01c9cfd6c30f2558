import { isSkycapError } from '../../kernel/index.ts';
import { didYouMean } from '../suggest.ts';
import { unknownName } from './evaluate.ts';
import { arityOf, wrongCount } from './functions.ts';
import { pathText } from './references.ts';
import type { Expression, ExpressionFinding, Scope, ScopeNode, Segment, Template } from './types.ts';

/**
 * What is wrong with a template, before anything has a value. `scope` is the same kind of tree that `evaluate`
 * takes, with `late(…)` for what has no value yet; names, places where a name is denied, numbers of arguments and
 * syntax are checked. Spans are offsets in the template's text. Never throws.
 */
export function checkTemplate(template: Template, scope: Scope): readonly ExpressionFinding[] {
  const findings: ExpressionFinding[] = [];
  for (const part of template.parts) {
    if (part.kind === 'invalid')
      findings.push({
        severity: 'error',
        code: 'expression-syntax',
        message: part.message,
        ...(part.hint === undefined ? {} : { hint: part.hint }),
        span: { start: Math.max(part.at, part.span.start), end: Math.max(part.span.end, part.at) },
      });
    else if (part.kind === 'expression') checkExpression(part.expression, scope, findings);
    else findings.push(...misspelledRoots(part.text, part.span.start, template));
  }
  return findings;
}

function checkExpression(node: Expression, scope: Scope, findings: ExpressionFinding[]): void {
  switch (node.kind) {
    case 'literal':
      return;
    case 'path':
      checkPath(node.segments, scope, findings);
      return;
    case 'member':
      checkExpression(node.object, scope, findings);
      return;
    case 'not':
      checkExpression(node.operand, scope, findings);
      return;
    case 'binary':
      checkExpression(node.left, scope, findings);
      checkExpression(node.right, scope, findings);
      return;
    case 'list':
      for (const item of node.items) checkExpression(item, scope, findings);
      return;
    case 'call': {
      const [least, most] = arityOf(node.name);
      if (node.args.length < least || node.args.length > most)
        findings.push({
          severity: 'error',
          code: 'expression-function',
          message: wrongCount(node.name, node.args.length),
          span: node.span,
        });
      for (const arg of node.args) checkExpression(arg, scope, findings);
    }
  }
}

function checkPath(segments: readonly Segment[], scope: Scope, findings: ExpressionFinding[]): void {
  let at: ScopeNode = scope;
  for (const [i, segment] of segments.entries()) {
    if (at.kind !== 'names') break;
    const next: ScopeNode | undefined = at.names.get(segment.name);
    if (next === undefined && at.open) return;
    if (next === undefined) {
      findings.push(nameFinding(segments, i, [...at.names.keys()]));
      return;
    }
    at = next;
  }
  const last = segments.at(-1) as Segment;
  if (at.kind === 'names') {
    const names = [...at.names.keys()].slice(0, 12);
    const hint =
      names.length === 0 ? 'name one of its members' : `name one of its members: ${names.join(', ')}`;
    findings.push({
      severity: 'error',
      code: 'expression-name',
      message: `${pathText(segments)} is a group of names and not a value`,
      hint,
      span: last.span,
    });
  } else if (at.kind === 'denied') {
    const message = `${pathText(segments)} cannot be used here: ${at.reason}`;
    findings.push({
      severity: 'error',
      code: 'expression-scope',
      message,
      ...(at.hint === undefined ? {} : { hint: at.hint }),
      span: last.span,
    });
  }
}

function nameFinding(
  segments: readonly Segment[],
  index: number,
  known: readonly string[],
): ExpressionFinding {
  const segment = segments[index] as Segment;
  const error = unknownName(segments, index, known);
  const near = didYouMean(segment.name, known);
  const simple =
    near !== undefined &&
    /^[\w-]+$/.test(near) &&
    segment.span.end - segment.span.start === segment.name.length;
  return {
    severity: 'error',
    code: 'expression-name',
    message: error.message,
    ...(isSkycapError(error) && error.hint !== undefined ? { hint: error.hint } : {}),
    span: segment.span,
    ...(simple ? { replacement: near } : {}),
  };
}

/** `${ bundel.name }`: not ours, and no shell can read it either, so it was probably meant for us. */
function* misspelledRoots(text: string, offset: number, template: Template): Generator<ExpressionFinding> {
  // Escapes move the text against its source; positions are looked up there.
  const source = template.source.slice(offset);
  const pattern =
    template.delimiters === 'dollar'
      ? /\$\{\s*([A-Za-z]\w*)\.[\w.-]+\s*\}/g
      : /\{\{\s*([A-Za-z]\w*)\.[\w.-]+\s*\}\}/g;
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    const root = match[1] as string;
    const near = template.known.includes(root) ? undefined : didYouMean(root, template.known);
    const at = source.indexOf(match[0], from);
    if (near === undefined || at < 0) continue;
    from = at + match[0].length;
    const start = offset + at + match[0].indexOf(root);
    yield {
      severity: 'warning',
      code: 'expression-root',
      message: `\`${root}\` is not a name that expressions know, so this stays text`,
      hint: `did you mean \`${near}\`?`,
      span: { start, end: start + root.length },
      replacement: near,
    };
  }
}
