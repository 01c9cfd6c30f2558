import type { ScalarStyle } from './node.ts';
import type { Span, TextEdit } from './types.ts';

/** A scalar as the model keeps it: its text after YAML has read it, and where it stands. */
export interface SourceText {
  readonly text: string;
  readonly span: Span;
}

/** How the scalar at a span is written, from its first character. */
export function styleAt(source: string, span: Span): ScalarStyle {
  const c = source[span.start];
  if (c === "'") return 'single';
  if (c === '"') return 'double';
  // A plain scalar cannot begin with `|` or `>`.
  if (c === '|') return 'literal';
  return c === '>' ? 'folded' : 'plain';
}

/**
 * The offset in the source of an offset in a scalar's text: through quotes, escapes, folding and the indentation of
 * block scalars. The end of the text gives the offset behind its last character.
 */
export function sourceOffset(source: string, scalar: SourceText, offset: number): number {
  const offsets = mapOf(source, scalar);
  if (offsets === undefined) return scalar.span.start;
  if (scalar.text.length === 0) return scalar.span.start;
  if (offset >= scalar.text.length) {
    const last = offsets[scalar.text.length - 1] as number;
    return Math.min(last + Math.max(1, lengthAt(source, scalar, last)), source.length);
  }
  return offsets[Math.max(offset, 0)] as number;
}

/** The span in the source of a span in a scalar's text. */
export function sourceSpan(source: string, scalar: SourceText, span: Span): Span {
  const start = sourceOffset(source, scalar, span.start);
  if (span.end <= span.start) return { start, end: start };
  const last = sourceOffset(source, scalar, span.end - 1);
  return { start, end: Math.max(start, last + Math.max(1, lengthAt(source, scalar, last))) };
}

/** How many source characters the character at an offset takes: more than one for an escape. */
function lengthAt(source: string, scalar: SourceText, at: number): number {
  const style = styleAt(source, scalar.span);
  if (style === 'single') return source.startsWith("''", at) ? 2 : 1;
  if (style !== 'double' || source[at] !== '\\') return 1;
  const next = source[at + 1];
  return next === 'x' ? 4 : next === 'u' ? 6 : next === 'U' ? 10 : 2;
}

/**
 * Edits in a scalar's text as edits of the source. In block scalars, and where nothing around them needs quoting,
 * they are made in place; otherwise the scalar is written anew in double quotes. Undefined when neither is safe.
 */
export function editScalar(
  source: string,
  scalar: SourceText,
  edits: readonly TextEdit[],
): readonly TextEdit[] | undefined {
  const style = styleAt(source, scalar.span);
  const spans = edits.map((edit) => ({ edit, span: sourceSpan(source, scalar, edit.span) }));
  const literal = spans.every(
    ({ edit, span }) =>
      source.slice(span.start, span.end) === scalar.text.slice(edit.span.start, edit.span.end),
  );
  const fits = edits.every((edit) => inPlace(style, edit.text));
  if (literal && fits && mapOf(source, scalar) !== undefined)
    return spans.map(({ edit, span }) => ({ span, text: edit.text }));
  if (style === 'literal' || style === 'folded') return undefined;
  let text = '';
  let at = 0;
  for (const edit of [...edits].sort((a, b) => a.span.start - b.span.start)) {
    text += scalar.text.slice(at, edit.span.start) + edit.text;
    at = edit.span.end;
  }
  return [{ span: scalar.span, text: JSON.stringify(text + scalar.text.slice(at)) }];
}

function inPlace(style: ScalarStyle, text: string): boolean {
  if (text.includes('\n')) return false;
  if (style === 'literal' || style === 'folded') return true;
  if (style === 'single') return !text.includes("'");
  if (style === 'double') return !/["\\]/.test(text);
  return !/[:#,[\]{}'"]/.test(text.replace(/\$\{[^{}:#,[\]'"]*\}/g, ''));
}

/** One entry per UTF-16 unit of the text; undefined where the text cannot be rebuilt from the source. */
function mapOf(source: string, scalar: SourceText): readonly number[] | undefined {
  const style = styleAt(source, scalar.span);
  if (style === 'literal' || style === 'folded') return blockMap(source, scalar, style);
  const built =
    style === 'plain'
      ? plainMap(source, scalar.span)
      : style === 'single'
        ? singleMap(source, scalar.span)
        : doubleMap(source, scalar.span);
  return built.text === scalar.text ? built.offsets : undefined;
}

class Builder {
  readonly offsets: number[] = [];
  readonly #parts: string[] = [];

  get text(): string {
    return this.#parts.join('');
  }

  push(text: string, at: number): void {
    this.#parts.push(text);
    for (let i = 0; i < text.length; i++) this.offsets.push(at);
  }

  copy(source: string, start: number, end: number): void {
    this.#parts.push(source.slice(start, end));
    for (let i = start; i < end; i++) this.offsets.push(i);
  }
}

/** A fold of flow scalars: one line break is a space, each further one a line break. Returns where the text goes on. */
function fold(source: string, builder: Builder, at: number, end: number): number {
  let breaks = 0;
  let i = at;
  while (i < end && /[ \t\r\n]/.test(source[i] as string)) if (source[i++] === '\n') breaks++;
  builder.push(breaks <= 1 ? ' ' : '\n'.repeat(breaks - 1), at);
  return i;
}

/** Where blanks that end in a line break begin at `at`, true. */
function atBreak(source: string, at: number, end: number): boolean {
  for (let i = at; i < end; i++) {
    if (source[i] === '\n') return true;
    if (!/[ \t\r]/.test(source[i] as string)) return false;
  }
  return false;
}

function plainMap(source: string, span: Span): Builder {
  const builder = new Builder();
  for (let i = span.start; i < span.end; ) {
    if (/[ \t\r\n]/.test(source[i] as string) && atBreak(source, i, span.end))
      i = fold(source, builder, i, span.end);
    else {
      builder.copy(source, i, i + 1);
      i++;
    }
  }
  return builder;
}

function singleMap(source: string, span: Span): Builder {
  const builder = new Builder();
  const end = span.end - 1;
  for (let i = span.start + 1; i < end; ) {
    if (/[ \t\r\n]/.test(source[i] as string) && atBreak(source, i, end)) i = fold(source, builder, i, end);
    else if (source[i] === "'") {
      builder.push("'", i);
      i += 2;
    } else {
      builder.copy(source, i, i + 1);
      i++;
    }
  }
  return builder;
}

const ESCAPES: Readonly<Record<string, string>> = {
  '0': '\0',
  a: '\x07',
  b: '\b',
  e: '\x1b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  N: '\u0085',
  _: '\u00a0',
  L: '\u2028',
  P: '\u2029',
  ' ': ' ',
  '"': '"',
  '/': '/',
  '\\': '\\',
  '\t': '\t',
};

function doubleMap(source: string, span: Span): Builder {
  const builder = new Builder();
  const end = span.end - 1;
  for (let i = span.start + 1; i < end; ) {
    const c = source[i] as string;
    if (c === '\\') i = readEscape(source, builder, i, end);
    else if (/[ \t\r\n]/.test(c) && atBreak(source, i, end)) i = fold(source, builder, i, end);
    else {
      builder.copy(source, i, i + 1);
      i++;
    }
  }
  return builder;
}

function readEscape(source: string, builder: Builder, at: number, end: number): number {
  const c = source[at + 1] as string;
  const digits = c === 'x' ? 2 : c === 'u' ? 4 : c === 'U' ? 8 : 0;
  if (digits > 0) {
    const code = Number.parseInt(source.slice(at + 2, at + 2 + digits), 16);
    builder.push(Number.isNaN(code) || code > 0x10ffff ? '' : String.fromCodePoint(code), at);
    return at + 2 + digits;
  }
  if (c === '\n' || (c === '\r' && source[at + 2] === '\n')) {
    // An escaped line break joins the lines and takes the indentation of the next with it.
    let i = at + (c === '\r' ? 3 : 2);
    while (i < end && (source[i] === ' ' || source[i] === '\t')) i++;
    return i;
  }
  builder.push(ESCAPES[c] ?? c, at);
  return at + 2;
}

interface BlockLine {
  readonly start: number;
  /** Without the line break. */
  readonly end: number;
  readonly indent: number;
}

function blockMap(
  source: string,
  scalar: SourceText,
  style: 'literal' | 'folded',
): readonly number[] | undefined {
  const headerEnd = source.indexOf('\n', scalar.span.start);
  if (headerEnd < 0) return scalar.text === '' ? [] : undefined;
  const lines = blockLines(source, headerEnd + 1, Math.max(scalar.span.end, headerEnd + 1));
  const first = lines.find((line) => line.indent < line.end - line.start);
  const explicit = /^[|>][+-]?[1-9]/.test(source.slice(scalar.span.start, scalar.span.start + 3));
  const most = first?.indent ?? Math.max(0, ...lines.map((line) => line.indent));
  // With an indentation indicator the indent hangs on the parent, which is not known here: the one that rebuilds the text is it.
  const candidates = explicit ? Array.from({ length: most }, (_, i) => most - i) : [most];
  for (const indent of candidates) {
    const built = style === 'literal' ? literalMap(source, lines, indent) : foldedMap(source, lines, indent);
    if (built.text.startsWith(scalar.text)) return built.offsets.slice(0, scalar.text.length);
  }
  return undefined;
}

function blockLines(source: string, from: number, to: number): readonly BlockLine[] {
  const lines: BlockLine[] = [];
  for (let start = from; start < to; ) {
    const found = source.indexOf('\n', start);
    const brk = found < 0 || found > to ? to : found;
    const end = source[brk - 1] === '\r' && brk > start ? brk - 1 : brk;
    let indent = 0;
    while (start + indent < end && source[start + indent] === ' ') indent++;
    lines.push({ start, end, indent });
    start = brk + 1;
  }
  return lines;
}

function literalMap(source: string, lines: readonly BlockLine[], indent: number): Builder {
  const builder = new Builder();
  for (const line of lines) {
    builder.copy(source, Math.min(line.start + indent, line.end), line.end);
    builder.push('\n', line.end);
  }
  return builder;
}

/** YAML 1.2 section 8.1.3: lines fold into one, but for empty lines and those indented more. */
function foldedMap(source: string, lines: readonly BlockLine[], indent: number): Builder {
  const builder = new Builder();
  let separator = '';
  let at = lines[0]?.start ?? 0;
  let deeper = false;
  let begun = false;
  // Line breaks at the end are chomping's, not folding's.
  const last = lines.findLastIndex((line) => line.indent < line.end - line.start);
  for (const line of lines.slice(0, last + 1)) {
    const from = Math.min(line.start + indent, line.end);
    if (!begun && from >= line.end && line.indent <= indent) {
      builder.push('\n', line.end);
      continue;
    }
    begun = true;
    if (from < line.end && (source[from] === ' ' || source[from] === '\t')) {
      if (separator === ' ') separator = '\n';
      else if (!deeper && separator === '\n') separator = '\n\n';
      builder.push(separator, at);
      builder.copy(source, from, line.end);
      separator = '\n';
      deeper = true;
    } else if (from >= line.end) {
      if (separator === '\n') builder.push('\n', line.end);
      else separator = '\n';
    } else {
      builder.push(separator, at);
      builder.copy(source, from, line.end);
      separator = ' ';
      deeper = false;
    }
    at = line.end;
  }
  builder.push('\n', at);
  for (const line of lines.slice(last + 1)) {
    builder.copy(source, Math.min(line.start + indent, line.end), line.end);
    builder.push('\n', line.end);
  }
  return builder;
}
