import { Ajv, type ErrorObject } from 'ajv';
import addFormats from 'ajv-formats';
import type { Json } from '../document/index.ts';
import { compilePattern } from '../document/pattern/index.ts';

/** Patterns of bundles run in linear time (docs/security.md, "Text"). */
const linearPatterns = Object.assign((pattern: string) => ({ test: compilePattern(pattern).test }), {
  code: 'linearPatterns',
});

let validator: Ajv | undefined;

function engine(): Ajv {
  if (validator !== undefined) return validator;
  validator = new Ajv({ strict: false, allErrors: false, code: { regExp: linearPatterns as never } });
  (addFormats as unknown as (ajv: Ajv) => void)(validator);
  return validator;
}

/**
 * What is wrong with a value of a parameter or output, as the end of "parameter NAME …"; undefined if it fits its
 * schema (JSON Schema draft-07). The value itself is not in the message: it may be a secret.
 */
export function checkValue(schema: Readonly<Record<string, Json>>, value: Json): string | undefined {
  // `$id` would make ajv remember the schema, and refuse another parameter of the same bundle that has it too.
  const { $id: _, ...rest } = schema;
  const validate = engine().compile(rest);
  if (validate(value) === true) return undefined;
  return validate.errors?.[0] === undefined ? 'does not fit its schema' : complaint(validate.errors[0]);
}

function complaint(error: ErrorObject): string {
  const where = error.instancePath === '' ? '' : ` at ${error.instancePath}`;
  if (error.keyword === 'enum')
    return `${where === '' ? '' : `${where.trim()} `}must be one of ${JSON.stringify((error.params as { allowedValues: unknown }).allowedValues)}`;
  return `${where === '' ? '' : `${where.trim()} `}${error.message ?? 'does not fit its schema'}`;
}
