import type { DocNode, MapEntry, ScalarNode } from '../node.ts';
import type { Span } from '../types.ts';
import { Bail, plainScalar, unescapeDouble } from './fast-scalars.ts';

/**
 * Reads the plain part of YAML that nearly every porter.yaml consists of: block maps and lists, one-line scalars and
 * flow collections, literal blocks, comments. Anything else (anchors, tags, folding, odd keys, every error) gives
 * undefined, and the library reads the file. Loading and running the library costs more than all the rest of lint.
 * A property test holds the two to the same tree, spans included.
 */
export function parsePlainYaml(source: string): DocNode | undefined {
  if (/[\r\ufeff\u0085\u2028\u2029]/.test(source)) return undefined;
  try {
    return new FastReader(source).document();
  } catch (error) {
    if (error instanceof Bail) return undefined;
    throw error;
  }
}

const KEY = /([A-Za-z0-9_$./][A-Za-z0-9_./+*-]*(?: [A-Za-z0-9_./+*-]+)*) *:(?=[ \n]|$)/y;
const FLOW_KEY = /([A-Za-z0-9_$./][A-Za-z0-9_./+-]*) *:(?=[ ])/y;
const FLOW_PLAIN =
  /(?:[A-Za-z0-9_$./^(]|-(?=[A-Za-z0-9_./-]))[^,[\]{}"'#:\n&*!|>%@`\t]*(?::[^ ,[\]{}"'#\n\t][^,[\]{}"'#:\n\t]*)*/y;
/** Nested deeper than this, the library says so. */
const DEEPEST = 60;

class FastReader {
  readonly #source: string;
  #at = 0;
  #depth = 0;

  constructor(source: string) {
    this.#source = source;
  }

  document(): DocNode {
    const indent = this.#nextLine();
    if (indent !== 0 || /^(?:---|\.\.\.|%)/.test(this.#source.slice(this.#at, this.#at + 3)))
      throw new Bail();
    const root = this.#block(0);
    if (this.#nextLine() >= 0) throw new Bail();
    return root;
  }

  /** Moves to the first character of the next line with content; its indent, or -1 at the end. */
  #nextLine(): number {
    const source = this.#source;
    for (;;) {
      const start = this.#at;
      let i = start;
      while (source[i] === ' ') i++;
      const c = source[i];
      if (c === undefined) {
        this.#at = i;
        return -1;
      }
      if (c === '\t') throw new Bail();
      if (c === '\n') this.#at = i + 1;
      else if (c === '#') this.#at = this.#lineEnd(i) + 1;
      else {
        this.#at = i;
        const indent = i - (source.lastIndexOf('\n', i - 1) + 1);
        if (indent === 0 && (source.startsWith('---', i) || source.startsWith('...', i))) throw new Bail();
        return indent;
      }
      if (this.#at > source.length) this.#at = source.length;
    }
  }

  #lineEnd(from: number): number {
    const end = this.#source.indexOf('\n', from);
    return end < 0 ? this.#source.length : end;
  }

  /** Indent of the next line with content, without moving there; -1 at the end. */
  #peek(): number {
    const kept = this.#at;
    const indent = this.#nextLine();
    this.#at = kept;
    return indent;
  }

  #block(indent: number): DocNode {
    if (++this.#depth > DEEPEST) throw new Bail();
    const node = this.#isDash() ? this.#seq(indent) : this.#map(indent);
    this.#depth--;
    return node;
  }

  #isDash(): boolean {
    const next = this.#source[this.#at + 1];
    return this.#source[this.#at] === '-' && (next === ' ' || next === '\n' || next === undefined);
  }

  #keyHere(): { readonly text: string; readonly span: Span } | undefined {
    KEY.lastIndex = this.#at;
    const match = KEY.exec(this.#source);
    if (match === null) return undefined;
    const text = match[1] as string;
    const span = { start: this.#at, end: this.#at + text.length };
    this.#at += match[0].length;
    return { text, span };
  }

  #map(indent: number): DocNode {
    const start = this.#at;
    const entries: MapEntry[] = [];
    const seen = new Set<string>();
    do {
      const key = this.#keyHere();
      // A duplicate is the library's to report.
      if (key === undefined || seen.has(key.text)) throw new Bail();
      seen.add(key.text);
      entries.push({ key: key.text, keySpan: key.span, value: this.#value(indent, true) });
    } while (this.#more(indent));
    return {
      kind: 'map',
      entries,
      flow: false,
      span: { start, end: (entries.at(-1) as MapEntry).value.span.end },
    };
  }

  #seq(indent: number): DocNode {
    const start = this.#at;
    const items: DocNode[] = [];
    do {
      if (!this.#isDash()) {
        if (items.length === 0) throw new Bail();
        break;
      }
      this.#at++;
      items.push(this.#value(indent, false));
    } while (this.#more(indent));
    return { kind: 'seq', items, flow: false, span: { start, end: (items.at(-1) as DocNode).span.end } };
  }

  /** True when the next line with content goes on in this collection; moves there. */
  #more(indent: number): boolean {
    const next = this.#peek();
    if (next > indent) throw new Bail();
    if (next !== indent) return false;
    this.#nextLine();
    return true;
  }

  /** What stands behind `key:` or `-`. */
  #value(indent: number, inMap: boolean): DocNode {
    const source = this.#source;
    const marker = this.#at;
    while (source[this.#at] === ' ') this.#at++;
    const c = source[this.#at];
    if (c === undefined || c === '\n' || (c === '#' && this.#at > marker))
      return this.#below(indent, { inMap, marker });
    if (!inMap) {
      if (this.#isDash()) return this.#block(this.#column());
      KEY.lastIndex = this.#at;
      if (KEY.test(source)) return this.#block(this.#column());
    }
    return this.#inline(indent, c);
  }

  #column(): number {
    return this.#at - (this.#source.lastIndexOf('\n', this.#at - 1) + 1);
  }

  #below(indent: number, options: { readonly inMap: boolean; readonly marker: number }): DocNode {
    this.#at = Math.min(this.#lineEnd(this.#at) + 1, this.#source.length);
    const kept = this.#at;
    const next = this.#nextLine();
    // A list may stand at the indent of the key that holds it.
    if (next > indent || (options.inMap && next === indent && this.#isDash())) {
      const isScalar = !this.#isDash() && !this.#startsKey();
      if (isScalar) throw new Bail();
      return this.#block(next);
    }
    this.#at = kept;
    return {
      kind: 'scalar',
      value: null,
      text: '',
      style: 'plain',
      span: { start: options.marker, end: options.marker },
    };
  }

  #startsKey(): boolean {
    KEY.lastIndex = this.#at;
    return KEY.test(this.#source);
  }

  #inline(indent: number, c: string): DocNode {
    const node =
      c === '"' || c === "'"
        ? this.#quoted(c)
        : c === '[' || c === '{'
          ? this.#flow()
          : c === '|'
            ? this.#literal(indent)
            : this.#plain();
    if (c === '|') return node;
    this.#endLine();
    // A deeper line would go on with the scalar.
    if (this.#peek() > indent) throw new Bail();
    return node;
  }

  /** Blanks and a comment up to the end of the line. */
  #endLine(): void {
    const source = this.#source;
    const from = this.#at;
    while (source[this.#at] === ' ') this.#at++;
    const c = source[this.#at];
    if (c === '#' && this.#at > from) this.#at = this.#lineEnd(this.#at);
    else if (c !== undefined && c !== '\n') throw new Bail();
    if (this.#at < source.length) this.#at++;
  }

  #quoted(quote: string): ScalarNode {
    const source = this.#source;
    const start = this.#at;
    let i = start + 1;
    let plain = true;
    for (;;) {
      const c = source[i];
      if (c === undefined || c === '\n') throw new Bail();
      if (c === quote && !(quote === "'" && source[i + 1] === "'")) break;
      if (c === '\\' && quote === '"') {
        plain = false;
        i++;
      } else if (c === "'" && quote === "'") {
        plain = false;
        i++;
      }
      i++;
    }
    this.#at = i + 1;
    const inner = source.slice(start + 1, i);
    const text = plain ? inner : quote === "'" ? inner.replaceAll("''", "'") : unescapeDouble(inner);
    return {
      kind: 'scalar',
      value: text,
      text,
      style: quote === "'" ? 'single' : 'double',
      span: { start, end: i + 1 },
    };
  }

  #plain(): ScalarNode {
    const source = this.#source;
    const start = this.#at;
    const end = this.#lineEnd(start);
    let text = source.slice(start, end);
    const comment = text.search(/[ \t]#/);
    if (comment >= 0) text = text.slice(0, comment);
    text = text.trimEnd();
    if (
      !/^[A-Za-z0-9_$./^(~<=+;\\-]/.test(text) ||
      /^-(?: |$)/.test(text) ||
      /:(?: |$)/.test(text) ||
      text.includes('\t')
    )
      throw new Bail();
    this.#at = start + text.length;
    return plainScalar(text, start);
  }

  #flow(): DocNode {
    if (++this.#depth > DEEPEST) throw new Bail();
    const start = this.#at;
    const isSeq = this.#source[this.#at++] === '[';
    const close = isSeq ? ']' : '}';
    const items: DocNode[] = [];
    const entries = new Map<string, MapEntry>();
    this.#spaces();
    while (this.#source[this.#at] !== close) {
      if (isSeq) items.push(this.#flowValue());
      else {
        FLOW_KEY.lastIndex = this.#at;
        const match = FLOW_KEY.exec(this.#source);
        const key = match?.[1];
        if (match === null || key === undefined || entries.has(key)) throw new Bail();
        const keySpan = { start: this.#at, end: this.#at + key.length };
        this.#at += match[0].length;
        this.#spaces();
        entries.set(key, { key, keySpan, value: this.#flowValue() });
      }
      this.#spaces();
      if (this.#source[this.#at] === close) break;
      if (this.#source[this.#at] !== ',') throw new Bail();
      this.#at++;
      this.#spaces();
      if (this.#source[this.#at] === close) throw new Bail();
    }
    this.#at++;
    this.#depth--;
    const span = { start, end: this.#at };
    return isSeq
      ? { kind: 'seq', items, flow: true, span }
      : { kind: 'map', entries: [...entries.values()], flow: true, span };
  }

  #spaces(): void {
    while (this.#source[this.#at] === ' ') this.#at++;
  }

  #flowValue(): DocNode {
    const c = this.#source[this.#at];
    if (c === '[' || c === '{') return this.#flow();
    if (c === '"' || c === "'") {
      const node = this.#quoted(c);
      // `"a":b` would be a key.
      if (this.#source[this.#at] === ':') throw new Bail();
      return node;
    }
    FLOW_PLAIN.lastIndex = this.#at;
    const match = FLOW_PLAIN.exec(this.#source)?.[0]?.trimEnd();
    if (match === undefined || match.endsWith(':')) throw new Bail();
    const node = plainScalar(match, this.#at);
    this.#at += match.length;
    return node;
  }

  #literal(parent: number): ScalarNode {
    const source = this.#source;
    const start = this.#at;
    // `|+`, which keeps blank lines, is rare and the library's business.
    const header = /\|(-?)(?: +#[^\n]*| *)(?=\n|$)/y;
    header.lastIndex = start;
    const match = header.exec(source);
    if (match === null) throw new Bail();
    let at = Math.min(this.#lineEnd(start) + 1, source.length);
    const lines: string[] = [];
    let indent = -1;
    let blankWidth = 0;
    let content = 0;
    let contentEnd = at;
    while (at < source.length) {
      const end = this.#lineEnd(at);
      let i = at;
      while (i < end && source[i] === ' ') i++;
      const width = i - at;
      const blank = i === end;
      if (!blank && indent < 0) {
        if (width <= parent) break;
        if (blankWidth > width || source[i] === '\t') throw new Bail();
        indent = width;
      } else if (!blank && width < indent) {
        // Neither in the block nor out of it.
        if (width > parent) throw new Bail();
        break;
      }
      if (blank && indent < 0) blankWidth = Math.max(blankWidth, width);
      const text = blank && (indent < 0 || width <= indent) ? '' : source.slice(at + indent, end);
      lines.push(text);
      // A line of blanks beyond the indent is content; how its end is chomped is the library's business.
      if (blank && text !== '') throw new Bail();
      if (text !== '') {
        content = lines.length;
        contentEnd = Math.min(end + 1, source.length);
      }
      if (end >= source.length) {
        at = source.length;
        if (!blank && source[source.length - 1] !== '\n') throw new Bail();
        break;
      }
      at = end + 1;
    }
    if (content === 0) throw new Bail();
    const body = lines.slice(0, content).join('\n');
    const text = match[1] === '-' ? body : `${body}\n`;
    this.#at = at;
    return { kind: 'scalar', value: text, text, style: 'literal', span: { start, end: contentEnd } };
  }
}
