/**
 * What a part of porter.yaml may look like, as data. The structural checks and the JSON Schema for editors are both
 * made from these, so they cannot disagree.
 */
export type Shape =
  | StringShape
  | { readonly kind: 'boolean' }
  | {
      readonly kind: 'number';
      readonly integer: boolean;
      readonly minimum?: number;
      readonly maximum?: number;
    }
  | { readonly kind: 'any' }
  | { readonly kind: 'list'; readonly items: Shape; readonly nonEmpty?: boolean }
  | { readonly kind: 'record'; readonly values: Shape; readonly keys?: NamePattern }
  | ObjectShape
  /** The first option whose YAML kind (text, list, map) is the node's is the one that is checked. */
  | { readonly kind: 'either'; readonly options: readonly Shape[] };

export interface NamePattern {
  readonly pattern: RegExp;
  /** Completes "must be …". */
  readonly says: string;
}

export interface StringShape {
  readonly kind: 'string';
  readonly values?: readonly string[];
  readonly check?: NamePattern;
  /** Expressions may stand in it: `check` is left to the time when it is known. */
  readonly expressions?: boolean;
}

export interface ObjectShape {
  readonly kind: 'object';
  readonly fields: Readonly<Record<string, Field>>;
  /** What other keys hold; without it other keys are unknown. */
  readonly rest?: Shape;
}

export interface Field {
  readonly shape: Shape;
  /** Shown by editors beside the key. */
  readonly says: string;
  readonly required?: boolean;
}

export const text: StringShape = { kind: 'string' };
export const expressionText: StringShape = { kind: 'string', expressions: true };
export const bool: Shape = { kind: 'boolean' };
export const any: Shape = { kind: 'any' };

export function oneOf(...values: string[]): StringShape {
  return { kind: 'string', values };
}

export function matching(check: NamePattern): StringShape {
  return { kind: 'string', check };
}

export function integer(minimum?: number, maximum?: number): Shape {
  return {
    kind: 'number',
    integer: true,
    ...(minimum === undefined ? {} : { minimum }),
    ...(maximum === undefined ? {} : { maximum }),
  };
}

export function number(minimum?: number): Shape {
  return { kind: 'number', integer: false, ...(minimum === undefined ? {} : { minimum }) };
}

export function list(items: Shape): Shape {
  return { kind: 'list', items };
}

export function record(values: Shape, keys?: NamePattern): Shape {
  return keys === undefined ? { kind: 'record', values } : { kind: 'record', values, keys };
}

export function object(fields: Readonly<Record<string, Field>>, rest?: Shape): ObjectShape {
  return rest === undefined ? { kind: 'object', fields } : { kind: 'object', fields, rest };
}

export function either(...options: Shape[]): Shape {
  return { kind: 'either', options };
}

export function field(shape: Shape, says: string): Field {
  return { shape, says };
}

export function required(shape: Shape, says: string): Field {
  return { shape, says, required: true };
}

/** Parameters, credentials, outputs, steps, images of `images:`: they become file names and variable names. */
export const plainName: NamePattern = {
  pattern: /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/,
  says: 'letters, digits, `_`, `.` and `-`, not beginning with `.` or `-`, at most 128',
};

export const imageName: NamePattern = {
  pattern: /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
  says: 'lower-case letters, digits and `-`, at most 63, beginning and ending with a letter or digit',
};

export const envName: NamePattern = {
  pattern: /^[A-Za-z_][A-Za-z0-9_]*$/,
  says: 'letters, digits and `_`, not beginning with a digit',
};

export const nonEmpty: NamePattern = { pattern: /\S/, says: 'not empty' };

/** Porter's users have actions like `status+json`. */
export const actionName: NamePattern = {
  pattern: /^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}$/,
  says: 'letters, digits, `_`, `.`, `+` and `-`, not beginning with `.`, `+` or `-`, at most 128',
};
