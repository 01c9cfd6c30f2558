import type { Json } from '../types.ts';
import { resolveRef, type Schema, type SchemaError, typeOf } from './validate.ts';

const TYPES = new Set(['string', 'integer', 'number', 'boolean', 'array', 'object', 'null']);

type Rule = (value: Json) => string | undefined;

const count: Rule = (value) =>
  Number.isInteger(value) && (value as number) >= 0 ? undefined : 'must be a whole number from 0';
const numeric: Rule = (value) => (typeof value === 'number' ? undefined : 'must be a number');
const text: Rule = (value) => (typeof value === 'string' ? undefined : 'must be text');
const flag: Rule = (value) => (typeof value === 'boolean' ? undefined : 'must be true or false');
const names: Rule = (value) =>
  Array.isArray(value) && value.every((one) => typeof one === 'string')
    ? undefined
    : 'must be a list of names';
const list: Rule = (value) =>
  Array.isArray(value) && value.length > 0 ? undefined : 'must be a list with at least one item';

/** Keywords that hold no schema, with the form they must have. */
const RULES: Readonly<Record<string, Rule>> = {
  type: (value) => {
    const types = Array.isArray(value) ? value : [value];
    return types.length > 0 && types.every((one) => typeof one === 'string' && TYPES.has(one))
      ? undefined
      : `must be one of ${[...TYPES].join(', ')}`;
  },
  enum: list,
  multipleOf: (value) => (typeof value === 'number' && value > 0 ? undefined : 'must be a number above 0'),
  maximum: numeric,
  exclusiveMaximum: numeric,
  minimum: numeric,
  exclusiveMinimum: numeric,
  maxLength: count,
  minLength: count,
  maxItems: count,
  minItems: count,
  maxProperties: count,
  minProperties: count,
  uniqueItems: flag,
  readOnly: flag,
  writeOnly: flag,
  required: names,
  pattern: text,
  format: text,
  title: text,
  description: text,
  contentEncoding: text,
  contentMediaType: text,
  $ref: text,
  $id: text,
  $comment: text,
};

const SINGLE = [
  'additionalItems',
  'contains',
  'additionalProperties',
  'propertyNames',
  'if',
  'then',
  'else',
  'not',
];
const LISTS = ['allOf', 'anyOf', 'oneOf'];
const MAPS = ['properties', 'patternProperties', 'definitions'];

export interface FoundSchema {
  /** What is wrong with the schema itself; paths are in the schema. */
  readonly errors: readonly SchemaError[];
  /** Every pattern in it, to be tried on the engine. */
  readonly patterns: readonly { readonly path: readonly string[]; readonly pattern: string }[];
}

/** Whether a schema is one (JSON Schema draft-07), and which patterns it uses. */
export function checkSchema(schema: Schema): FoundSchema {
  const errors: SchemaError[] = [];
  const patterns: { readonly path: readonly string[]; readonly pattern: string }[] = [];
  const visit = (json: Json, path: readonly string[]): void => {
    if (typeof json === 'boolean') return;
    if (typeOf(json) !== 'object' || json === null) {
      errors.push({ path, message: 'must be a schema: a map, or true or false' });
      return;
    }
    const node = json as { readonly [key: string]: Json };
    for (const [key, value] of Object.entries(node)) {
      const rule = Object.hasOwn(RULES, key) ? RULES[key] : undefined;
      const wrong = rule?.(value);
      if (wrong !== undefined) errors.push({ path: [...path, key], message: wrong });
      if (SINGLE.includes(key)) visit(value, [...path, key]);
      else if (LISTS.includes(key)) each(key, value, path);
      else if (MAPS.includes(key)) members(key, value, path);
      else if (key === 'items') Array.isArray(value) ? each(key, value, path) : visit(value, [...path, key]);
      else if (key === 'dependencies') dependencies(value, path);
    }
    if (typeof node.pattern === 'string')
      patterns.push({ path: [...path, 'pattern'], pattern: node.pattern });
    if (typeof node.$ref === 'string' && resolveRef(schema, node.$ref) === undefined)
      errors.push({
        path: [...path, '$ref'],
        message: `leads nowhere: \`${node.$ref}\` must point into this schema (\`#/definitions/…\`)`,
      });
  };
  const each = (key: string, value: Json, path: readonly string[]): void => {
    if (!Array.isArray(value) || (value.length === 0 && key !== 'items'))
      errors.push({ path: [...path, key], message: 'must be a list of schemas' });
    else for (const [i, one] of value.entries()) visit(one as Json, [...path, key, String(i)]);
  };
  const members = (key: string, value: Json, path: readonly string[]): void => {
    if (typeOf(value) !== 'object') {
      errors.push({ path: [...path, key], message: 'must be a map of schemas' });
      return;
    }
    for (const [name, one] of Object.entries(value as { readonly [key: string]: Json })) {
      if (key === 'patternProperties') patterns.push({ path: [...path, key, name], pattern: name });
      visit(one, [...path, key, name]);
    }
  };
  const dependencies = (value: Json, path: readonly string[]): void => {
    if (typeOf(value) !== 'object')
      errors.push({ path: [...path, 'dependencies'], message: 'must be a map' });
    else
      for (const [name, one] of Object.entries(value as { readonly [key: string]: Json })) {
        const here = [...path, 'dependencies', name];
        if (Array.isArray(one)) {
          const wrong = names(one);
          if (wrong !== undefined) errors.push({ path: here, message: wrong });
        } else visit(one, here);
      }
  };
  visit(schema as Json, []);
  return { errors, patterns };
}
