/** JSON Schema draft-07, without code generation: schemas come from bundles, and nothing in them becomes code. */
export { canonical } from './equal.ts';
export { checkSchema, type FoundSchema } from './meta.ts';
export { type PatternTest, type Schema, type SchemaError, validate } from './validate.ts';
