export { toCnabBundle } from './cnab.ts';
export { type LintOptions, lintBundle, lintSource } from './lint/index.ts';
export { type ParseResult, parseBundle } from './parse.ts';
export { checkValue } from './check-value.ts';
