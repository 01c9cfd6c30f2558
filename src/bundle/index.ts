export { bundleError, bundleNotFound, bundleText } from './errors.ts';
export type { FactsOf, ImageFacts, InterfaceFacts } from './lint/interface.ts';
export type { TagState } from './lint/tags.ts';
export type * from './model.ts';
export type { ParseResult } from './parse.ts';

/** Loads what reads and checks in one go, and nothing that only other commands need. */
export function loadLint(): Promise<typeof import('./lint/index.ts')> {
  return import('./lint/index.ts');
}

/** Loads the parser and the checks: `parseBundle(source, {file})`, … */
export function loadBundle(): Promise<typeof import('./load.ts')> {
  return import('./load.ts');
}
