import { childOf, type DocNode, entryOf, type MapEntry, type MapNode, toJson } from '../document/index.ts';
import { defined } from './invocation-images.ts';
import type { IgnoreError, Step, StepCommand, Text } from './model.ts';
import {
  asText,
  boolOf,
  checkShape,
  headOf,
  itemsOf,
  type Reader,
  report,
  textOf,
  textsOf,
} from './reader.ts';
import {
  any,
  bool,
  envName,
  expressionText,
  field,
  integer,
  list,
  matching,
  nonEmpty,
  object,
  record,
  required,
  text,
} from './shape.ts';
import { readStepOutput, stepOutputShape } from './step-outputs.ts';

const action = object({
  run: field(expressionText, 'a script; `#!` is honoured, else `sh -e`'),
  shell: field(
    {
      kind: 'string',
      check: { pattern: /^\/?[A-Za-z0-9_.+/-]+$/, says: 'the name or path of a shell, like `bash`' },
    },
    'shell for `run`',
  ),
  command: field(list(expressionText), 'program and arguments; replaces the image’s entrypoint, no shell'),
  args: field(list(expressionText), 'arguments for the image’s own entrypoint'),
  with: field(record(any), 'inputs of the image’s interface'),
});

const ignoreError = object({
  all: field(bool, 'no failure counts'),
  exitCodes: field(list(integer(0, 255)), 'exit codes that count as success'),
  output: field(
    object({
      contains: field(list(text), 'texts in the standard error'),
      regex: field(list(text), 'RE2 patterns for the standard error'),
    }),
    'failures whose output says so',
  ),
});

export const invokeShape = object({
  name: required(matching(nonEmpty), 'name in `invocationImages`'),
  action: field(action, 'what runs; the image’s entrypoint and cmd unless given'),
  dir: field(expressionText, 'working directory; relative to /cnab/app'),
  env: field(record(expressionText, envName), 'environment of this step'),
  outputs: field(list(stepOutputShape), 'what the step makes'),
  suppressOutput: field(bool, 'its output is not shown'),
  ignoreError: field(ignoreError, 'failures that do not count'),
});

type InvokeBody = Extract<Step['body'], { readonly kind: 'invoke' }>;

export function readInvoke(reader: Reader, node: DocNode, label: string): InvokeBody | undefined {
  const map = flatten(reader, node, label);
  if (map === undefined) return undefined;
  checkShape(reader, map, { shape: invokeShape, label });
  const image = textOf(map, 'name');
  if (image === undefined) return undefined;
  const env = childOf(map, 'env');
  return {
    kind: 'invoke',
    image,
    command: readCommand(reader, childOf(map, 'action'), `${label}.action`),
    ...defined({ dir: readDir(reader, childOf(map, 'dir'), label) }),
    env: new Map(
      env?.kind === 'map'
        ? env.entries.flatMap((entry) => {
            const value = asText(entry.value);
            return value === undefined ? [] : [[entry.key, value] as const];
          })
        : [],
    ),
    outputs: itemsOf(map, 'outputs').flatMap(
      (item, i) => readStepOutput(reader, item, `${label}.outputs[${i}]`) ?? [],
    ),
    suppressOutput: boolOf(map, 'suppressOutput') ?? false,
    ...defined({ ignoreError: readIgnoreError(childOf(map, 'ignoreError')) }),
  };
}

/** The proposal's list form becomes the map it means; a key given twice is as wrong as in a map. */
function flatten(reader: Reader, node: DocNode, label: string): MapNode | undefined {
  if (node.kind === 'map') return node;
  if (node.kind === 'scalar') {
    const hint =
      node.value === null
        ? 'write `invoke: {name: IMAGE}`'
        : `write \`invoke: {name: ${node.text.slice(0, 60)}}\``;
    report(reader, node.span, {
      code: 'wrong-type',
      message: `${label} must be a map or a list of maps`,
      hint,
    });
    return undefined;
  }
  const entries: MapEntry[] = [];
  for (const item of node.items) {
    if (item.kind !== 'map') {
      report(reader, item.span, {
        code: 'wrong-type',
        message: `each item of ${label} must be a map like \`name: IMAGE\` or \`action: …\``,
      });
      continue;
    }
    for (const entry of item.entries) {
      const earlier = entries.find((other) => other.key === entry.key);
      if (earlier === undefined) entries.push(entry);
      else
        report(reader, entry.keySpan, {
          code: 'duplicate-key',
          message: `the key \`${entry.key}\` stands twice in ${label}`,
          hint: `the first is on line ${reader.lines.at(earlier.keySpan.start).line}; one \`invoke\` runs one image once`,
        });
    }
  }
  return { kind: 'map', entries, flow: false, span: node.span };
}

const WAYS = ['run', 'command', 'args', 'with'] as const;

function readCommand(reader: Reader, node: DocNode | undefined, label: string): StepCommand {
  if (node?.kind !== 'map') return { kind: 'image' };
  const given = WAYS.filter((key) => {
    const value = childOf(node, key);
    return value !== undefined && !(value.kind === 'scalar' && value.value === null);
  });
  if (given.length > 1)
    report(reader, entryOf(node, given[1] ?? '')?.keySpan ?? headOf(node), {
      code: 'conflicting-keys',
      message: `${label} has ${given.map((key) => `\`${key}\``).join(' and ')}`,
      hint: 'keep one of them; each says on its own what runs',
    });
  const kind = given[0];
  const shell = textOf(node, 'shell');
  if (shell !== undefined && kind !== 'run')
    report(reader, entryOf(node, 'shell')?.keySpan ?? node.span, {
      code: 'conflicting-keys',
      message: '`shell` belongs to `run`',
      hint: 'remove it, or give the script under `run`',
    });
  if (kind === 'command' || kind === 'args') return readArgv(reader, node, { kind, label });
  if (kind === 'run') {
    const script = asText(childOf(node, 'run'));
    if (script !== undefined && script.text.trim() === '')
      report(reader, script.span, { code: 'bad-value', message: `${label}.run is empty` });
    if (script !== undefined) return { kind: 'run', script, ...defined({ shell }) };
  }
  const values = childOf(node, 'with');
  if (kind === 'with' && values !== undefined)
    return { kind: 'with', values: { value: toJson(values), span: values.span } };
  return { kind: 'image' };
}

function readArgv(
  reader: Reader,
  node: MapNode,
  options: { readonly kind: 'command' | 'args'; readonly label: string },
): StepCommand {
  const words = itemsOf(node, options.kind).flatMap((item): readonly Text[] => {
    const word = asText(item);
    return word === undefined ? [] : [word];
  });
  if (options.kind === 'args') return { kind: 'args', args: words };
  if (words.length === 0 && childOf(node, 'command')?.kind === 'seq')
    report(reader, entryOf(node, 'command')?.keySpan ?? node.span, {
      code: 'bad-value',
      message: `${options.label}.command is empty`,
      hint: 'name a program, or leave `command` out to run the image’s own',
    });
  return { kind: 'command', argv: words };
}

function readDir(reader: Reader, node: DocNode | undefined, label: string): Text | undefined {
  const dir =
    node === undefined || (node.kind === 'scalar' && node.value === null) ? undefined : asText(node);
  if (dir === undefined) return undefined;
  const parts = dir.text.split('/');
  if (parts.includes('..') || (dir.text.startsWith('/') && !/^\/cnab\/app(?:\/|$)/.test(dir.text)))
    report(reader, dir.span, {
      code: 'bad-path',
      message: `${label}.dir \`${dir.text.slice(0, 80)}\` leads out of /cnab/app`,
      hint: 'name a folder of the bundle, relative to its root',
    });
  return dir;
}

function readIgnoreError(node: DocNode | undefined): IgnoreError | undefined {
  if (node?.kind !== 'map') return undefined;
  const output = childOf(node, 'output');
  return {
    all: boolOf(node, 'all') ?? false,
    exitCodes: itemsOf(node, 'exitCodes').flatMap((item) =>
      item.kind === 'scalar' && typeof item.value === 'number' ? [item.value] : [],
    ),
    contains: textsOf(output, 'contains') ?? [],
    regex: textsOf(output, 'regex') ?? [],
  };
}
