import type { Json } from '../document/index.ts';
import { type CompiledPattern, compilePattern, queryJson } from '../document/pattern/index.ts';
import type { KnownValue, PlanOutput, PlanStepOutput } from '../plan/index.ts';
import { runError } from './errors.ts';

/** The typed value of an output's bytes: JSON where the bundle's schema wants something else than a string. */
export function outputValue(
  bytes: Uint8Array,
  declared: PlanOutput | undefined,
  sensitive: boolean,
): KnownValue {
  const text = decodeUtf8(bytes);
  if (text === undefined || declared?.isFile === true) {
    return { json: text ?? Buffer.from(bytes).toString('base64'), bytes, sensitive };
  }
  const types = schemaTypes(declared);
  if (types.length === 0 || types.includes('string')) return { json: text, bytes, sensitive };
  try {
    return { json: JSON.parse(text) as Json, bytes, sensitive };
  } catch (cause) {
    throw runError(
      'OUTPUT_INVALID',
      `output ${declared?.name ?? ''} is no JSON, and its type is ${types.join(' or ')}`,
      {
        hint: 'write the value as JSON, or declare the output with type: string',
        cause: sensitive ? undefined : cause,
      },
    );
  }
}

/**
 * An output taken from what the step printed (docs/bundle.md, "Steps").
 *
 * @throws OUTPUT_MISSING where the query finds nothing, OUTPUT_INVALID where stdout is no JSON
 */
export function fromStdout(output: PlanStepOutput, stdout: Uint8Array, step: string): Uint8Array {
  const text = decodeUtf8(stdout);
  switch (output.source.kind) {
    case 'stdout':
      return stdout;
    case 'jsonPath':
      return encode(fromJson(output.name, output.source.query, { text, step }));
    case 'regex':
      return encode(fromPattern(output.name, compilePattern(output.source.pattern), { text, step }));
    case 'path':
      throw new Error('a path output does not come from stdout');
  }
}

function fromJson(
  name: string,
  query: string,
  { text, step }: { text: string | undefined; step: string },
): string {
  let value: Json;
  try {
    value = JSON.parse(text ?? '') as Json;
  } catch {
    throw runError(
      'OUTPUT_INVALID',
      `step ${step}: output ${name} reads ${query} from stdout, which is no JSON`,
      {
        hint: 'let the program print JSON and nothing else on stdout',
      },
    );
  }
  const found = queryJson(value, query);
  if (found.length === 0) {
    throw runError('OUTPUT_MISSING', `step ${step}: output ${name}: ${query} finds nothing in stdout`, {
      hint: 'compare the query with what the step prints',
    });
  }
  const result = found.length === 1 ? (found[0] as Json) : found;
  return typeof result === 'string' ? result : JSON.stringify(result);
}

function fromPattern(
  name: string,
  pattern: CompiledPattern,
  { text, step }: { text: string | undefined; step: string },
): string {
  const groups = pattern.groupsOfAllMatches(text ?? '');
  if (groups.length === 0) {
    throw runError(
      'OUTPUT_MISSING',
      `step ${step}: output ${name}: ${pattern.source} matches nothing in stdout`,
      {
        hint: 'compare the pattern with what the step prints',
      },
    );
  }
  return groups.join('\n');
}

function schemaTypes(declared: PlanOutput | undefined): readonly string[] {
  const type = declared?.schema.type;
  if (typeof type === 'string') return [type];
  return Array.isArray(type) ? type.filter((item): item is string => typeof item === 'string') : [];
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
