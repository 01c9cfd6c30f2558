import { pathText } from './references.ts';
import { parseTemplate } from './template.ts';
import type { Expression, Template, TemplatePart } from './types.ts';

/** An expression as text; reading it again gives the same tree (positions aside). */
export function printExpression(node: Expression): string {
  switch (node.kind) {
    case 'literal':
      return typeof node.value === 'number' ? printNumber(node.value) : JSON.stringify(node.value);
    case 'path':
      return pathText(node.segments);
    case 'member':
      return `${wrapped(node.object)}[${JSON.stringify(node.name.name)}]`;
    case 'list':
      return `[${node.items.map(printExpression).join(', ')}]`;
    case 'call':
      return `${node.name}(${node.args.map(printExpression).join(', ')})`;
    case 'not':
      return `!${wrapped(node.operand)}`;
    case 'binary':
      return `${wrapped(node.left)} ${node.operator} ${wrapped(node.right)}`;
  }
}

function printNumber(value: number): string {
  // JSON has no infinities, and so no value has them either.
  return Number.isFinite(value) ? String(value) : 'null';
}

function wrapped(node: Expression): string {
  const text = printExpression(node);
  return node.kind === 'binary' || node.kind === 'not' ? `(${text})` : text;
}

/**
 * A template as text that reads as the same template. Literal text that would read as an expression is escaped
 * with `$${`; where that cannot be said (a dollar before an expression, mustache) all parts go into one `join`.
 */
export function printTemplate(template: Template): string {
  const { delimiters, known, parts } = template;
  const [open, close] = delimiters === 'dollar' ? ['${ ', ' }'] : ['{{ ', ' }}'];
  const plain = parts
    .map((part) => {
      if (part.kind === 'expression') return `${open}${printExpression(part.expression)}${close}`;
      if (part.kind === 'invalid') return template.source.slice(part.span.start, part.span.end);
      return escapeText(part.text, template);
    })
    .join('');
  const read = parseTemplate(plain, { delimiters, known }).parts;
  // An expression that is left alone would give its type to what was text.
  const alone = read.length === 1 && parts.length > 1 && read[0]?.kind === 'expression';
  if (!alone && shapeOf(read) === shapeOf(parts)) return plain;
  const items = parts.map((part) =>
    part.kind === 'expression'
      ? printExpression(part.expression)
      : JSON.stringify(part.kind === 'text' ? part.text : ''),
  );
  return `${open}join([${items.join(', ')}], "")${close}`;
}

/** Text that reads as the given text, or undefined where the delimiters have no escape for it. */
export function printText(
  text: string,
  template: Pick<Template, 'delimiters' | 'known'>,
): string | undefined {
  const { delimiters, known } = template;
  const printed = escapeText(text, template);
  const { parts } = parseTemplate(printed, { delimiters, known });
  return shapeOf(parts) === shapeOf([{ kind: 'text', text, span: { start: 0, end: 0 } }])
    ? printed
    : undefined;
}

function escapeText(text: string, template: Pick<Template, 'delimiters' | 'known'>): string {
  if (template.delimiters !== 'dollar' || !text.includes('${')) return text;
  return parseTemplate(text, { known: template.known })
    .parts.map((part) => {
      const source = text.slice(part.span.start, part.span.end);
      if (part.kind !== 'text') return `$${source}`;
      // An escape that already stands there is meant as it is: one dollar more.
      return source === part.text ? source : source.replaceAll('$${', () => '$$${');
    })
    .join('');
}

/** What a list of parts says, without positions: neighbouring texts are one. */
function shapeOf(parts: readonly TemplatePart[]): string {
  const shape: string[] = [];
  let text = '';
  for (const part of parts) {
    if (part.kind === 'text') {
      text += part.text;
      continue;
    }
    shape.push(text, part.kind === 'expression' ? printExpression(part.expression) : `?${part.message}`);
    text = '';
  }
  return JSON.stringify([...shape, text]);
}
