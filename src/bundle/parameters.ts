import { childOf, type DocNode, entryOf, type Json, type MapNode, toJson } from '../document/index.ts';
import { schemaFields, schemaOf, TYPES } from './json-schema.ts';
import type { Parameter } from './model.ts';
import { badValue, boolOf, headOf, type Reader, report, textOf, textsOf } from './reader.ts';
import {
  any,
  bool,
  either,
  envName,
  field,
  list,
  matching,
  nonEmpty,
  object,
  oneOf,
  plainName,
  required,
  text,
} from './shape.ts';

export const parameterShape = object({
  name: required(matching(plainName), 'the name that `${ bundle.parameters.NAME }` and `--param` use'),
  description: field(text, 'what it is for'),
  type: field(either(oneOf(...TYPES), list(oneOf(...TYPES))), '`file` where there is a path, else `string`'),
  default: field(any, 'without one the parameter is required'),
  env: field(matching(envName), 'environment variable that carries it; the name in capitals unless given'),
  path: field(matching(nonEmpty), 'file that carries it; relative to /cnab/app'),
  sensitive: field(bool, 'masked, encrypted and seen only by steps that name it'),
  applyTo: field(list(text), 'actions that take it; all unless given'),
  source: field(
    object({
      dependency: field(text, 'dependency whose output it is; this bundle unless given'),
      output: required(matching(plainName), 'output whose last value it takes'),
    }),
    'takes the last value of an output',
  ),
  persistent: field(bool, 'schema version 1.2.0 only'),
  ...schemaFields,
});

/** Where the files of a bundle live in a container. */
const APP = '/cnab/app';

/** A path as bundle.json has it: relative ones begin at /cnab/app. */
export function inApp(path: string): string {
  return path.startsWith('/') ? path : `${APP}/${path.replace(/^(?:\.\/)+/, '')}`;
}

/** A container's file is where its `path` says: one with `..` would be wherever links of the image lead. */
export function checkPath(reader: Reader, node: DocNode, what: string): void {
  const path = textOf(node, 'path');
  if (path === undefined) return;
  const wrong = path.includes('\0')
    ? 'holds a NUL byte'
    : hasParent(path)
      ? 'leads out with `..`'
      : undefined;
  if (wrong === undefined) return;
  report(reader, childOf(node, 'path')?.span ?? node.span, {
    code: 'bad-path',
    message: `the path \`${path}\` of ${what} ${wrong}`,
    hint: 'write it without; a relative path begins at /cnab/app',
  });
}

function hasParent(path: string): boolean {
  return path.split('/').includes('..');
}

/** `my-param.x` → `MY_PARAM_X`, Porter's rule for a parameter that names neither `env` nor `path`. */
export function defaultEnv(name: string): string {
  return name.toUpperCase().replace(/[-.]/g, '_');
}

/** One parameter, Porter's defaults filled in; undefined without a name. `actions` are those that have steps. */
export function readParameter(
  reader: Reader,
  node: DocNode,
  options: { readonly label: string; readonly otherActions: readonly string[] },
): Parameter | undefined {
  const name = textOf(node, 'name');
  if (name === undefined || node.kind !== 'map') return undefined;
  const writtenPath = textOf(node, 'path');
  checkPath(reader, node, `the parameter \`${name}\``);
  const { schema, isFile } = schemaOf(node, writtenPath !== undefined);
  const fallback = defaultOf(node);
  const source = readSource(node);
  if (isFile && writtenPath === undefined)
    report(reader, headOf(node), {
      code: 'file-without-path',
      message: `the file parameter \`${name}\` has no \`path\``,
      hint: 'add `path:`, the file in which a step finds it',
    });
  if (boolOf(node, 'persistent') === true)
    report(reader, keySpan(node, 'persistent'), {
      code: 'schema-version',
      message:
        '`persistent` belongs to schema version 1.2.0, an experiment of Porter that Skycap does not take part in',
      hint: 'declare an output of the same name and `source: {output: …}`',
    });
  if (isFile && typeof fallback === 'string' && !isBase64(fallback))
    badValue(
      reader,
      childOf(node, 'default')?.span ?? node.span,
      `the default of the file parameter \`${name}\``,
      'must be empty or base64',
    );
  const env = textOf(node, 'env') ?? (writtenPath === undefined ? defaultEnv(name) : undefined);
  const written = textsOf(node, 'applyTo') ?? [];
  const limited = written.length === 0 && source !== undefined && fallback === undefined;
  return {
    name,
    description: textOf(node, 'description') ?? '',
    schema,
    isFile,
    sensitive: boolOf(node, 'sensitive') ?? false,
    ...(fallback === undefined ? {} : { default: fallback }),
    ...(env === undefined ? {} : { env }),
    ...(writtenPath === undefined ? {} : { path: inApp(writtenPath) }),
    // Porter: a value that an earlier run must have made cannot be asked of an install.
    applyTo: limited ? options.otherActions : written,
    ...(source === undefined ? {} : { source }),
    span: node.span,
  };
}

function readSource(node: MapNode): Parameter['source'] {
  const source = childOf(node, 'source');
  const output = textOf(source, 'output');
  if (output === undefined) return undefined;
  const dependency = textOf(source, 'dependency');
  return dependency === undefined || dependency === '' ? { output } : { output, dependency };
}

export function defaultOf(node: MapNode): Json | undefined {
  const value = childOf(node, 'default');
  if (value === undefined || (value.kind === 'scalar' && value.value === null)) return undefined;
  return toJson(value);
}

export function keySpan(node: DocNode, key: string) {
  return entryOf(node, key)?.keySpan ?? node.span;
}

function isBase64(value: string): boolean {
  return value === '' || (value.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(value));
}
