import {
  evaluate,
  evaluatePartially,
  parseTemplate,
  references,
  type Scope,
  stringify,
  type Template,
} from '../document/expression/index.ts';
import type { Json } from '../document/index.ts';
import type { Late } from './types.ts';

export type Delimiters = 'dollar' | 'mustache';

/** Fills in what is known; what is late, or must not stand in a plan, stays an expression. */
export function toLate(text: string | Template, scope: Scope, delimiters: Delimiters): Late {
  const template = typeof text === 'string' ? parseTemplate(text, { delimiters }) : text;
  const result = evaluatePartially(template, scope);
  if (result.state === 'late') return { template: result.residual, sensitive: result.sensitive };
  return result.sensitive ? { template: template.source, sensitive: true } : { value: result.value };
}

/** The value of a `Late` now that everything is known, and whether something sensitive went in. */
export function settle(
  late: Late,
  scope: Scope,
  delimiters: Delimiters,
): { readonly value: Json; readonly sensitive: boolean } {
  if ('value' in late) return { value: late.value, sensitive: false };
  const result = evaluate(parseTemplate(late.template, { delimiters }), scope);
  return { value: result.value, sensitive: result.sensitive };
}

export function settleText(
  late: Late,
  scope: Scope,
  delimiters: Delimiters,
): { readonly text: string; readonly sensitive: boolean } {
  const { value, sensitive } = settle(late, scope, delimiters);
  return { text: stringify(value), sensitive };
}

/** The names that texts read, for visibility. */
export function readsOf(texts: readonly string[], delimiters: Delimiters): readonly (readonly string[])[] {
  return texts.flatMap((text) =>
    references(parseTemplate(text, { delimiters })).map((reference) => reference.path),
  );
}

/** Every string of a JSON tree, keys not among them. */
export function stringsOf(tree: Json): readonly string[] {
  if (typeof tree === 'string') return [tree];
  if (Array.isArray(tree)) return tree.flatMap((item: Json) => stringsOf(item));
  if (typeof tree === 'object' && tree !== null)
    return Object.values(tree).flatMap((item: Json) => stringsOf(item));
  return [];
}

/** The tree with every string replaced; a value never adds or changes a key. */
export function mapStrings(tree: Json, map: (text: string) => Json): Json {
  if (typeof tree === 'string') return map(tree);
  if (Array.isArray(tree)) return tree.map((item: Json) => mapStrings(item, map));
  if (typeof tree === 'object' && tree !== null) {
    return Object.fromEntries(
      Object.entries(tree).map(([key, item]) => [key, mapStrings(item as Json, map)]),
    );
  }
  return tree;
}
