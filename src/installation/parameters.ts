import type { Bundle, Parameter } from '../bundle/index.ts';
import { stringify } from '../document/expression/index.ts';
import { didYouMean, type Json } from '../document/index.ts';
import { own } from '../kernel/index.ts';
import type { KnownValue } from '../plan/index.ts';
import type { StoredValue } from '../state/index.ts';
import { installationError } from './errors.ts';

/** A value as the user gave it. Text is read by the parameter's type; `--params-file` gives JSON. */
export type ParameterInput =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'json'; readonly value: Json };

export interface ParameterRequest {
  readonly bundle: Bundle;
  readonly action: string;
  readonly given: Readonly<Record<string, ParameterInput>>;
  /** Of the installation's last action; names that the bundle no longer has are dropped. */
  readonly remembered: Readonly<Record<string, StoredValue>>;
  readonly outputs: ReadonlyMap<string, KnownValue>;
  /** The complaint about a value that does not fit a schema. */
  readonly checkValue: (schema: Readonly<Record<string, Json>>, value: Json) => string | undefined;
}

export interface ResolvedParameters {
  readonly values: ReadonlyMap<string, KnownValue>;
  /** To remember for the next action: what the user gave now or before, not defaults or outputs. */
  readonly remembered: Readonly<Record<string, StoredValue>>;
}

/**
 * Values of an action's parameters, by Porter's precedence: given, remembered, source, default.
 *
 * @throws PARAMETER_UNKNOWN, PARAMETER_INVALID, PARAMETER_MISSING
 */
export function resolveParameters(request: ParameterRequest): ResolvedParameters {
  const { bundle, action } = request;
  const declared = new Map(bundle.parameters.map((parameter) => [parameter.name, parameter]));
  for (const name of Object.keys(request.given)) {
    if (declared.has(name)) continue;
    const near = didYouMean(name, [...declared.keys()]);
    throw installationError('PARAMETER_UNKNOWN', `the bundle ${bundle.name} has no parameter ${name}`, {
      hint:
        near === undefined ? `it has ${[...declared.keys()].join(', ') || 'none'}` : `did you mean ${near}?`,
    });
  }
  const values = new Map<string, KnownValue>();
  const remembered = new Map<string, StoredValue>();
  const missing: string[] = [];
  for (const parameter of bundle.parameters) {
    const { name, sensitive } = parameter;
    const given = own(request.given, name);
    const before = own(request.remembered, name);
    if (given !== undefined) {
      const value = fromInput(parameter, given, request.checkValue);
      values.set(name, value);
      remembered.set(name, { sensitive, value: value.json });
    } else if (before !== undefined) {
      remembered.set(name, { sensitive, value: before.value });
      values.set(name, checked(parameter, before.value as Json, request.checkValue));
    } else if (parameter.source !== undefined && request.outputs.has(parameter.source.output)) {
      const output = request.outputs.get(parameter.source.output) as KnownValue;
      values.set(name, { ...output, sensitive: output.sensitive || sensitive });
    } else if (parameter.default !== undefined) {
      if (!(parameter.isFile && parameter.default === ''))
        values.set(name, checked(parameter, parameter.default, request.checkValue));
    } else if (parameter.source === undefined && applies(parameter, action)) {
      missing.push(name);
    }
  }
  if (missing.length > 0) {
    throw installationError(
      'PARAMETER_MISSING',
      `${action} of ${bundle.name} needs the parameter${missing.length === 1 ? '' : 's'} ${missing.join(', ')}`,
      {
        hint: `give ${missing.length === 1 ? 'it' : 'them'} with: ${missing.map((name) => `--param ${name}=…`).join(' ')}`,
      },
    );
  }
  for (const [name] of values) {
    if (!applies(declared.get(name) as Parameter, action)) values.delete(name);
  }
  return { values, remembered: Object.fromEntries(remembered) };
}

function applies(parameter: Parameter, action: string): boolean {
  return parameter.applyTo.length === 0 || parameter.applyTo.includes(action);
}

function fromInput(
  parameter: Parameter,
  input: ParameterInput,
  check: ParameterRequest['checkValue'],
): KnownValue {
  if (input.kind === 'json') return checked(parameter, input.value, check);
  if (parameter.isFile) {
    const bytes = input.kind === 'bytes' ? input.bytes : new TextEncoder().encode(input.text);
    return { json: Buffer.from(bytes).toString('base64'), bytes, sensitive: parameter.sensitive };
  }
  const text = input.kind === 'text' ? input.text : decoded(parameter.name, input.bytes);
  const types = typesOf(parameter);
  if (types.length === 0 || types.includes('string')) return checked(parameter, text, check);
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    throw installationError(
      'PARAMETER_INVALID',
      `parameter ${parameter.name} wants ${types.join(' or ')}${parameter.sensitive ? '' : `, not ${JSON.stringify(text.slice(0, 80))}`}`,
      {
        hint: types.includes('boolean')
          ? 'write true or false'
          : 'write the value as JSON; @FILE reads it from a file',
      },
    );
  }
  return checked(parameter, value, check);
}

function decoded(name: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw installationError('PARAMETER_INVALID', `parameter ${name}: the file is no UTF-8 text`, {
      hint: 'declare the parameter with type: file to hand over any bytes',
    });
  }
}

function checked(parameter: Parameter, value: Json, check: ParameterRequest['checkValue']): KnownValue {
  const complaint = check(parameter.schema, value);
  if (complaint !== undefined) {
    throw installationError('PARAMETER_INVALID', `parameter ${parameter.name} ${complaint}`, {
      hint: 'skycap explain shows what each parameter takes',
    });
  }
  const bytes = parameter.isFile
    ? Buffer.from(String(value), 'base64')
    : new TextEncoder().encode(stringify(value));
  return { json: value, bytes, sensitive: parameter.sensitive };
}

function typesOf(parameter: Parameter): readonly string[] {
  const { type } = parameter.schema;
  if (typeof type === 'string') return [type];
  return Array.isArray(type) ? type.filter((item): item is string => typeof item === 'string') : [];
}
