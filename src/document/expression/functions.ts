import type { Json } from '../types.ts';
import { expressionError } from './errors.ts';
import { satisfies } from './semver.ts';
import { canonicalJson, stringify, typeName } from './stringify.ts';

/** Longer results are refused: nested `replace` could otherwise fill the memory. */
const LONGEST = 64 * 1024 * 1024;

/**
 * What each function does. `default` is not here: it looks at its arguments before they have a value.
 * All throw `EXPRESSION_FUNCTION`; no message ever holds an argument.
 */
const implementations: Readonly<
  Record<string, { readonly arity: readonly [number, number]; run(args: readonly Json[]): Json }>
> = {
  upper: { arity: [1, 1], run: ([x]) => text('upper', x).toUpperCase() },
  lower: { arity: [1, 1], run: ([x]) => text('lower', x).toLowerCase() },
  join: {
    arity: [1, 2],
    run: ([items, by]) => joined(list('join', items), by === undefined ? ',' : text('join', by)),
  },
  split: { arity: [2, 2], run: ([x, by]) => text('split', x).split(notEmpty('split', by)) },
  toJson: { arity: [1, 1], run: ([x]) => canonicalJson(x as Json) },
  fromJson: { arity: [1, 1], run: ([x]) => fromJson(text('fromJson', x)) },
  base64: { arity: [1, 1], run: ([x]) => Buffer.from(text('base64', x), 'utf8').toString('base64') },
  sha256: { arity: [1, 1], run: ([x]) => sha256(text('sha256', x)) },
  semver: {
    arity: [2, 2],
    run: ([version, range]) => semver(text('semver', version), text('semver', range)),
  },
  replace: {
    arity: [3, 3],
    run: ([x, from, to]) => replaced(text('replace', x), notEmpty('replace', from), text('replace', to)),
  },
  startsWith: {
    arity: [2, 2],
    run: ([x, prefix]) => text('startsWith', x).startsWith(text('startsWith', prefix)),
  },
  length: { arity: [1, 1], run: ([x]) => length(x as Json) },
};

/** How many arguments a function takes: least and most. */
export function arityOf(name: string): readonly [number, number] {
  return name === 'default' ? [2, 16] : (implementations[name]?.arity ?? [0, 0]);
}

/** @throws EXPRESSION_FUNCTION when an argument has the wrong type or the function cannot work with it. */
export function callFunction(name: string, args: readonly Json[]): Json {
  const [least, most] = arityOf(name);
  const found = implementations[name];
  if (found === undefined || args.length < least || args.length > most)
    throw expressionError('EXPRESSION_FUNCTION', wrongCount(name, args.length), {
      hint: 'give it as many arguments as it takes',
    });
  return found.run(args);
}

/** The sentence about a wrong number of arguments. */
export function wrongCount(name: string, count: number): string {
  const [least, most] = arityOf(name);
  return `${name}() takes ${least === most ? least : `${least} to ${most}`} argument${most === 1 ? '' : 's'} and got ${count}`;
}

function fail(name: string, what: string): never {
  throw expressionError('EXPRESSION_FUNCTION', `${name}() ${what}`, {
    hint: 'look at the value that is handed to it, or guard the step with `when`',
  });
}

/** Numbers and booleans are taken as the text they would be in a template. */
function text(name: string, value: Json | undefined): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return stringify(value);
  return fail(name, `wants text and got ${typeName(value ?? null)}`);
}

function notEmpty(name: string, value: Json | undefined): string {
  const found = text(name, value);
  return found === '' ? fail(name, 'cannot look for the empty text') : found;
}

function list(name: string, value: Json | undefined): readonly Json[] {
  return Array.isArray(value)
    ? (value as readonly Json[])
    : fail(name, `wants a list and got ${typeName(value ?? null)}`);
}

function limited(name: string, length: number): void {
  if (length > LONGEST)
    throw expressionError(
      'EXPRESSION_LIMIT',
      `the result of ${name}() is longer than ${LONGEST} characters`,
      {
        hint: 'hand large values over as files: give the parameter a `path`',
      },
    );
}

function joined(items: readonly Json[], by: string): string {
  const texts = items.map((item) => stringify(item));
  limited(
    'join',
    texts.reduce((sum, item) => sum + item.length, by.length * texts.length),
  );
  return texts.join(by);
}

function replaced(source: string, from: string, to: string): string {
  const pieces = source.split(from);
  limited('replace', source.length + (pieces.length - 1) * to.length);
  return pieces.join(to);
}

function fromJson(source: string): Json {
  if (deeperThan(source, 200))
    throw expressionError('EXPRESSION_LIMIT', 'the JSON given to fromJson() is nested too deeply', {
      hint: 'give it JSON of at most 200 levels, or let a step take it apart',
    });
  try {
    return JSON.parse(source) as Json;
  } catch {
    // The parser's own message quotes the text, which may be a secret.
    return fail('fromJson', 'was given text that is not JSON');
  }
}

function deeperThan(source: string, most: number): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < source.length; i++) {
    const c = source[i];
    if (inString) {
      if (c === '\\') i++;
      else if (c === '"') inString = false;
    } else if (c === '"') inString = true;
    else if ((c === '[' || c === '{') && ++depth > most) return true;
    else if (c === ']' || c === '}') depth--;
  }
  return false;
}

function sha256(source: string): string {
  // Not imported at the top: the door is loaded by commands that never hash anything.
  const { createHash } = process.getBuiltinModule('node:crypto');
  return createHash('sha256').update(source, 'utf8').digest('hex');
}

function semver(version: string, range: string): boolean {
  const result = satisfies(version, range);
  if (result === 'bad-version')
    return fail('semver', 'was given a first argument that is not a version like 1.2.3');
  if (result === 'bad-range')
    return fail('semver', 'was given a second argument that is not a range like ^1.2 or >=1.2 <3');
  return result;
}

function length(value: Json): number {
  if (typeof value === 'string') {
    let count = 0;
    for (const _ of value) count++;
    return count;
  }
  if (Array.isArray(value)) return value.length;
  if (typeof value === 'object' && value !== null) return Object.keys(value).length;
  return fail('length', `wants text, a list or a map and got ${typeName(value)}`);
}
