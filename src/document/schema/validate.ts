import type { Json } from '../types.ts';
import { canonical } from './equal.ts';
import { formats } from './formats.ts';

export type Schema = boolean | { readonly [key: string]: Json };

/** Finds a pattern in a text, in linear time: patterns come from bundles. */
export type PatternTest = (pattern: string, text: string) => boolean;

export interface SchemaError {
  /** Where in the value: keys and indexes. */
  readonly path: readonly string[];
  /** Completes "the value …": `must be at least 1`. */
  readonly message: string;
}

export interface ValidateOptions {
  readonly test: PatternTest;
}

interface Run {
  readonly root: Schema;
  readonly test: PatternTest;
  readonly errors: SchemaError[];
  /** Schemas looked at; a limit against schemas that multiply (`anyOf` within `anyOf`, references in circles). */
  left: number;
}

const MOST_CHECKS = 100_000;
const MOST_ERRORS = 20;
const DEEPEST = 200;

/** What is wrong with a value by a schema (JSON Schema draft-07, Validation). Never throws for what either holds. */
export function validate(schema: Schema, value: Json, options: ValidateOptions): readonly SchemaError[] {
  const run: Run = { root: schema, test: options.test, errors: [], left: MOST_CHECKS };
  check(run, schema, { value, path: [], depth: 0 });
  return run.errors.slice(0, MOST_ERRORS);
}

interface At {
  readonly value: Json;
  readonly path: readonly string[];
  readonly depth: number;
}

type Object_ = { readonly [key: string]: Json };

function isObject(value: Json | undefined): value is Object_ {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** True when the value fits. */
function check(run: Run, schema: Schema, at: At): boolean {
  if (schema === true) return true;
  if (schema === false) return fail(run, at, 'is not allowed');
  if (--run.left < 0 || at.depth > DEEPEST)
    return fail(run, at, 'cannot be checked: the schema is too deep or too large');
  if (typeof schema.$ref === 'string') return checkRef(run, schema.$ref, at);
  const before = run.errors.length;
  checkType(run, schema, at);
  checkAny(run, schema, at);
  if (typeof at.value === 'number') checkNumber(run, schema, { ...at, value: at.value });
  if (typeof at.value === 'string') checkString(run, schema, { ...at, value: at.value });
  if (Array.isArray(at.value)) checkArray(run, schema, { ...at, value: at.value as readonly Json[] });
  if (isObject(at.value)) checkObject(run, schema, { ...at, value: at.value });
  checkCombined(run, schema, at);
  return run.errors.length === before;
}

function fail(run: Run, at: At, message: string): false {
  run.errors.push({ path: at.path, message });
  return false;
}

/** Whether a value fits, without keeping what is wrong with it. */
function fits(run: Run, schema: Schema, at: At): boolean {
  const kept = run.errors.length;
  const fine = check(run, schema, { ...at, depth: at.depth + 1 });
  run.errors.length = kept;
  return fine;
}

function asSchema(json: Json | undefined): Schema | undefined {
  return typeof json === 'boolean' || isObject(json) ? json : undefined;
}

function schemasOf(json: Json | undefined): readonly Schema[] {
  return Array.isArray(json) ? json.map((one: Json) => asSchema(one)).filter((one) => one !== undefined) : [];
}

/** `#` and `#/definitions/…` within the schema itself; nothing is ever fetched. */
function checkRef(run: Run, reference: string, at: At): boolean {
  const target = resolveRef(run.root, reference);
  if (target === undefined) return fail(run, at, `cannot be checked: \`${reference}\` leads nowhere`);
  return check(run, target, { ...at, depth: at.depth + 1 });
}

export function resolveRef(root: Schema, reference: string): Schema | undefined {
  if (!reference.startsWith('#')) return undefined;
  let at: Json | undefined = root;
  for (const part of reference.slice(1).split('/').slice(1)) {
    const key = decode(part).replaceAll('~1', '/').replaceAll('~0', '~');
    if (Array.isArray(at)) at = at[Number(key)] as Json | undefined;
    else at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  }
  return asSchema(at);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function typeOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value;
}

function checkType(run: Run, schema: Object_, at: At): void {
  const { type } = schema;
  const types = typeof type === 'string' ? [type] : Array.isArray(type) ? type : undefined;
  if (types === undefined) return;
  const actual = typeOf(at.value);
  const fine = types.some((one) => one === actual || (one === 'integer' && Number.isInteger(at.value)));
  if (!fine) fail(run, at, `must be of type ${types.join(' or ')}, and is of type ${actual}`);
}

function checkAny(run: Run, schema: Object_, at: At): void {
  if (Array.isArray(schema.enum)) {
    const own = canonical(at.value);
    if (!schema.enum.some((one: Json) => canonical(one) === own))
      fail(
        run,
        at,
        `must be one of ${schema.enum
          .slice(0, 20)
          .map((one: Json) => JSON.stringify(one))
          .join(', ')}`,
      );
  }
  if (schema.const !== undefined && canonical(schema.const) !== canonical(at.value))
    fail(run, at, `must be ${JSON.stringify(schema.const)}`);
}

function checkNumber(run: Run, schema: Object_, at: At & { readonly value: number }): void {
  const { value } = at;
  const bound = (key: string): number | undefined =>
    typeof schema[key] === 'number' ? schema[key] : undefined;
  const [least, most, above, below] = [
    bound('minimum'),
    bound('maximum'),
    bound('exclusiveMinimum'),
    bound('exclusiveMaximum'),
  ];
  if (least !== undefined && value < least) fail(run, at, `must be at least ${least}`);
  if (most !== undefined && value > most) fail(run, at, `must be at most ${most}`);
  if (above !== undefined && value <= above) fail(run, at, `must be more than ${above}`);
  if (below !== undefined && value >= below) fail(run, at, `must be less than ${below}`);
  const unit = bound('multipleOf');
  if (unit === undefined || unit <= 0) return;
  const times = value / unit;
  // 0.3 is a multiple of 0.1, whatever binary fractions say.
  if (Math.abs(times - Math.round(times)) > 1e-9 * Math.max(1, Math.abs(times)))
    fail(run, at, `must be a multiple of ${unit}`);
}

function limit(schema: Object_, key: string): number | undefined {
  const value = schema[key];
  return typeof value === 'number' && value >= 0 ? value : undefined;
}

function checkString(run: Run, schema: Object_, at: At & { readonly value: string }): void {
  const [least, most] = [limit(schema, 'minLength'), limit(schema, 'maxLength')];
  if (least !== undefined || most !== undefined) {
    const length = [...at.value].length;
    if (least !== undefined && length < least) fail(run, at, `must have at least ${least} characters`);
    if (most !== undefined && length > most) fail(run, at, `must have at most ${most} characters`);
  }
  if (typeof schema.pattern === 'string' && !run.test(schema.pattern, at.value))
    fail(run, at, `must match the pattern ${schema.pattern}`);
  const format =
    typeof schema.format === 'string' && Object.hasOwn(formats, schema.format)
      ? formats[schema.format]
      : undefined;
  if (format !== undefined && !format(at.value)) fail(run, at, `must be a ${schema.format}`);
}

function child(at: At, key: string | number, value: Json): At {
  return { value, path: [...at.path, String(key)], depth: at.depth + 1 };
}

function checkArray(run: Run, schema: Object_, at: At & { readonly value: readonly Json[] }): void {
  const { value } = at;
  const [least, most] = [limit(schema, 'minItems'), limit(schema, 'maxItems')];
  if (least !== undefined && value.length < least) fail(run, at, `must have at least ${least} items`);
  if (most !== undefined && value.length > most) fail(run, at, `must have at most ${most} items`);
  if (schema.uniqueItems === true && new Set(value.map(canonical)).size < value.length)
    fail(run, at, 'must not hold an item twice');
  const all = asSchema(schema.items);
  const each = Array.isArray(schema.items) ? schemasOf(schema.items) : undefined;
  const rest = asSchema(schema.additionalItems);
  for (const [i, item] of value.entries()) {
    const own = all ?? (each === undefined ? undefined : i < each.length ? each[i] : rest);
    if (own !== undefined) check(run, own, child(at, i, item));
  }
  const contains = asSchema(schema.contains);
  if (contains !== undefined && !value.some((item, i) => fits(run, contains, child(at, i, item))))
    fail(run, at, 'holds no item of the kind that is wanted');
}

function checkObject(run: Run, schema: Object_, at: At & { readonly value: Object_ }): void {
  const keys = Object.keys(at.value);
  const [least, most] = [limit(schema, 'minProperties'), limit(schema, 'maxProperties')];
  if (least !== undefined && keys.length < least) fail(run, at, `must have at least ${least} members`);
  if (most !== undefined && keys.length > most) fail(run, at, `must have at most ${most} members`);
  if (Array.isArray(schema.required))
    for (const name of schema.required)
      if (typeof name === 'string' && !Object.hasOwn(at.value, name))
        fail(run, at, `must have the member ${JSON.stringify(name)}`);
  const named = isObject(schema.properties) ? schema.properties : {};
  const patterned = isObject(schema.patternProperties) ? Object.entries(schema.patternProperties) : [];
  const others = asSchema(schema.additionalProperties);
  const names = asSchema(schema.propertyNames);
  for (const key of keys) {
    const here = child(at, key, at.value[key] as Json);
    const own = Object.hasOwn(named, key) ? asSchema(named[key]) : undefined;
    const matching = patterned
      .filter(([pattern]) => run.test(pattern, key))
      .map(([, one]) => asSchema(one))
      .filter((one) => one !== undefined);
    for (const one of own === undefined ? matching : [own, ...matching]) check(run, one, here);
    if (own === undefined && matching.length === 0 && others !== undefined) check(run, others, here);
    if (names !== undefined && !fits(run, names, { ...here, value: key }))
      fail(run, at, `must not have the member ${JSON.stringify(key)}`);
  }
  checkDependencies(run, schema, at);
}

function checkDependencies(run: Run, schema: Object_, at: At & { readonly value: Object_ }): void {
  if (!isObject(schema.dependencies)) return;
  for (const [key, needs] of Object.entries(schema.dependencies)) {
    if (!Object.hasOwn(at.value, key)) continue;
    const own = asSchema(needs);
    if (own !== undefined) check(run, own, { ...at, depth: at.depth + 1 });
    else if (Array.isArray(needs))
      for (const name of needs)
        if (typeof name === 'string' && !Object.hasOwn(at.value, name))
          fail(run, at, `must have the member ${JSON.stringify(name)} beside ${JSON.stringify(key)}`);
  }
}

function checkCombined(run: Run, schema: Object_, at: At): void {
  const deeper = { ...at, depth: at.depth + 1 };
  for (const one of schemasOf(schema.allOf)) check(run, one, deeper);
  const any = schemasOf(schema.anyOf);
  if (any.length > 0 && !any.some((one) => fits(run, one, at)))
    fail(run, at, 'fits none of the alternatives');
  const oneOf = schemasOf(schema.oneOf);
  if (oneOf.length > 0) {
    const count = oneOf.filter((one) => fits(run, one, at)).length;
    if (count !== 1)
      fail(
        run,
        at,
        count === 0 ? 'fits none of the alternatives' : 'fits several alternatives, and must fit one',
      );
  }
  const not = asSchema(schema.not);
  if (not !== undefined && fits(run, not, at)) fail(run, at, 'is of a kind that is not allowed');
  const condition = asSchema(schema.if);
  if (condition === undefined) return;
  const branch = asSchema(fits(run, condition, at) ? schema.then : schema.else);
  if (branch !== undefined) check(run, branch, deeper);
}
