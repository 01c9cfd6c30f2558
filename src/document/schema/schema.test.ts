import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { expect, test } from 'vitest';
import { cpuSeconds } from '../../testkit/cpu.ts';
import { fc } from '../../testkit/property.ts';
import type { Json } from '../types.ts';
import { checkSchema, type Schema, validate } from './index.ts';

const options = { test: (pattern: string, text: string) => new RegExp(pattern, 'u').test(text) };
const ajv = new Ajv({
  strict: false,
  allErrors: true,
  validateFormats: true,
  logger: false,
  multipleOfPrecision: 9,
  ownProperties: true,
});
addFormats.default(ajv);

const key = fc.constantFrom('a', 'b', 'c', 'constructor', '__proto__x');
const scalar = fc.oneof(
  fc.integer({ min: -5, max: 12 }),
  fc.constantFrom(0.5, 0.3, 1.5, 1e3),
  fc.constantFrom(
    '',
    'a',
    'ab',
    'abc',
    'é',
    '🙂',
    '2026-01-31',
    '2026-02-30',
    '10.0.0.1',
    '::1',
    'a@b.c',
    'x.example',
    'https://x.example/y',
  ),
  fc.boolean(),
  fc.constant(null),
);
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(key, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value as fc.Arbitrary<Json>;

const type = fc.constantFrom('string', 'integer', 'number', 'boolean', 'array', 'object', 'null');
/** A few keywords at a time: with all of them nearly nothing is accepted. */
function someOf(keywords: Readonly<Record<string, fc.Arbitrary<unknown>>>): fc.Arbitrary<Schema> {
  const each = Object.entries(keywords).map(([name, one]) => one.map((value) => ({ [name]: value })));
  return fc
    .array(fc.oneof(...each), { minLength: 1, maxLength: 4 })
    .map((list) => Object.assign({}, ...list) as Schema);
}

const schema = fc.letrec((tie) => ({
  schema: fc.oneof(
    { maxDepth: 2, withCrossShrink: true },
    fc.boolean(),
    someOf({
      type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1, maxLength: 3 })),
      enum: fc.uniqueArray(scalar, { minLength: 1, maxLength: 4 }),
      const: scalar,
      multipleOf: fc.constantFrom(1, 2, 0.1, 0.5),
      minimum: fc.integer({ min: -3, max: 8 }),
      maximum: fc.integer({ min: -3, max: 8 }),
      exclusiveMinimum: fc.integer({ min: -3, max: 8 }),
      exclusiveMaximum: fc.integer({ min: -3, max: 8 }),
      minLength: fc.nat(3),
      maxLength: fc.nat(3),
      pattern: fc.constantFrom('^a', 'b$', '^.{1,2}$'),
      format: fc.constantFrom('date', 'ipv4', 'ipv6', 'uri', 'uuid', 'hostname', 'email', 'unheard-of'),
      minItems: fc.nat(3),
      maxItems: fc.nat(3),
      uniqueItems: fc.boolean(),
      items: fc.oneof(tie('schema'), fc.array(tie('schema'), { minLength: 1, maxLength: 2 })),
      additionalItems: tie('schema'),
      contains: tie('schema'),
      required: fc.uniqueArray(key, { maxLength: 2 }),
      minProperties: fc.nat(2),
      maxProperties: fc.nat(3),
      properties: fc.dictionary(key, tie('schema'), { maxKeys: 2, noNullPrototype: true }),
      patternProperties: fc.dictionary(fc.constantFrom('^a', 'b'), tie('schema'), {
        maxKeys: 1,
        noNullPrototype: true,
      }),
      additionalProperties: tie('schema'),
      propertyNames: tie('schema'),
      dependencies: fc.dictionary(key, fc.oneof(fc.uniqueArray(key, { maxLength: 2 }), tie('schema')), {
        maxKeys: 1,
        noNullPrototype: true,
      }),
      allOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
      anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
      oneOf: fc.array(tie('schema'), { minLength: 1, maxLength: 2 }),
      not: tie('schema'),
      if: tie('schema'),
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: tie('schema'),
      else: tie('schema'),
    }),
  ),
})).schema as fc.Arbitrary<Schema>;

test('the verdict is that of another implementation', () => {
  let accepted = 0;
  let refused = 0;
  fc.assert(
    fc.property(schema, json, (one, value) => {
      const expected = ajv.validate(one as object, value);
      expect(checkSchema(one).errors).toEqual([]);
      const errors = validate(one, value, options);
      if (expected) accepted++;
      else refused++;
      expect(errors.length === 0, JSON.stringify({ one, value, errors, ajv: ajv.errors })).toBe(expected);
    }),
    { numRuns: 2000 },
  );
  expect(Math.min(accepted, refused)).toBeGreaterThan(300);
});

test.each([
  [{ type: 'integer', minimum: 1 }, 0, 'must be at least 1'],
  [{ type: 'integer' }, '5', 'must be of type integer, and is of type string'],
  [{ enum: ['eu', 'us'] }, 'uk', 'must be one of "eu", "us"'],
  [{ properties: { a: { type: 'string' } } }, { a: 1 }, 'must be of type string, and is of type number'],
  [
    { $ref: '#/definitions/x', definitions: { x: { type: 'string' } } },
    1,
    'must be of type string, and is of type number',
  ],
] as const)('%j says why %j is wrong', (one, value, message) => {
  expect(validate(one as Schema, value as Json, options).map((error) => error.message)).toEqual([message]);
});

test('a schema that refers to itself without end stops', async () => {
  expect(validate({ $ref: '#' }, 1, options)[0]?.message).toContain('too deep');
  const fan: Schema = { anyOf: [{ $ref: '#' }, { $ref: '#' }, { $ref: '#' }], not: true };
  expect(await cpuSeconds(() => validate(fan, 1, options))).toBeLessThan(10);
});

test.each([
  [{ type: 'strng' }, ['type']],
  [{ minLength: -1 }, ['minLength']],
  [{ properties: { a: { required: 'x' } } }, ['properties', 'a', 'required']],
  [{ items: 3 }, ['items']],
  [{ $ref: 'https://elsewhere.example/x' }, ['$ref']],
  [{ $ref: '#/definitions/none' }, ['$ref']],
] as const)('%j is no schema', (one, path) => {
  expect(checkSchema(one as Schema).errors.map((error) => error.path)).toEqual([path]);
});
