import {
  childOf,
  type DocNode,
  didYouMean,
  type Lines,
  type MapNode,
  type Problem,
  type ProblemDraft,
  problemAt,
  type Span,
} from '../document/index.ts';
import type { Text } from './model.ts';
import type { ObjectShape, Shape, StringShape } from './shape.ts';

/** One reading of one file: where problems go, and how strict the file wants to be read. */
export interface Reader {
  readonly file: string;
  readonly source: string;
  readonly lines: Lines;
  /** The file has `invocationImages`: unknown keys and duplicate names are errors (docs/bundle.md). */
  readonly strict: boolean;
  readonly problems: Problem[];
}

export function report(reader: Reader, span: Span, draft: ProblemDraft): void {
  reader.problems.push(problemAt(reader, span, draft));
}

const KINDS = { scalar: 'text', seq: 'a list', map: 'a map' } as const;

/**
 * Checks a node against a shape and reports what is wrong. `label` names the node in messages (`parameters[0].env`).
 * A null is an absent value everywhere, as in Porter.
 */
export function checkShape(
  reader: Reader,
  node: DocNode,
  options: { readonly shape: Shape; readonly label: string },
): void {
  const { shape, label } = options;
  if (node.kind === 'scalar' && node.value === null) return;
  if (shape.kind === 'any') return;
  if (shape.kind === 'either') {
    const fitting = shape.options.find((option) => fits(node, option));
    if (fitting === undefined) wrongType(reader, node, label, shape.options.map(nameOf).join(' or '));
    else checkShape(reader, node, { shape: fitting, label });
    return;
  }
  if (!fits(node, shape)) {
    wrongType(reader, node, label, nameOf(shape));
    return;
  }
  if (node.kind === 'scalar') checkScalar(reader, node, { shape, label });
  else if (node.kind === 'seq' && shape.kind === 'list')
    for (const [i, item] of node.items.entries())
      checkItem(reader, item, { shape: shape.items, label: `${label}[${i}]` });
  else if (node.kind === 'map' && shape.kind === 'record')
    for (const entry of node.entries) {
      if (shape.keys !== undefined && !shape.keys.pattern.test(entry.key))
        badValue(
          reader,
          entry.keySpan,
          `the name \`${entry.key}\` in ${label}`,
          `must be ${shape.keys.says}`,
        );
      checkShape(reader, entry.value, { shape: shape.values, label: `${label}.${entry.key}` });
    }
  else if (node.kind === 'map' && shape.kind === 'object') checkObject(reader, node, { shape, label });
}

function checkItem(
  reader: Reader,
  item: DocNode,
  options: { readonly shape: Shape; readonly label: string },
): void {
  if (item.kind === 'scalar' && item.value === null && options.shape.kind !== 'any' && item.style === 'plain')
    report(reader, item.span, {
      code: 'empty-item',
      message: `${options.label} is empty`,
      hint: 'remove the `-` or fill it in',
    });
  else checkShape(reader, item, options);
}

function checkObject(
  reader: Reader,
  node: MapNode,
  options: { readonly shape: ObjectShape; readonly label: string },
): void {
  const { shape, label } = options;
  const prefix = label === '' ? '' : `${label}.`;
  for (const entry of node.entries) {
    const known = Object.hasOwn(shape.fields, entry.key) ? shape.fields[entry.key]?.shape : shape.rest;
    if (known === undefined) unknownKey(reader, entry, { label, known: Object.keys(shape.fields) });
    else checkShape(reader, entry.value, { shape: known, label: `${prefix}${entry.key}` });
  }
  for (const [key, field] of Object.entries(shape.fields)) {
    if (field.required !== true) continue;
    const value = childOf(node, key);
    if (value === undefined || (value.kind === 'scalar' && value.value === null))
      report(reader, headOf(node), {
        code: 'missing-key',
        message: `${label === '' ? 'the bundle' : label} has no \`${key}\``,
        hint: `add \`${key}:\`, ${field.says}`,
      });
  }
}

/** The first key of a map, so that a caret does not claim a whole block. */
export function headOf(node: DocNode): Span {
  return node.kind === 'map' && node.entries[0] !== undefined && !node.flow
    ? node.entries[0].keySpan
    : node.span;
}

/**
 * An unknown key: an error in files with `invocationImages` and wherever a known key was probably meant; elsewhere
 * a warning, as Porter ignores such keys.
 */
export function unknownKey(
  reader: Reader,
  entry: { readonly key: string; readonly keySpan: Span },
  options: { readonly label: string; readonly known: readonly string[] },
): void {
  const meant = didYouMean(entry.key, options.known);
  const where = options.label === '' ? 'the bundle' : options.label;
  report(reader, entry.keySpan, {
    severity: reader.strict || meant !== undefined ? 'error' : 'warning',
    code: 'unknown-key',
    message: `unknown key \`${entry.key}\` in ${where}`,
    hint:
      meant === undefined
        ? `known are: ${options.known.slice(0, 24).join(', ')}`
        : `did you mean \`${meant}\`?`,
  });
}

function fits(node: DocNode, shape: Shape): boolean {
  if (shape.kind === 'any') return true;
  if (shape.kind === 'either') return shape.options.some((option) => fits(node, option));
  if (node.kind === 'seq') return shape.kind === 'list';
  if (node.kind === 'map') return shape.kind === 'record' || shape.kind === 'object';
  if (shape.kind === 'boolean') return booleanOf(node) !== undefined;
  if (shape.kind === 'number') return typeof node.value === 'number';
  return shape.kind === 'string';
}

function nameOf(shape: Shape): string {
  if (shape.kind === 'list') return 'a list';
  if (shape.kind === 'record' || shape.kind === 'object') return 'a map';
  if (shape.kind === 'boolean') return 'true or false';
  if (shape.kind === 'number') return shape.integer ? 'a whole number' : 'a number';
  return 'text';
}

function wrongType(reader: Reader, node: DocNode, label: string, wanted: string): void {
  const got =
    node.kind === 'scalar' && wanted.startsWith('text') === false
      ? `\`${node.text.slice(0, 60)}\``
      : KINDS[node.kind];
  report(reader, node.kind === 'map' ? headOf(node) : node.span, {
    code: 'wrong-type',
    message: `${label === '' ? 'the file' : label} must be ${wanted}, and is ${got}`,
    hint:
      wanted === 'a list' && node.kind === 'scalar'
        ? 'write a list: `[first, second]`, or one `- ` a line'
        : undefined,
  });
}

export function badValue(reader: Reader, span: Span, what: string, says: string, hint?: string): void {
  report(reader, span, { code: 'bad-value', message: `${what} ${says}`, hint });
}

function checkScalar(
  reader: Reader,
  node: DocNode & { readonly kind: 'scalar' },
  options: { readonly shape: Shape; readonly label: string },
): void {
  const { shape, label } = options;
  if (shape.kind === 'string') checkString(reader, node, { shape, label });
  if (shape.kind !== 'number' || typeof node.value !== 'number') return;
  if (shape.integer && !Number.isInteger(node.value))
    badValue(reader, node.span, label, 'must be a whole number');
  else if (shape.minimum !== undefined && node.value < shape.minimum)
    badValue(reader, node.span, label, `must be at least ${shape.minimum}`);
  else if (shape.maximum !== undefined && node.value > shape.maximum)
    badValue(reader, node.span, label, `must be at most ${shape.maximum}`);
}

function checkString(
  reader: Reader,
  node: DocNode & { readonly kind: 'scalar' },
  options: { readonly shape: StringShape; readonly label: string },
): void {
  const { shape, label } = options;
  if (shape.expressions === true && /\$\{|\{\{/.test(node.text)) return;
  if (shape.values !== undefined && !shape.values.includes(node.text)) {
    const meant = didYouMean(node.text, shape.values);
    badValue(
      reader,
      node.span,
      `${label} is \`${node.text.slice(0, 80)}\` and`,
      `must be one of ${shape.values.join(', ')}`,
      meant === undefined ? undefined : `did you mean \`${meant}\`?`,
    );
  }
  if (shape.check !== undefined && !shape.check.pattern.test(node.text))
    badValue(reader, node.span, `${label} \`${node.text.slice(0, 80)}\``, `must be ${shape.check.says}`);
}

/** yaml.v3 takes these for booleans in a field that is one; so does Porter. */
const YES = /^(?:true|yes|on|y)$/i;
const NO = /^(?:false|no|off|n)$/i;

function booleanOf(node: DocNode | undefined): boolean | undefined {
  if (node?.kind !== 'scalar') return undefined;
  if (typeof node.value === 'boolean') return node.value;
  if (node.style !== 'plain') return undefined;
  return YES.test(node.text) ? true : NO.test(node.text) ? false : undefined;
}

/** Text of a member; numbers and booleans as written, undefined when absent, null or no scalar. */
export function textOf(node: DocNode | undefined, key: string): string | undefined {
  const value = childOf(node, key);
  return value?.kind === 'scalar' && value.value !== null ? value.text : undefined;
}

export function boolOf(node: DocNode | undefined, key: string): boolean | undefined {
  return booleanOf(childOf(node, key));
}

export function numberOf(node: DocNode | undefined, key: string): number | undefined {
  const value = childOf(node, key);
  return value?.kind === 'scalar' && typeof value.value === 'number' ? value.value : undefined;
}

/** The items of a list member that are scalars, as written. */
export function textsOf(node: DocNode | undefined, key: string): readonly string[] | undefined {
  const value = childOf(node, key);
  if (value?.kind !== 'seq') return undefined;
  return value.items.flatMap((item) => (item.kind === 'scalar' && item.value !== null ? [item.text] : []));
}

export function itemsOf(node: DocNode | undefined, key: string): readonly DocNode[] {
  const value = childOf(node, key);
  return value?.kind === 'seq' ? value.items : [];
}

export function textRecordOf(node: DocNode | undefined, key: string): Readonly<Record<string, string>> {
  const value = childOf(node, key);
  if (value?.kind !== 'map') return {};
  return Object.fromEntries(
    value.entries.flatMap((entry) =>
      entry.value.kind === 'scalar'
        ? [[entry.key, entry.value.value === null ? '' : entry.value.text] as const]
        : [],
    ),
  );
}

/** A scalar as `Text`; empty for null. */
export function asText(node: DocNode | undefined): Text | undefined {
  return node?.kind === 'scalar'
    ? { text: node.value === null ? '' : node.text, span: node.span }
    : undefined;
}

/**
 * Drops earlier ones of the same name (Porter's "the last wins") and reports them: an error in files with
 * `invocationImages`, a warning elsewhere.
 */
export function uniqueByName<T extends { readonly name: string; readonly span: Span }>(
  reader: Reader,
  what: string,
  items: readonly T[],
): readonly T[] {
  const byName = new Map<string, T>();
  for (const item of items) {
    const earlier = byName.get(item.name);
    if (earlier !== undefined) {
      const { line } = reader.lines.at(earlier.span.start);
      report(reader, item.span, {
        severity: reader.strict ? 'error' : 'warning',
        code: 'duplicate-name',
        message: `two ${what} are called \`${item.name}\`${reader.strict ? '' : '; the last one holds, as in Porter'}`,
        hint: `the first is on line ${line}; rename or remove one`,
      });
      byName.delete(item.name);
    }
    byName.set(item.name, item);
  }
  return [...byName.values()];
}
