import type { Span } from '../types.ts';
import { ExpressionParser, ExpressionSyntax } from './parser.ts';
import { referencesOf } from './references.ts';
import { ROOTS } from './scope.ts';
import type { Delimiters, Expression, ParseOptions, Segment, Template, TemplatePart } from './types.ts';

/** What unreadable attempts may cost in all, so that a hostile text cannot take quadratic time. */
const ATTEMPTS = 4_000_000;

interface Reader {
  readonly text: string;
  readonly left: { chars: number };
  readonly known: ReadonlySet<string>;
  readonly open: string;
  readonly close: string;
}

/**
 * Cuts a text into literal text and expressions. Never throws: what is ours by its root and cannot be read becomes
 * an `invalid` part. Only known roots are ours: `${HOME}`, `${#arr[@]}`, `${VAR:-x}`, `{{ .Values.x }}` stay text,
 * and `$${` before a known root is a literal `${` (docs/bundle.md, "Expressions", rule 2).
 */
export function parseTemplate(text: string, options: ParseOptions = {}): Template {
  const delimiters = options.delimiters ?? 'dollar';
  const reader = readerOf(text, delimiters, options.known);
  const parts: TemplatePart[] = [];
  let pending = '';
  let from = 0;
  const flush = (end: number): void => {
    if (pending !== '') parts.push({ kind: 'text', text: pending, span: { start: from, end } });
    pending = '';
  };
  let at = 0;
  while (at < text.length) {
    const opening = text.indexOf(reader.open, at);
    if (opening < 0) break;
    const escaped = delimiters === 'dollar' && opening > at && text[opening - 1] === '$';
    const part = expressionAt(reader, opening);
    if (part === undefined) {
      pending += text.slice(at, opening + 1);
      at = opening + 1;
    } else if (escaped) {
      pending += text.slice(at, opening - 1) + reader.open;
      at = opening + reader.open.length;
    } else {
      pending += text.slice(at, opening);
      flush(opening);
      parts.push(part);
      at = part.span.end;
      from = at;
    }
  }
  pending += text.slice(at);
  flush(text.length);
  return { source: text, delimiters, known: [...reader.known], parts };
}

/**
 * Reads a `when`: exactly one expression between delimiters, in which literals alone and unknown roots are ours
 * too (`${ true }` is fine, `${ HOME == "x" }` is a finding). Never throws.
 */
export function parseCondition(text: string, options: ParseOptions = {}): Template {
  const delimiters = options.delimiters ?? 'dollar';
  const reader = readerOf(text, delimiters, options.known);
  const start = text.search(/\S|$/);
  const whole: Span = { start: 0, end: text.length };
  const invalid = (at: number, message: string, hint: string): Template => ({
    source: text,
    delimiters,
    known: [...reader.known],
    parts: [{ kind: 'invalid', message, hint, at, span: whole }],
  });
  const hint = `write ${reader.open} … ${reader.close} around the whole condition`;
  if (!text.startsWith(reader.open, start)) return invalid(start, 'a condition is one expression', hint);
  const part = closed(reader, forced(reader, start, false));
  if (part.kind === 'invalid') return { source: text, delimiters, known: [...reader.known], parts: [part] };
  if (text.slice(part.span.end).trim() !== '')
    return invalid(part.span.end, 'text stands after the condition', hint);
  return { source: text, delimiters, known: [...reader.known], parts: [part] };
}

/** True when no part of the text is an expression. */
export function isPlainText(template: Template): boolean {
  return template.parts.every((part) => part.kind === 'text');
}

function readerOf(text: string, delimiters: Delimiters, known: Iterable<string> | undefined): Reader {
  const dollar = delimiters === 'dollar';
  return {
    text,
    left: { chars: ATTEMPTS },
    known: new Set(known ?? ROOTS),
    open: dollar ? '${' : '{{',
    close: dollar ? '}' : '}}',
  };
}

/** Blank, `!` and `(` may stand before the first name. */
const OPENING = /([\s!(]*)([A-Za-z_]\w*)(\s*)(.?)/suy;
/** Mustache's own marks: sections, inverted sections, ends, raw forms. */
const MARKED = /[#^/&{]\s*([A-Za-z_]\w*)\s*\./y;
/** What may begin an expression that does not begin with a root: a call, a string, a number, a list. */
const OTHER = /\s*[!(]*\s*(?:([A-Za-z]\w*)\(|(?:true|false|null)\b|["'[\d])/y;

function expressionAt(reader: Reader, opening: number): Exclude<TemplatePart, { kind: 'text' }> | undefined {
  const body = opening + reader.open.length;
  const { text, known } = reader;
  MARKED.lastIndex = body;
  const marked = MARKED.exec(text);
  if (marked !== null && known.has(marked[1] as string))
    return markedPart(reader, opening, marked[0][0] as string);
  OPENING.lastIndex = body;
  const match = OPENING.exec(text);
  const root = match?.[2] ?? '';
  if (match !== null && known.has(root)) {
    const blankFirst = /^\s/.test(match[1] as string);
    // `${env}`, `${!env}` and `${env[0]}` are a shell's own; `${ env }` is nobody's and so meant for us.
    const ours = match[4] === '.' || (blankFirst && reader.open === '${') || (blankFirst && match[4] === '[');
    if (ours) return closed(reader, forced(reader, opening, true));
  }
  OTHER.lastIndex = body;
  const other = OTHER.exec(text);
  if (other === null || reader.left.chars <= 0) return undefined;
  const part = forced(reader, opening, false);
  if (part.kind === 'expression') return referencesOf(part.expression).length > 0 ? part : undefined;
  reader.left.chars -= part.at - opening + 1000;
  // Not readable: ours only if it says so itself, by a known root inside.
  const inside = text.slice(body, body + 1000).split(reader.close, 2);
  const names = [...(inside[0] as string).matchAll(/(?<![\w.$])([A-Za-z_]\w*)\.[\w]/g)].some((m) =>
    known.has(m[1] as string),
  );
  return names && (other[1] === undefined || inside.length > 1) ? closed(reader, part) : undefined;
}

function forced(
  reader: Reader,
  opening: number,
  porterNames: boolean,
): Exclude<TemplatePart, { kind: 'text' }> {
  const body = opening + reader.open.length;
  try {
    const { expression, end } = new ExpressionParser(reader.text, body, reader.known).parse(reader.close);
    return { kind: 'expression', expression, span: { start: opening, end } };
  } catch (error) {
    if (!(error instanceof ExpressionSyntax)) throw error;
    const path = porterNames ? porterPath(reader, body) : undefined;
    if (path !== undefined) return { ...path, span: { start: opening, end: path.span.end } };
    return {
      kind: 'invalid',
      message: error.message,
      ...(error.hint === undefined ? {} : { hint: error.hint }),
      at: Math.min(error.at, reader.text.length),
      // Where it ends is looked for once it is known to be ours: `closed`.
      span: { start: opening, end: opening },
    };
  }
}

/** Gives an invalid part its end: behind the closing delimiter, else at the end of the line. */
function closed(
  reader: Reader,
  part: Exclude<TemplatePart, { kind: 'text' }>,
): Exclude<TemplatePart, { kind: 'text' }> {
  if (part.kind !== 'invalid') return part;
  const { text, close } = reader;
  const from = Math.max(part.at, part.span.start + reader.open.length);
  const closing = text.indexOf(close, from);
  const lineEnd = text.indexOf('\n', from);
  const end = closing >= 0 ? closing + close.length : lineEnd >= 0 ? lineEnd : text.length;
  return { ...part, span: { start: part.span.start, end } };
}

/** Names of `custom` may hold blanks in Porter: `${ bundle.custom.my key }`. */
function porterPath(reader: Reader, body: number): Extract<TemplatePart, { kind: 'expression' }> | undefined {
  const closing = reader.text.indexOf(reader.close, body);
  if (closing < 0) return undefined;
  const raw = reader.text.slice(body, closing);
  const segments: Segment[] = [];
  let at = body + raw.search(/\S|$/);
  const start = at;
  for (const name of raw.trim().split('.')) {
    if (!/^[\p{L}\p{N}_-](?:[\p{L}\p{N}_ -]*[\p{L}\p{N}_-])?$/u.test(name) || / in /.test(name))
      return undefined;
    segments.push({ name, span: { start: at, end: at + name.length } });
    at += name.length + 1;
  }
  const first = segments[0];
  if (first === undefined || !reader.known.has(first.name)) return undefined;
  const expression: Expression = { kind: 'path', segments, span: { start, end: at - 1 } };
  return { kind: 'expression', expression, span: { start: body, end: closing + reader.close.length } };
}

function markedPart(reader: Reader, opening: number, mark: string): Exclude<TemplatePart, { kind: 'text' }> {
  const { text, close, open } = reader;
  if (mark === '{' || mark === '&') {
    // `${{ x }}`, `{{{ x }}}`, `${& x }`: mustache's unescaped forms, which mean the same since nothing is escaped.
    const outer = { ...reader, close: mark === '{' ? `}${close}` : close, open: `${open}${mark}` };
    return closed(outer, forced(outer, opening, true));
  }
  const closing = text.indexOf(close, opening);
  return {
    kind: 'invalid',
    message: 'sections of mustache are not supported',
    hint: 'use `when` for a step, or a comparison inside one expression',
    at: opening,
    span: { start: opening, end: closing < 0 ? text.length : closing + close.length },
  };
}
