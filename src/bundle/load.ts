export { toCnabBundle } from './cnab.ts';
export { bundleSchema } from './editor-schema.ts';
export { type LintOptions, lintBundle, lintSource, readBundle } from './lint/index.ts';
export { checkValue, loadPatterns } from './lint/values.ts';
export type { ParseResult } from './parse.ts';
export { parseBundle } from './parse-bundle.ts';
