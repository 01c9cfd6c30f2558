export { type ParsedDocument, type ParseOptions, type ProblemDraft, problemAt } from './document.ts';
export { applyEdits, mergeFixes } from './edits.ts';
export { type Lines, linesOf, placeAt } from './lines.ts';
export {
  childOf,
  type DocNode,
  entryOf,
  isNullish,
  type MapEntry,
  type MapNode,
  type ScalarNode,
  type ScalarStyle,
  type SeqNode,
  scalarsOf,
  toJson,
} from './node.ts';
export { editScalar, type SourceText, sourceOffset, sourceSpan, styleAt } from './offsets.ts';
export { formatPointer, locate, parsePointer } from './pointer.ts';
export { readYaml } from './read.ts';
export { toSarif } from './sarif.ts';
export { didYouMean, editDistance } from './suggest.ts';
export type * from './types.ts';

/** Loads the parsers (`parseYaml`, `parseJson`): some milliseconds, once. */
export function loadDocument(): Promise<typeof import('./syntax/index.ts')> {
  return import('./syntax/index.ts');
}
