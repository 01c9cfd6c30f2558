import type { Bundle } from './model.ts';

const DOLLAR = /\$\{\s*([A-Za-z][A-Za-z0-9_.-]*)\s*\}/g;
const MUSTACHE = /\{\{\{?\s*&?\s*([A-Za-z][A-Za-z0-9_.-]*)\s*\}?\}\}/g;
const PATHS = /\b((?:bundle|installation|outputs|env)(?:\.[A-Za-z0-9_-]+)+)/g;

/**
 * Names that a file's expressions use, as Porter finds them: in the text of the whole file, comments too. Within an
 * expression with operators each dotted path counts.
 */
export function templateNames(bundle: Pick<Bundle, 'source' | 'delimiters'>): ReadonlySet<string> {
  const names = new Set<string>();
  if (bundle.delimiters === 'mustache') {
    for (const match of bundle.source.matchAll(MUSTACHE)) names.add(match[1] as string);
    return names;
  }
  for (const match of bundle.source.matchAll(DOLLAR)) names.add(match[1] as string);
  for (const [, inner = ''] of bundle.source.matchAll(/\$\{([^}\n]{0,2000})\}/g))
    for (const path of inner.matchAll(PATHS)) names.add(path[1] as string);
  return names;
}
