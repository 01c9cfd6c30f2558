import { type DocNode, scalarsOf } from '../node.ts';
import type { Span } from '../types.ts';

export interface SyntaxFinding {
  readonly span: Span;
  readonly message: string;
  readonly hint: string;
}

const HINT = 'quote the whole value, as in "${ bundle.parameters.name }"';

/** A root that makes `${` or `{{` an expression of ours, in the way people write it. */
const OPENING =
  /\$\{\s*(?:bundle|installation|outputs|env|matrix|step|!|\()|\{\{\s*(?:bundle|installation|outputs|env)/g;

/**
 * Why a syntax error stands where it stands, when an unquoted expression is behind it: in flow style `{` and `}`
 * are brackets, `: ` splits a value into a map and ` #` begins a comment.
 */
export function explainSyntax(source: string, offset: number): SyntaxFinding | undefined {
  const lineStart = source.lastIndexOf('\n', Math.max(offset - 1, 0)) + 1;
  const nextBreak = source.indexOf('\n', offset);
  const line = source.slice(lineStart, nextBreak < 0 ? source.length : nextBreak);
  if (line.length > 10_000) return undefined;
  for (const match of line.matchAll(OPENING)) {
    const start = match.index;
    if (insideQuotes(line, start)) continue;
    const closing = line.indexOf('}', start + 2);
    const end = closing < 0 ? line.length : closing + (match[0].startsWith('{{') ? 2 : 1);
    const text = line.slice(start, end);
    const why = /:\s/.test(text)
      ? 'holds `: `, which YAML reads as a key'
      : /\s#/.test(text)
        ? 'holds ` #`, which begins a comment'
        : 'stands unquoted where YAML takes its braces for a map';
    return {
      span: { start: lineStart + start, end: lineStart + end },
      message: `the expression ${why}`,
      hint: HINT,
    };
  }
  return undefined;
}

function insideQuotes(line: string, at: number): boolean {
  let quote = '';
  for (let i = 0; i < at; i++) {
    const c = line[i] as string;
    if (quote === '"' && c === '\\') i++;
    else if (quote !== '' && c === quote) quote = '';
    else if (quote === '' && (c === '"' || c === "'") && (i === 0 || /[\s,[{:]/.test(line[i - 1] as string)))
      quote = c;
  }
  return quote !== '';
}

/** What parses and yet is not what was meant: an expression cut off by ` #`, or one that became a map of its own. */
export function* flowExpressions(source: string, root: DocNode | undefined): Generator<SyntaxFinding> {
  if (root === undefined || !(source.includes('${') || source.includes('{{'))) return;
  for (const { node } of scalarsOf(root)) {
    if (node.style !== 'plain' || !/\$\{|\{\{/.test(node.text)) continue;
    const opened = Math.max(node.text.lastIndexOf('${'), node.text.lastIndexOf('{{'));
    if (node.text.indexOf('}', opened) >= 0) continue;
    if (!/^[ \t]+#/.test(source.slice(node.span.end, node.span.end + 200))) continue;
    yield { span: node.span, message: 'the expression holds ` #`, which begins a comment', hint: HINT };
  }
}
