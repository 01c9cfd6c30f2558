import type { Json, Span } from './types.ts';

/** How a scalar is written; decides how an offset in its value maps to the source (`sourceOffset`). */
export type ScalarStyle = 'plain' | 'single' | 'double' | 'literal' | 'folded';

export interface ScalarNode {
  readonly kind: 'scalar';
  readonly value: null | boolean | number | string;
  /** What stands in the file after quotes, escapes and folding are undone: `007` stays `007`. */
  readonly text: string;
  readonly style: ScalarStyle;
  readonly span: Span;
}

export interface SeqNode {
  readonly kind: 'seq';
  readonly items: readonly DocNode[];
  readonly flow: boolean;
  readonly span: Span;
}

export interface MapEntry {
  readonly key: string;
  readonly keySpan: Span;
  readonly value: DocNode;
}

export interface MapNode {
  readonly kind: 'map';
  /** In file order; of a duplicate key the last stands, the earlier ones are in the document's `duplicates`. */
  readonly entries: readonly MapEntry[];
  readonly flow: boolean;
  readonly span: Span;
}

export type DocNode = ScalarNode | SeqNode | MapNode;

export function entryOf(node: DocNode | undefined, key: string): MapEntry | undefined {
  return node?.kind === 'map' ? node.entries.find((entry) => entry.key === key) : undefined;
}

export function childOf(node: DocNode | undefined, key: string): DocNode | undefined {
  return entryOf(node, key)?.value;
}

/** True for an absent node and for a written null (`key:` with nothing behind it). */
export function isNullish(node: DocNode | undefined): node is undefined | ScalarNode {
  return node === undefined || (node.kind === 'scalar' && node.value === null);
}

/** Plain JSON; map keys become own properties whatever their name (`__proto__` included). */
export function toJson(node: DocNode): Json {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'seq') return node.items.map(toJson);
  return Object.fromEntries(node.entries.map((entry) => [entry.key, toJson(entry.value)]));
}

/** Each scalar below a node with the pointer that leads to it, in file order. */
export function* scalarsOf(
  node: DocNode,
  path: readonly string[] = [],
): Generator<{ readonly node: ScalarNode; readonly path: readonly string[] }> {
  if (node.kind === 'scalar') yield { node, path };
  else if (node.kind === 'seq')
    for (const [i, item] of node.items.entries()) yield* scalarsOf(item, [...path, String(i)]);
  else for (const entry of node.entries) yield* scalarsOf(entry.value, [...path, entry.key]);
}
