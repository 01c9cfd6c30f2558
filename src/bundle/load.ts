export { type ParseResult, parseBundle } from './parse.ts';
