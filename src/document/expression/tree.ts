import type { Json } from '../types.ts';
import { expressionError } from './errors.ts';
import { evaluatePartially } from './evaluate.ts';
import { printText } from './print.ts';
import { stringify } from './stringify.ts';
import { parseTemplate } from './template.ts';
import type { KnownResult, ParseOptions, Scope, Template } from './types.ts';

/** The kernel's limit for one argument or one `NAME=value`, in bytes, its closing NUL included (MAX_ARG_STRLEN). */
export const LONGEST_ARGUMENT = 131_072;

const DEEPEST = 200;

export interface LateTree {
  readonly state: 'late';
  /** The same tree with what is known (and not sensitive) filled in; evaluates like the original. */
  readonly residual: Json;
  readonly display: Json;
  readonly sensitive: boolean;
  readonly waitsFor: readonly string[];
}

/**
 * Fills in a structured value (`with:`, a mixin's step, a matrix): each string of the parsed tree by itself, keys
 * too, so that a value never adds a key or an item.
 *
 * @throws as `evaluate`; EXPRESSION_DUPLICATE_KEY when two keys become equal; EXPRESSION_LATE when a name is late.
 */
export function evaluateTree(tree: Json, scope: Scope, options: ParseOptions = {}): KnownResult {
  const result = evaluateTreePartially(tree, scope, options);
  if (result.state === 'value') return result;
  throw expressionError('EXPRESSION_LATE', 'a value is known only while the run is going on', {
    hint: `it waits for ${result.waitsFor.join(', ')}`,
    details: { waitsFor: result.waitsFor },
  });
}

/** As `evaluateTree`; late names leave a `residual` tree behind. */
export function evaluateTreePartially(
  tree: Json,
  scope: Scope,
  options: ParseOptions = {},
): KnownResult | LateTree {
  const walker = new TreeWalker(scope, options);
  const node = walker.walk(tree, 0);
  const sensitive = walker.sensitivePaths.size > 0 || walker.sensitive;
  if (!node.late)
    return { state: 'value', value: node.value, sensitive, sensitivePaths: [...walker.sensitivePaths] };
  return {
    state: 'late',
    residual: node.residual,
    display: node.display,
    sensitive,
    waitsFor: [...walker.waitsFor],
  };
}

interface Node {
  readonly late: boolean;
  readonly value: Json;
  readonly residual: Json;
  readonly display: Json;
}

class TreeWalker {
  readonly sensitivePaths = new Set<string>();
  readonly waitsFor = new Set<string>();
  sensitive = false;
  readonly #scope: Scope;
  readonly #options: ParseOptions;

  constructor(scope: Scope, options: ParseOptions) {
    this.#scope = scope;
    this.#options = options;
  }

  walk(tree: Json, depth: number): Node {
    if (depth > DEEPEST)
      throw expressionError('EXPRESSION_LIMIT', `a value is nested more than ${DEEPEST} levels deep`, {
        hint: 'let the step read it from a file of the bundle',
      });
    if (typeof tree === 'string') return this.#string(tree);
    if (tree === null || typeof tree !== 'object')
      return { late: false, value: tree, residual: tree, display: tree };
    if (Array.isArray(tree)) {
      const items = tree.map((item: Json) => this.walk(item, depth + 1));
      return {
        late: items.some((item) => item.late),
        value: items.map((item) => item.value),
        residual: items.map((item) => item.residual),
        display: items.map((item) => item.display),
      };
    }
    return this.#map(tree as { readonly [key: string]: Json }, depth);
  }

  #map(tree: { readonly [key: string]: Json }, depth: number): Node {
    const entries = Object.entries(tree).map(
      ([key, item]) => [this.#string(key), this.walk(item, depth + 1)] as const,
    );
    const late = entries.some(([key, item]) => key.late || item.late);
    return {
      late,
      value: fromEntries(entries.map(([key, item]) => [key.late ? key.display : key.value, item.value])),
      residual: fromEntries(entries.map(([key, item]) => [key.residual, item.residual])),
      display: fromEntries(entries.map(([key, item]) => [key.display, item.display])),
    };
  }

  #string(text: string): Node {
    const template = parseTemplate(text, this.#options);
    const result = evaluatePartially(template, this.#scope);
    this.sensitive ||= result.sensitive;
    if (result.state === 'late') {
      for (const label of result.waitsFor) this.waitsFor.add(label);
      return { late: true, value: null, residual: result.residual, display: result.display };
    }
    for (const path of result.sensitivePaths) this.sensitivePaths.add(path);
    const residual = result.sensitive ? text : (quoted(result.value, template) ?? text);
    return {
      late: false,
      value: result.value,
      residual,
      display: result.sensitive ? '⟨secret⟩' : result.value,
    };
  }
}

/** A known value as a tree that evaluates to itself: one pass only, whatever its texts look like. */
function quoted(value: Json, template: Template): Json | undefined {
  if (typeof value === 'string') return printText(value, template);
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) {
    const items = value.map((item: Json) => quoted(item, template));
    return items.some((item) => item === undefined) ? undefined : (items as Json[]);
  }
  const entries = Object.entries(value).map(
    ([key, item]) => [printText(key, template), quoted(item as Json, template)] as const,
  );
  if (entries.some(([key, item]) => key === undefined || item === undefined)) return undefined;
  return Object.fromEntries(entries) as Json;
}

function fromEntries(entries: readonly (readonly [Json, Json])[]): Json {
  const map = new Map<string, Json>();
  for (const [key, item] of entries) {
    const name = stringify(key);
    if (map.has(name))
      throw expressionError(
        'EXPRESSION_DUPLICATE_KEY',
        'two keys of a map are equal once their expressions are filled in',
        {
          hint: 'give the keys different values',
        },
      );
    map.set(name, item);
  }
  return Object.fromEntries(map);
}

export interface Argument {
  readonly text: string;
  readonly sensitive: boolean;
}

/**
 * The arguments that the elements of `command` or `args` become. An element that is one array-typed expression
 * becomes one argument per item, an empty array none; every other element is exactly one argument, the empty text
 * an empty one.
 *
 * @throws as `evaluate`; EXPRESSION_BYTES for NUL or text that is not Unicode; EXPRESSION_TOO_LONG over 128 KiB.
 */
export function expandArgv(
  elements: readonly (string | Template)[],
  scope: Scope,
  options: ParseOptions = {},
): readonly Argument[] {
  return elements.flatMap((element, i) => {
    const template = typeof element === 'string' ? parseTemplate(element, options) : element;
    const result = evaluatePartially(template, scope);
    if (result.state === 'late')
      throw expressionError('EXPRESSION_LATE', `argument ${i + 1} is known only while the run is going on`, {
        hint: `it waits for ${result.waitsFor.join(', ')}`,
      });
    const items = Array.isArray(result.value) ? (result.value as readonly Json[]) : [result.value];
    return items.map((item) => {
      const text = stringify(item);
      checkProcessString(text, `argument ${i + 1}`);
      return { text, sensitive: result.sensitive };
    });
  });
}

/**
 * Refuses what no process can be given. `name` is what the message calls it, such as `argument 2` or `TOKEN`.
 *
 * @throws EXPRESSION_BYTES, EXPRESSION_TOO_LONG (the limit holds for `NAME=value` together: give it in `text`).
 */
export function checkProcessString(text: string, name: string): void {
  checkBytes(text, name);
  if (text.length * 3 + 1 <= LONGEST_ARGUMENT) return;
  const bytes = Buffer.byteLength(text, 'utf8') + 1;
  if (bytes > LONGEST_ARGUMENT)
    throw expressionError(
      'EXPRESSION_TOO_LONG',
      `${name} is ${bytes} bytes long; arguments and environment variables end at 128 KiB`,
      {
        hint: 'hand it over as a file: give the parameter a `path`',
        details: { bytes, limit: LONGEST_ARGUMENT },
      },
    );
}

/**
 * Refuses NUL and lone surrogates, which no argument, variable or script can carry.
 *
 * @throws EXPRESSION_BYTES
 */
export function checkBytes(text: string, name: string): void {
  if (text.includes('\0'))
    throw expressionError(
      'EXPRESSION_BYTES',
      `${name} holds a NUL byte, which no argument, variable or script can carry`,
      {
        hint: 'hand it over as a file: give the parameter a `path` and `type: file`',
      },
    );
  if (!text.isWellFormed())
    throw expressionError('EXPRESSION_BYTES', `${name} is not valid Unicode text`, {
      hint: 'hand it over as a file: give the parameter a `path` and `type: file`',
    });
}
