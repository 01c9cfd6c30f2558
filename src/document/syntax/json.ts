import { limits, type ParsedDocument, type ParseOptions, problemAt } from '../document.ts';
import { linesOf } from '../lines.ts';
import type { DocNode, MapEntry, ScalarNode } from '../node.ts';
import type { Problem } from '../types.ts';

class JsonSyntax extends Error {
  readonly offset: number;
  readonly code: string;
  constructor(offset: number, message: string, code = 'json-syntax') {
    super(message);
    this.offset = offset;
    this.code = code;
  }
}

/** Reads strict JSON (RFC 8259) with positions; duplicate keys are problems. Never throws. */
export function parseJson(source: string, options: ParseOptions): ParsedDocument {
  const lines = linesOf(source);
  const shell = { file: options.file, source, lines };
  const problems: Problem[] = [];
  const report = (start: number, end: number, code: string, message: string) =>
    problems.push(problemAt(shell, { start, end }, { code, message }));
  const maxLength = options.maxLength ?? limits.length;
  if (source.length > maxLength) {
    report(0, 0, 'json-limit', `the file is longer than ${maxLength} characters`);
    return { ...shell, problems };
  }
  try {
    const root = new JsonReader(source, report).read();
    return { ...shell, root, problems };
  } catch (error) {
    if (!(error instanceof JsonSyntax)) throw error;
    report(error.offset, Math.min(error.offset + 1, source.length), error.code, error.message);
    return { ...shell, problems };
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;

class JsonReader {
  readonly #source: string;
  readonly #report: (start: number, end: number, code: string, message: string) => void;
  #at = 0;

  constructor(source: string, report: (start: number, end: number, code: string, message: string) => void) {
    this.#source = source;
    this.#report = report;
    if (source.startsWith('\ufeff')) this.#at = 1;
  }

  read(): DocNode {
    const root = this.#value(0);
    this.#blank();
    if (this.#at < this.#source.length) throw new JsonSyntax(this.#at, 'there is more text after the value');
    return root;
  }

  #blank(): void {
    while (/[ \t\n\r]/.test(this.#source[this.#at] ?? '')) this.#at++;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #value(depth: number): DocNode {
    if (depth > limits.depth)
      throw new JsonSyntax(this.#at, 'collections are nested too deeply', 'json-limit');
    this.#blank();
    const c = this.#source[this.#at];
    if (c === '{') return this.#object(depth);
    if (c === '[') return this.#array(depth);
    if (c === '"') return this.#string();
    const start = this.#at;
    const text = this.#match(NUMBER) ?? this.#match(WORD);
    if (text === undefined)
      throw new JsonSyntax(start, c === undefined ? 'the text ends early' : `unexpected \`${c}\``);
    const value = JSON.parse(text) as number | boolean | null;
    return { kind: 'scalar', value, text, style: 'plain', span: { start, end: this.#at } };
  }

  #string(): ScalarNode {
    const start = this.#at;
    // Scanned by hand: a pattern would need memory in proportion to the string.
    let end = start + 1;
    while (end < this.#source.length && this.#source[end] !== '"' && this.#source[end] !== '\n')
      end += this.#source[end] === '\\' ? 2 : 1;
    this.#at = end + 1;
    const text = jsonString(this.#source.slice(start, end + 1));
    if (text === undefined) throw new JsonSyntax(start, 'the string is not closed or holds a bad escape');
    return { kind: 'scalar', value: text, text, style: 'double', span: { start, end: this.#at } };
  }

  #array(depth: number): DocNode {
    const start = this.#at++;
    const items: DocNode[] = [];
    while (!this.#closes(']', items.length > 0)) items.push(this.#value(depth + 1));
    return { kind: 'seq', items, flow: true, span: { start, end: this.#at } };
  }

  #object(depth: number): DocNode {
    const start = this.#at++;
    const entries = new Map<string, MapEntry>();
    while (!this.#closes('}', entries.size > 0)) {
      this.#blank();
      if (this.#source[this.#at] !== '"')
        throw new JsonSyntax(this.#at, 'a key in double quotes is wanted here');
      const key = this.#string();
      this.#blank();
      if (this.#source[this.#at] !== ':') throw new JsonSyntax(this.#at, '`:` is wanted here');
      this.#at++;
      const value = this.#value(depth + 1);
      if (entries.delete(key.text))
        this.#report(
          key.span.start,
          key.span.end,
          'duplicate-key',
          `the key \`${key.text}\` stands twice in one map`,
        );
      entries.set(key.text, { key: key.text, keySpan: key.span, value });
    }
    return { kind: 'map', entries: [...entries.values()], flow: true, span: { start, end: this.#at } };
  }

  /** Steps over the comma before the next member, or over the closing bracket. */
  #closes(bracket: string, begun: boolean): boolean {
    this.#blank();
    const c = this.#source[this.#at];
    if (c === bracket) {
      this.#at++;
      return true;
    }
    if (!begun) return false;
    if (c !== ',') throw new JsonSyntax(this.#at, `\`,\` or \`${bracket}\` is wanted here`);
    this.#at++;
    this.#blank();
    if (this.#source[this.#at] === bracket)
      throw new JsonSyntax(this.#at, 'no comma may stand before the closing bracket');
    return false;
  }
}

function jsonString(raw: string): string | undefined {
  try {
    const value: unknown = JSON.parse(raw);
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}
