export { toCnabBundle } from './cnab.ts';
export { type ParseResult, parseBundle } from './parse.ts';
