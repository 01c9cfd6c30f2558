import type { DocNode } from '../document/index.ts';
import { schemaFields, schemaOf, TYPES } from './json-schema.ts';
import type { Output, StatePath } from './model.ts';
import { checkPath, defaultOf, inApp } from './parameters.ts';
import { boolOf, type Reader, textOf, textsOf } from './reader.ts';
import {
  any,
  bool,
  either,
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

export const outputShape = object({
  name: required(matching(plainName), 'the name; a step output of the same name is its value'),
  description: field(text, 'what it says'),
  type: field(either(oneOf(...TYPES), list(oneOf(...TYPES))), '`file` where there is a path, else `string`'),
  default: field(any, 'value when no step made one'),
  sensitive: field(bool, 'masked and encrypted'),
  applyTo: field(list(text), 'actions that make it; all unless given'),
  path: field(matching(nonEmpty), 'file that holds it when the action ends; relative to /cnab/app'),
  ...schemaFields,
});

export function readOutput(reader: Reader, node: DocNode): Output | undefined {
  const name = textOf(node, 'name');
  if (name === undefined || node.kind !== 'map') return undefined;
  const path = textOf(node, 'path');
  checkPath(reader, node, `the output \`${name}\``);
  const { schema, isFile } = schemaOf(node, path !== undefined);
  const fallback = defaultOf(node);
  return {
    name,
    description: textOf(node, 'description') ?? '',
    schema,
    isFile,
    sensitive: boolOf(node, 'sensitive') ?? false,
    ...(fallback === undefined ? {} : { default: fallback }),
    ...(path === undefined ? {} : { path: inApp(path) }),
    applyTo: textsOf(node, 'applyTo') ?? [],
    span: node.span,
  };
}

export const stateShape = object({
  name: field(matching(plainName), 'the name in messages; the path unless given'),
  path: required(matching(nonEmpty), 'file or folder kept between runs; relative to /cnab/app'),
  description: field(text, 'what it holds'),
  mixin: field(text, 'reserved'),
});

export function readStatePath(reader: Reader, node: DocNode): StatePath | undefined {
  const path = textOf(node, 'path');
  if (path === undefined) return undefined;
  const name = textOf(node, 'name') ?? path;
  checkPath(reader, node, `the state \`${name}\``);
  return { name, path: inApp(path) };
}
