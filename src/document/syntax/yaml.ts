import {
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  parseAllDocuments,
  type Scalar,
  type Node as YamlNode,
} from 'yaml';
import { limits, type ParsedDocument, type ParseOptions, problemAt } from '../document.ts';
import { linesOf } from '../lines.ts';
import type { DocNode, MapEntry, ScalarStyle } from '../node.ts';
import type { Problem, Span } from '../types.ts';
import { explainSyntax, flowExpressions } from './expression-syntax.ts';

/** One file has at most this many syntax errors in its report; the rest follow from the first ones. */
const SYNTAX_ERRORS = 20;

/**
 * Reads one YAML 1.2 document (core schema, with the merge key of 1.1 that Porter's parser knows too).
 * Never throws: whatever is wrong stands in `problems`. Aliases are followed; their expansion is limited.
 */
export function parseWithLibrary(source: string, options: ParseOptions): ParsedDocument {
  const lines = linesOf(source);
  const shell = { file: options.file, source, lines };
  const fail = (span: Span, code: string, message: string, hint?: string): Problem =>
    problemAt(shell, span, { code, message, hint });
  const maxLength = options.maxLength ?? limits.length;
  if (source.length > maxLength)
    return {
      ...shell,
      problems: [fail(spanOf(0, 0), 'yaml-limit', `the file is longer than ${maxLength} characters`)],
    };
  if (source.includes('\0'))
    return {
      ...shell,
      problems: [
        fail(
          spanOf(source.indexOf('\0'), source.indexOf('\0') + 1),
          'yaml-syntax',
          'the file holds a NUL character',
        ),
      ],
    };
  const documents = readAll(source);
  if (documents instanceof Error)
    return {
      ...shell,
      problems: [fail(spanOf(0, 0), 'yaml-limit', `the file cannot be read: ${documents.message}`)],
    };
  const document = documents[0];
  const problems: Problem[] = [];
  if (document === undefined) return { ...shell, problems };
  for (const error of document.errors.slice(0, SYNTAX_ERRORS)) {
    const start = Math.min(error.pos[0], source.length);
    const known = explainSyntax(source, start);
    problems.push(
      error.code === 'RESOURCE_EXHAUSTION'
        ? fail(spanOf(start, start + 1), 'yaml-limit', 'collections are nested too deeply')
        : fail(
            known?.span ?? spanOf(start, Math.min(error.pos[1], source.length)),
            known === undefined ? 'yaml-syntax' : 'yaml-expression-quotes',
            known?.message ?? plainMessage(error.message),
            known?.hint ?? hintFor(error.code),
          ),
    );
  }
  if (documents[1] !== undefined) {
    const at = documents[1].range[0];
    problems.push(
      fail(
        spanOf(at, at),
        'yaml-several-documents',
        'the file holds more than one YAML document',
        'keep one and remove the `---` between them',
      ),
    );
  }
  const seen = dedupe(problems);
  if (document.contents === null || document.contents === undefined) return { ...shell, problems: seen };
  if (document.errors.some((error) => error.code === 'RESOURCE_EXHAUSTION'))
    return { ...shell, problems: seen };
  const converter = new Converter(source, (span, code, message, hint) =>
    seen.push(fail(span, code, message, hint)),
  );
  const root = converter.convert(document.contents as YamlNode);
  if (document.errors.length === 0)
    for (const found of flowExpressions(source, root))
      seen.push(fail(found.span, 'yaml-expression-quotes', found.message, found.hint));
  return root === undefined ? { ...shell, problems: seen } : { ...shell, root, problems: seen };
}

function readAll(source: string) {
  try {
    const all = parseAllDocuments(source, {
      uniqueKeys: false,
      prettyErrors: false,
      logLevel: 'silent',
      version: '1.2',
      schema: 'core',
      intAsBigInt: false,
    });
    return Array.isArray(all) ? all : [];
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function spanOf(start: number, end: number): Span {
  return { start, end };
}

function plainMessage(message: string): string {
  return message.replace(/\s+at line \d+, column \d+:?[\s\S]*$/, '');
}

function hintFor(code: string): string | undefined {
  if (code === 'TAB_AS_INDENT') return 'indent with spaces';
  if (code === 'BAD_INDENT') return 'line the keys of one map up with each other';
  if (code === 'BLOCK_AS_IMPLICIT_KEY') return 'quote the value if it holds `: `';
  if (code === 'MISSING_CHAR') return 'close the quote or bracket that was opened before';
  return undefined;
}

/** One problem a line; what follows an unquoted expression is a consequence of it. */
function dedupe(problems: readonly Problem[]): Problem[] {
  const seen = new Set<string>();
  const first = problems.findIndex((problem) => problem.code === 'yaml-expression-quotes');
  const from = problems[first]?.span?.start ?? Number.POSITIVE_INFINITY;
  return problems.filter((problem) => {
    if (problem.code === 'yaml-syntax' && (problem.span?.start ?? 0) >= from) return false;
    const key = `${problem.code}:${problem.place.line}:${problem.code === 'yaml-syntax' ? problem.place.column : ''}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

const STYLES: Readonly<Record<string, ScalarStyle>> = {
  PLAIN: 'plain',
  QUOTE_SINGLE: 'single',
  QUOTE_DOUBLE: 'double',
  BLOCK_LITERAL: 'literal',
  BLOCK_FOLDED: 'folded',
};

type Report = (span: Span, code: string, message: string, hint?: string) => void;

/** Turns the library's tree into ours. Aliases share one node; what they would expand to is counted, not built. */
class Converter {
  readonly #source: string;
  readonly #report: Report;
  readonly #anchors = new Map<string, DocNode>();
  readonly #open = new Set<string>();
  readonly #weights = new Map<DocNode, number>();
  #tooMany = false;

  constructor(source: string, report: Report) {
    this.#source = source;
    this.#report = report;
  }

  convert(node: YamlNode): DocNode | undefined {
    const root = this.#node(node, 0);
    return this.#tooMany ? undefined : root;
  }

  #node(node: YamlNode | null | undefined, fallback: number): DocNode {
    const span = this.#span(node, fallback);
    if (node === null || node === undefined) return emptyAt(span);
    if (isAlias(node)) return this.#alias(node.source, span);
    const anchor = 'anchor' in node ? node.anchor : undefined;
    if (anchor !== undefined) this.#open.add(anchor);
    const result = this.#collect(node, span);
    if (anchor !== undefined) {
      this.#open.delete(anchor);
      this.#anchors.set(anchor, result);
    }
    return result;
  }

  #collect(node: YamlNode, span: Span): DocNode {
    if (isScalar(node)) return this.#weigh(this.#scalar(node, span), []);
    if (isSeq(node)) {
      const items = node.items.map((item) => this.#item(item as YamlNode, span));
      const flow = node.flow === true;
      return this.#weigh(
        { kind: 'seq', items, flow, span: flow ? span : endingWith(span, items.at(-1)) },
        items,
      );
    }
    if (isMap(node)) return this.#map(node.items, node.flow === true, span);
    return emptyAt(span);
  }

  #item(item: YamlNode, span: Span): DocNode {
    // `[a: b]` is a pair in a list: a map of one entry.
    return isPair(item) ? this.#map([item], true, span) : this.#node(item, span.start);
  }

  #map(pairs: readonly unknown[], flow: boolean, span: Span): DocNode {
    const entries = new Map<string, MapEntry>();
    const merged: DocNode[] = [];
    for (const pair of pairs) {
      if (!isPair(pair)) continue;
      const keyNode = pair.key as YamlNode | null;
      const keySpan = this.#span(keyNode, span.start);
      if (keyNode !== null && !isScalar(keyNode) && !isAlias(keyNode)) {
        this.#badKey(keySpan);
        continue;
      }
      const keyScalar = this.#node(keyNode, span.start);
      const key = keyScalar.kind === 'scalar' ? keyScalar.text : '';
      const value = this.#node(pair.value as YamlNode | null, keySpan.end);
      if (key === '<<' && keyScalar.kind === 'scalar' && keyScalar.style === 'plain') {
        merged.push(value);
        continue;
      }
      const earlier = entries.get(key);
      if (earlier !== undefined) {
        const line = lineNumber(this.#source, earlier.keySpan.start);
        this.#report(
          keySpan,
          'duplicate-key',
          `the key \`${key}\` stands twice in one map`,
          `the first is on line ${line}; keep one`,
        );
        entries.delete(key);
      }
      entries.set(key, { key, keySpan, value });
    }
    for (const source of merged) this.#merge(entries, source);
    const list = [...entries.values()];
    const values = list.map((entry) => entry.value);
    const whole = flow || merged.length > 0 ? span : endingWith(span, values.at(-1));
    return this.#weigh({ kind: 'map', entries: list, flow, span: whole }, values);
  }

  #badKey(span: Span): void {
    if (this.#source.startsWith('{', span.start) && this.#source[span.start - 1] === '{')
      this.#report(
        { start: span.start - 1, end: span.end },
        'yaml-expression-quotes',
        'the expression stands unquoted where YAML takes its braces for a map',
        'quote the whole value, as in "{{ bundle.parameters.name }}"',
      );
    else this.#report(span, 'yaml-key', 'a key must be plain text');
  }

  #merge(entries: Map<string, MapEntry>, source: DocNode): void {
    const maps = source.kind === 'seq' ? source.items : [source];
    for (const map of maps) {
      if (map.kind !== 'map') this.#report(source.span, 'yaml-merge', '`<<` needs a map or a list of maps');
      else for (const entry of map.entries) if (!entries.has(entry.key)) entries.set(entry.key, entry);
    }
  }

  #alias(name: string, span: Span): DocNode {
    const target = this.#anchors.get(name);
    if (target !== undefined) return target;
    const inside = this.#open.has(name);
    this.#report(
      span,
      'yaml-alias',
      inside
        ? `the alias \`*${name}\` stands inside what it names`
        : `the alias \`*${name}\` names no anchor before it`,
      inside ? undefined : 'quote the value if it is meant to begin with `*`',
    );
    return emptyAt(span);
  }

  #scalar(node: Scalar, range: Span): DocNode {
    const style = STYLES[node.type ?? 'PLAIN'] ?? 'plain';
    const span = scalarSpan(this.#source, range, style);
    const value = node.value;
    const text = node.source ?? (value === null || value === undefined ? '' : String(value));
    if (typeof value === 'string' || typeof value === 'boolean' || value === null)
      return { kind: 'scalar', value, text, style, span };
    if (typeof value === 'number')
      // `.inf` and `.nan` are no JSON; they stay the text they were written as.
      return { kind: 'scalar', value: Number.isFinite(value) ? value : text, text, style, span };
    return { kind: 'scalar', value: text, text, style, span };
  }

  /** Expanded size of a node; shared nodes count each time they are met. */
  #weigh(node: DocNode, children: readonly DocNode[]): DocNode {
    let weight = 1;
    for (const child of children) weight += this.#weights.get(child) ?? 1;
    this.#weights.set(node, weight);
    if (weight > limits.nodes && !this.#tooMany) {
      this.#tooMany = true;
      this.#report(
        node.span,
        'yaml-limit',
        `the file has more than ${limits.nodes} values once its aliases are followed`,
      );
    }
    return node;
  }

  #span(node: YamlNode | null | undefined, fallback: number): Span {
    const range = node?.range;
    return range === null || range === undefined ? spanOf(fallback, fallback) : spanOf(range[0], range[1]);
  }
}

/** A block collection ends with its last value, not with the comments and blank lines behind it. */
function endingWith(span: Span, last: DocNode | undefined): Span {
  return last === undefined || last.span.start < span.start ? span : spanOf(span.start, last.span.end);
}

/**
 * The library's ranges take in blanks before an empty value and some of the blank lines behind a block scalar. Ours
 * begin behind the marker, and end with the last line of content (with `+`, which keeps blank lines, behind those).
 */
function scalarSpan(source: string, range: Span, style: ScalarStyle): Span {
  if (style === 'plain' && range.start === range.end) {
    let at = range.start;
    while (source[at - 1] === ' ') at--;
    return spanOf(at, at);
  }
  if (style !== 'literal' && style !== 'folded') return range;
  if (/^[|>][0-9]?\+/.test(source.slice(range.start, range.start + 3))) return range;
  let end = range.end;
  while (end > range.start && /\s/.test(source[end - 1] as string)) end--;
  const lineBreak = source.indexOf('\n', end);
  return spanOf(range.start, lineBreak < 0 ? source.length : lineBreak + 1);
}

function emptyAt(span: Span): DocNode {
  return { kind: 'scalar', value: null, text: '', style: 'plain', span };
}

function lineNumber(source: string, offset: number): number {
  let line = 1;
  for (let i = source.indexOf('\n'); i >= 0 && i < offset; i = source.indexOf('\n', i + 1)) line++;
  return line;
}
