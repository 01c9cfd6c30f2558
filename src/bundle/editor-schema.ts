import type { Json } from '../document/index.ts';
import { BUILT_IN } from './custom-actions.ts';
import { topLevelFields } from './parse.ts';
import type { ObjectShape, Shape } from './shape.ts';
import { stepShape } from './steps.ts';

type JsonSchema = { readonly [key: string]: Json };

/** What a YAML scalar may be where text is wanted: it is taken as written. Null is an absent value. */
const TEXT = ['string', 'number', 'boolean', 'null'];

/**
 * The JSON Schema (draft-07) of porter.yaml for editors, made from the same shapes as the parser's checks. It knows
 * keys, types and patterns; what needs a second look at the file is `skycap lint`'s.
 */
export function bundleSchema(): JsonSchema {
  const steps = { $ref: '#/definitions/steps' };
  const properties = Object.fromEntries(
    Object.entries(topLevelFields).map(([key, field]) => [
      key,
      { description: field.says, ...schemaOf(field.shape) },
    ]),
  );
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'porter.yaml',
    description: 'A bundle for Skycap: Porter’s porter.yaml 1.0.x with invocation images',
    type: 'object',
    required: ['name', 'version'],
    properties: {
      ...properties,
      ...Object.fromEntries(
        BUILT_IN.map((action) => [action, { description: `steps of ${action}`, ...steps }]),
      ),
    },
    // Any other key is an action, as in Porter.
    additionalProperties: steps,
    definitions: {
      steps: { type: ['array', 'null'], items: { $ref: '#/definitions/step' } },
      step: schemaOf(stepShape),
    },
  };
}

function schemaOf(shape: Shape): JsonSchema {
  switch (shape.kind) {
    case 'any':
      return {};
    case 'boolean':
      return { type: ['boolean', 'null'] };
    case 'number':
      return {
        type: [shape.integer ? 'integer' : 'number', 'null'],
        ...(shape.minimum === undefined ? {} : { minimum: shape.minimum }),
        ...(shape.maximum === undefined ? {} : { maximum: shape.maximum }),
      };
    case 'string':
      if (shape.values !== undefined)
        return { enum: shape.expressions === true ? [...shape.values] : [...shape.values, null] };
      return {
        type: TEXT,
        ...(shape.check === undefined || shape.expressions === true
          ? {}
          : { pattern: shape.check.pattern.source }),
      };
    case 'list':
      return { type: ['array', 'null'], items: schemaOf(shape.items) };
    case 'record':
      return {
        type: ['object', 'null'],
        additionalProperties: schemaOf(shape.values),
        ...(shape.keys === undefined ? {} : { propertyNames: { pattern: shape.keys.pattern.source } }),
      };
    case 'object':
      return objectSchema(shape);
    case 'either':
      return { anyOf: shape.options.map(schemaOf) };
  }
}

function objectSchema(shape: ObjectShape): JsonSchema {
  const fields = Object.entries(shape.fields);
  const required = fields.filter(([, field]) => field.required === true).map(([key]) => key);
  return {
    type: ['object', 'null'],
    ...(required.length === 0 ? {} : { required }),
    properties: Object.fromEntries(
      fields.map(([key, field]) => [key, { description: field.says, ...schemaOf(field.shape) }]),
    ),
    additionalProperties: shape.rest === undefined ? false : schemaOf(shape.rest),
  };
}
