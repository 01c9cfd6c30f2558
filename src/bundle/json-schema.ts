import { type DocNode, type Json, toJson } from '../document/index.ts';
import { any, type Field, field } from './shape.ts';

/** Every keyword of JSON Schema draft-07 that a parameter or output may carry (Porter passes them all on). */
const KEYWORDS = [
  '$id',
  '$schema',
  '$ref',
  '$comment',
  'title',
  'readOnly',
  'writeOnly',
  'examples',
  'multipleOf',
  'maximum',
  'exclusiveMaximum',
  'minimum',
  'exclusiveMinimum',
  'maxLength',
  'minLength',
  'pattern',
  'additionalItems',
  'items',
  'maxItems',
  'minItems',
  'uniqueItems',
  'contains',
  'maxProperties',
  'minProperties',
  'required',
  'additionalProperties',
  'definitions',
  'properties',
  'patternProperties',
  'dependencies',
  'propertyNames',
  'const',
  'enum',
  'format',
  'contentMediaType',
  'contentEncoding',
  'if',
  'then',
  'else',
  'allOf',
  'anyOf',
  'oneOf',
  'not',
] as const;

export const schemaFields: Readonly<Record<string, Field>> = Object.fromEntries(
  KEYWORDS.map((keyword) => [keyword, field(any, `JSON Schema keyword \`${keyword}\` (draft-07)`)]),
);

export const TYPES = ['string', 'integer', 'number', 'boolean', 'array', 'object', 'null', 'file'] as const;

/**
 * The JSON Schema of a parameter or output: its keywords, description and type. `type: file` becomes text in base64;
 * a missing type is `file` where there is a path, else `string`, as in Porter.
 */
export function schemaOf(
  node: DocNode,
  hasPath: boolean,
): { readonly schema: { readonly [key: string]: Json }; readonly isFile: boolean } {
  const schema: { [key: string]: Json } = {};
  if (node.kind !== 'map') return { schema, isFile: false };
  for (const entry of node.entries) {
    const isKeyword =
      Object.hasOwn(schemaFields, entry.key) || entry.key === 'type' || entry.key === 'description';
    if (isKeyword && !(entry.value.kind === 'scalar' && entry.value.value === null))
      schema[entry.key] = toJson(entry.value);
  }
  const isFile = schema.type === undefined ? hasPath : schema.type === 'file';
  if (isFile) return { schema: { ...schema, type: 'string', contentEncoding: 'base64' }, isFile };
  return { schema: schema.type === undefined ? { ...schema, type: 'string' } : schema, isFile };
}
