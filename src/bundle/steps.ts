import { childOf, type DocNode, didYouMean, type MapEntry, type MapNode, toJson } from '../document/index.ts';
import { defined } from './invocation-images.ts';
import { invokeShape, readInvoke } from './invoke.ts';
import type { Bundle, Condition, Retry, Step, Text } from './model.ts';
import {
  asText,
  badValue,
  boolOf,
  checkShape,
  headOf,
  itemsOf,
  numberOf,
  type Reader,
  report,
  textOf,
  textsOf,
  unknownKey,
} from './reader.ts';
import {
  any,
  bool,
  either,
  expressionText,
  type Field,
  field,
  integer,
  list,
  matching,
  number,
  object,
  oneOf,
  plainName,
  record,
  required,
  text,
} from './shape.ts';
import { parseDuration } from './units.ts';

const retryShape = object({
  attempts: required(integer(1, 1000), 'attempts in all'),
  delay: field(text, 'pause before the next attempt; `1s` unless given'),
  factor: field(number(1), 'each pause is this many times the one before; 1 unless given'),
  onExit: field(list(integer(0, 255)), 'exit codes worth another attempt; any unless given'),
});

/** What may stand beside `invoke` or beside a mixin's key. */
export const frameFields: Readonly<Record<string, Field>> = {
  id: field(matching(plainName), 'name for needs, outputs, resume and `skycap step run`'),
  description: field(expressionText, 'what the step does, shown while it runs'),
  when: field(either(bool, expressionText), 'runs only if this expression is true'),
  needs: field(list(text), 'ids of the steps that must have ended; all before it unless given'),
  timeout: field(text, 'per attempt, like `10m`'),
  retry: field(retryShape, 'attempts after a failure'),
  idempotent: field(bool, 'may run again after a crash without asking'),
  always: field(bool, 'runs after a failure too'),
  matrix: field(record(either(list(any), expressionText), plainName), 'a container per value'),
  maxParallel: field(integer(1, 1000), 'most cells of the matrix at once'),
  failFast: field(bool, 'the first failed cell stops the others'),
  credentials: field(
    either(oneOf('all'), list(text)),
    'credentials the step sees; what the image names unless given',
  ),
  parameters: field(
    either(oneOf('all'), list(text)),
    'parameters the step sees; what the image names unless given',
  ),
  inputs: field(list(text), 'earlier outputs the step reads as files below /cnab/app/inputs'),
};

/** One step for the editor's schema: the frame, `invoke`, and any mixin. */
export const stepShape = object(
  { ...frameFields, invoke: field(either(invokeShape, list(any)), 'runs an invocation image') },
  any,
);

/** The steps of one action. Empty items and steps beyond repair are reported and left out. */
export function readSteps(reader: Reader, entry: MapEntry, mixins: Bundle['mixins']): readonly Step[] {
  const { value, key } = entry;
  if (value.kind !== 'seq') {
    if (!(value.kind === 'scalar' && value.value === null))
      report(reader, headOf(value), {
        code: 'wrong-type',
        message: `\`${key}\` must be a list of steps`,
        hint: 'begin each step with `- `',
      });
    return [];
  }
  return value.items.flatMap(
    (item, index) => readStep(reader, item, { label: `${key}[${index}]`, index, mixins }) ?? [],
  );
}

interface StepOptions {
  readonly label: string;
  readonly index: number;
  readonly mixins: Bundle['mixins'];
}

function readStep(reader: Reader, node: DocNode, options: StepOptions): Step | undefined {
  const { label } = options;
  if (node.kind === 'scalar' && node.value === null) {
    report(reader, node.span, {
      code: 'empty-step',
      message: `the step ${label} is empty`,
      hint: 'remove the `-` or write a step behind it',
    });
    return undefined;
  }
  if (node.kind !== 'map') {
    report(reader, node.span, {
      code: 'wrong-type',
      message: `the step ${label} must be a map with \`invoke:\` or a mixin’s key`,
    });
    return undefined;
  }
  const body = readBody(reader, node, options);
  for (const entry of node.entries) {
    const frame = Object.hasOwn(frameFields, entry.key) ? frameFields[entry.key] : undefined;
    if (frame !== undefined)
      checkShape(reader, entry.value, { shape: frame.shape, label: `${label}.${entry.key}` });
  }
  if (body === undefined) return undefined;
  const inner = body.kind === 'mixin' ? innerDescription(reader, node, body.mixin) : undefined;
  return {
    index: options.index,
    ...defined({ id: textOf(node, 'id') }),
    description: asText(childOf(node, 'description')) ?? inner ?? { text: '', span: node.span },
    body,
    ...readFrame(reader, node, label),
    span: node.span,
  };
}

function readFrame(
  reader: Reader,
  node: MapNode,
  label: string,
): Omit<Step, 'index' | 'id' | 'description' | 'body' | 'span'> {
  const retry = readRetry(reader, childOf(node, 'retry'), label);
  const matrix = readMatrix(reader, node, label);
  for (const key of ['maxParallel', 'failFast'])
    if (matrix === undefined && childOf(node, key) !== undefined)
      report(reader, childOf(node, key)?.span ?? node.span, {
        code: 'conflicting-keys',
        message: `${label}.${key} says nothing without \`matrix\``,
        hint: 'add `matrix:` or remove it',
      });
  return {
    ...defined({
      when: readCondition(node),
      needs: textsOf(node, 'needs'),
      timeoutMs: readDuration(reader, node, { key: 'timeout', label }),
      retry,
      matrix,
      maxParallel: numberOf(node, 'maxParallel'),
      credentials: readNames(node, 'credentials'),
      parameters: readNames(node, 'parameters'),
    }),
    idempotent: boolOf(node, 'idempotent') ?? false,
    always: boolOf(node, 'always') ?? false,
    failFast: boolOf(node, 'failFast') ?? false,
    inputs: textsOf(node, 'inputs') ?? [],
  };
}

function readCondition(node: MapNode): Condition | undefined {
  const when = childOf(node, 'when');
  if (when?.kind === 'scalar' && when.value === null) return undefined;
  const text = asText(when);
  return text === undefined ? undefined : { ...text, ...defined({ value: boolOf(node, 'when') }) };
}

function readNames(node: MapNode, key: string): 'all' | readonly string[] | undefined {
  return textOf(node, key) === 'all' ? 'all' : textsOf(node, key);
}

function readDuration(
  reader: Reader,
  node: DocNode | undefined,
  options: { readonly key: string; readonly label: string },
): number | undefined {
  const written = textOf(node, options.key);
  if (written === undefined) return undefined;
  const milliseconds = parseDuration(written);
  if (milliseconds === undefined)
    badValue(
      reader,
      childOf(node, options.key)?.span ?? { start: 0, end: 0 },
      `${options.label}.${options.key} \`${written.slice(0, 40)}\``,
      'must be a duration with a unit, like `90s`, `10m` or `1h30m`, at most 24 days',
    );
  return milliseconds;
}

function readRetry(reader: Reader, node: DocNode | undefined, label: string): Retry | undefined {
  const attempts = numberOf(node, 'attempts');
  if (node?.kind !== 'map' || attempts === undefined) return undefined;
  const onExit =
    childOf(node, 'onExit')?.kind === 'seq'
      ? itemsOf(node, 'onExit').flatMap((item) =>
          item.kind === 'scalar' && typeof item.value === 'number' ? [item.value] : [],
        )
      : undefined;
  return {
    attempts,
    delayMs: readDuration(reader, node, { key: 'delay', label: `${label}.retry` }) ?? 1000,
    factor: numberOf(node, 'factor') ?? 1,
    ...defined({ onExit }),
  };
}

function readMatrix(reader: Reader, node: MapNode, label: string): Step['matrix'] {
  const matrix = childOf(node, 'matrix');
  if (matrix?.kind !== 'map') return undefined;
  if (matrix.entries.length === 0)
    badValue(reader, matrix.span, `${label}.matrix`, 'must have at least one key');
  for (const entry of matrix.entries)
    if (entry.value.kind === 'seq' && entry.value.items.length === 0)
      badValue(reader, entry.value.span, `${label}.matrix.${entry.key}`, 'must have at least one value');
    else if (entry.value.kind === 'scalar' && !/\$\{|\{\{/.test(entry.value.text))
      badValue(
        reader,
        entry.value.span,
        `${label}.matrix.${entry.key}`,
        'must be a list, or one expression that gives a list',
      );
  return new Map(
    matrix.entries.map((entry) => [entry.key, { value: toJson(entry.value), span: entry.value.span }]),
  );
}

function innerDescription(reader: Reader, node: MapNode, mixin: string): Text | undefined {
  const value = childOf(node, mixin);
  const description = childOf(value, 'description');
  if (description === undefined) return undefined;
  if (description.kind !== 'scalar') {
    report(reader, description.span, {
      code: 'wrong-type',
      message: `the description of a ${mixin} step must be text, and is ${description.kind === 'seq' ? 'a list' : 'a map'}`,
    });
    return undefined;
  }
  return asText(description);
}

function readBody(reader: Reader, node: MapNode, options: StepOptions): Step['body'] | undefined {
  const { label, mixins } = options;
  const others = node.entries.filter((entry) => !Object.hasOwn(frameFields, entry.key));
  const invoke = others.find((entry) => entry.key === 'invoke');
  const mixinEntries = others.filter((entry) => mixins.some((mixin) => mixin.name === entry.key));
  const body = invoke ?? mixinEntries[0] ?? (others.length === 1 ? others[0] : undefined);
  const known = [...Object.keys(frameFields), 'invoke', ...mixins.map((mixin) => mixin.name)];
  if (body === undefined) {
    for (const entry of others) unknownKey({ ...reader, strict: true }, entry, { label, known });
    if (others.length === 0)
      report(reader, headOf(node), {
        code: 'step-without-body',
        message: `the step ${label} says nothing to run`,
        hint: 'add `invoke:` with the name of an invocation image',
      });
    return undefined;
  }
  for (const entry of others) {
    if (entry === body) continue;
    if (entry === invoke || mixinEntries.includes(entry))
      report(reader, entry.keySpan, {
        code: 'conflicting-keys',
        message: `the step ${label} has \`${body.key}\` and \`${entry.key}\``,
        hint: 'begin a step of its own with `- `',
      });
    else unknownKey({ ...reader, strict: true }, entry, { label, known });
  }
  if (body.key === 'invoke') return readInvoke(reader, body.value, `${label}.invoke`);
  return readMixinBody(reader, body, options);
}

function readMixinBody(reader: Reader, entry: MapEntry, options: StepOptions): Step['body'] | undefined {
  if (!options.mixins.some((mixin) => mixin.name === entry.key)) {
    const meant = didYouMean(entry.key, [
      ...options.mixins.map((mixin) => mixin.name),
      ...Object.keys(frameFields),
      'invoke',
    ]);
    report(reader, entry.keySpan, {
      code: meant === undefined ? 'mixin-undeclared' : 'unknown-key',
      message: `the step ${options.label} uses \`${entry.key}\`, which \`mixins\` does not list`,
      hint:
        meant === undefined
          ? `add \`- ${entry.key}\` under \`mixins:\`, or use \`invoke:\``
          : `did you mean \`${meant}\`?`,
    });
    return undefined;
  }
  if (entry.value.kind !== 'map') {
    report(reader, entry.value.span, {
      code: 'wrong-type',
      message: `the ${entry.key} step ${options.label} must be a map, and is ${entry.value.kind === 'seq' ? 'a list' : 'text'}`,
    });
    return undefined;
  }
  return { kind: 'mixin', mixin: entry.key, value: toJson(entry.value) };
}
