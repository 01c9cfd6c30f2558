import { didYouMean } from '../suggest.ts';
import type { Json } from '../types.ts';
import { expressionError } from './errors.ts';
import { callFunction } from './functions.ts';
import { printExpression, printTemplate } from './print.ts';
import { pathText } from './references.ts';
import { sameJson, stringify, typeName } from './stringify.ts';
import type {
  Expression,
  KnownResult,
  LateResult,
  Scope,
  ScopeNode,
  Segment,
  Template,
  TemplatePart,
} from './types.ts';

/** What a part of an expression came to. `residual` is what remains of it once the known parts are filled in. */
type Outcome =
  | { readonly state: 'value'; readonly value: Json; readonly sensitive: boolean }
  | {
      readonly state: 'late';
      readonly residual: Expression;
      readonly display: string;
      readonly sensitive: boolean;
    }
  | { readonly state: 'absent'; readonly path: string; readonly reason: string };

type Settled = Exclude<Outcome, { state: 'absent' }>;

interface Notes {
  readonly sensitivePaths: Set<string>;
  readonly waitsFor: Set<string>;
}

/**
 * The value of a template. One that is a single expression keeps the value's type; any other is text, with values
 * as `stringify` writes them. Branches that do not count (`false && x`, a `default` that is not needed) are not
 * looked at.
 *
 * @throws EXPRESSION_SYNTAX, EXPRESSION_UNKNOWN_NAME (with did-you-mean), EXPRESSION_SCOPE, EXPRESSION_NO_VALUE,
 * EXPRESSION_TYPE, EXPRESSION_FUNCTION, EXPRESSION_LIMIT; EXPRESSION_LATE when a name is late or secret.
 */
export function evaluate(template: Template, scope: Scope): KnownResult {
  const result = evaluatePartially(template, scope);
  if (result.state === 'value') return result;
  throw expressionError(
    'EXPRESSION_LATE',
    `${shorten(template.source)} is known only while the run is going on`,
    {
      hint: `it waits for ${result.waitsFor.join(', ')}`,
      details: { waitsFor: result.waitsFor },
    },
  );
}

/**
 * The value, or what remains to be evaluated when a name is late or secret. `residual` is text again, and with
 * the missing names known it gives what the original would have given.
 *
 * @throws as `evaluate`, EXPRESSION_LATE excepted.
 */
export function evaluatePartially(template: Template, scope: Scope): KnownResult | LateResult {
  const notes: Notes = { sensitivePaths: new Set(), waitsFor: new Set() };
  const outcomes = template.parts.map((part) => partOutcome(part, template, scope, notes));
  const only = outcomes.length === 1 ? outcomes[0] : undefined;
  const sensitive = outcomes.some((o) => o.sensitive);
  if (outcomes.every((o) => o.state === 'value')) {
    const value = only?.state !== 'value' ? outcomes.map((o) => stringify(o.value)).join('') : only.value;
    return { state: 'value', value, sensitive, sensitivePaths: [...notes.sensitivePaths] };
  }
  const parts = outcomes.map((outcome, i): TemplatePart => {
    const original = template.parts[i] as TemplatePart;
    const { span } = original;
    if (outcome.state === 'late') return { kind: 'expression', expression: outcome.residual, span };
    return outcome.sensitive ? original : { kind: 'text', text: stringify(outcome.value), span };
  });
  return {
    state: 'late',
    residual: printTemplate({ ...template, parts }),
    display: outcomes.map(displayOf).join(''),
    sensitive,
    waitsFor: [...notes.waitsFor],
  };
}

/**
 * The value of a `when`.
 *
 * @throws EXPRESSION_TYPE when it is neither true nor false; otherwise as `evaluate`.
 */
export function evaluateCondition(
  template: Template,
  scope: Scope,
): { readonly value: boolean; readonly sensitive: boolean } {
  const { value, sensitive } = evaluate(template, scope);
  if (typeof value === 'boolean') return { value, sensitive };
  throw expressionError(
    'EXPRESSION_TYPE',
    `the condition ${shorten(template.source)} is ${typeName(value)}, and has to be true or false`,
    {
      hint: 'compare it with something, as in NAME == "text"',
    },
  );
}

function displayOf(outcome: Settled): string {
  if (outcome.state === 'late') return outcome.display;
  return outcome.sensitive ? '⟨secret⟩' : stringify(outcome.value);
}

function partOutcome(part: TemplatePart, template: Template, scope: Scope, notes: Notes): Settled {
  if (part.kind === 'text') return { state: 'value', value: part.text, sensitive: false };
  const source = template.source.slice(part.span.start, part.span.end);
  if (part.kind === 'invalid')
    throw expressionError('EXPRESSION_SYNTAX', `${shorten(source)} cannot be read: ${part.message}`, {
      ...(part.hint === undefined ? {} : { hint: part.hint }),
      details: { span: part.span, at: part.at },
    });
  return settled(walk(part.expression, scope, notes));
}

function settled(outcome: Outcome): Settled {
  if (outcome.state !== 'absent') return outcome;
  throw expressionError('EXPRESSION_NO_VALUE', `${outcome.path} has no value: ${outcome.reason}`, {
    hint: `give a fallback: default(${outcome.path}, "text")`,
    details: { name: outcome.path },
  });
}

function walk(node: Expression, scope: Scope, notes: Notes): Outcome {
  switch (node.kind) {
    case 'literal':
      return { state: 'value', value: node.value, sensitive: false };
    case 'path':
      return lookUp(node, scope, notes);
    case 'member':
      return member(node, settled(walk(node.object, scope, notes)));
    case 'list':
      return combine(
        node.items.map((item) => settled(walk(item, scope, notes))),
        (values) => values,
        (items) => ({ ...node, items }),
      );
    case 'not':
      return combine(
        [settled(walk(node.operand, scope, notes))],
        ([v]) => !truth(v as Json, '!'),
        ([operand]) => ({
          ...node,
          operand: operand as Expression,
        }),
      );
    case 'binary':
      return binary(node, scope, notes);
    case 'call':
      if (node.name === 'default') return fallback(node, scope, notes);
      return combine(
        node.args.map((arg) => settled(walk(arg, scope, notes))),
        (values) => callFunction(node.name, values),
        (args) => ({ ...node, args }),
      );
  }
}

/** The value when all parts have one, else the same node over what remains of its parts. */
function combine(
  parts: readonly Settled[],
  compute: (values: readonly Json[]) => Json,
  rebuild: (parts: readonly Expression[]) => Expression,
): Settled {
  const sensitive = parts.some((p) => p.sensitive);
  if (parts.every((p) => p.state === 'value'))
    return { state: 'value', value: compute(parts.map((p) => p.value)), sensitive };
  const residual = rebuild(parts.map(residualOf));
  return { state: 'late', residual, display: `⟨${printExpression(residual)}⟩`, sensitive };
}

const NOWHERE = { start: 0, end: 0 };

function residualOf(outcome: Settled): Expression {
  if (outcome.state === 'late') return outcome.residual;
  const { value } = outcome;
  if (value === null || typeof value !== 'object') return { kind: 'literal', value, span: NOWHERE };
  if (Array.isArray(value))
    return {
      kind: 'list',
      items: value.map((item: Json) => residualOf({ state: 'value', value: item, sensitive: false })),
      span: NOWHERE,
    };
  const json: Expression = { kind: 'literal', value: JSON.stringify(value), span: NOWHERE };
  return { kind: 'call', name: 'fromJson', args: [json], span: NOWHERE };
}

function truth(value: Json, operator: string): boolean {
  if (typeof value === 'boolean') return value;
  throw expressionError('EXPRESSION_TYPE', `\`${operator}\` wants true or false and got ${typeName(value)}`, {
    hint: 'compare it with something, as in NAME == "text"; for a fallback use default(NAME, "text")',
  });
}

function binary(node: Extract<Expression, { kind: 'binary' }>, scope: Scope, notes: Notes): Outcome {
  const { operator } = node;
  const left = settled(walk(node.left, scope, notes));
  if ((operator === '&&' || operator === '||') && left.state === 'value') {
    if (truth(left.value, operator) === (operator === '||')) return { ...left };
    const right = settled(walk(node.right, scope, notes));
    const sensitive = left.sensitive || right.sensitive;
    if (right.state === 'late') return { ...right, sensitive };
    return { state: 'value', value: truth(right.value, operator), sensitive };
  }
  const right = settled(walk(node.right, scope, notes));
  return combine(
    [left, right],
    ([a, b]) => compare(operator, a as Json, b as Json),
    ([l, r]) => ({ ...node, left: l as Expression, right: r as Expression }),
  );
}

function compare(operator: string, a: Json, b: Json): boolean {
  if (operator === '==') return sameJson(a, b);
  if (operator === '!=') return !sameJson(a, b);
  if (operator === '&&' || operator === '||') {
    const [x, y] = [truth(a, operator), truth(b, operator)];
    return operator === '&&' ? x && y : x || y;
  }
  if (operator === 'in') return isIn(a, b);
  if ((typeof a !== 'number' || typeof b !== 'number') && (typeof a !== 'string' || typeof b !== 'string'))
    throw expressionError(
      'EXPRESSION_TYPE',
      `\`${operator}\` compares two numbers or two texts, and got ${typeName(a)} and ${typeName(b)}`,
      { hint: 'compare values of one type: a number needs no quotes' },
    );
  if (operator === '<') return a < b;
  if (operator === '<=') return a <= b;
  return operator === '>' ? a > b : a >= b;
}

function isIn(a: Json, b: Json): boolean {
  if (Array.isArray(b)) return b.some((item: Json) => sameJson(a, item));
  if (typeof a === 'string' && typeof b === 'string') return b.includes(a);
  if (typeof a === 'string' && typeof b === 'object' && b !== null) return Object.hasOwn(b, a);
  throw expressionError(
    'EXPRESSION_TYPE',
    `\`in\` looks into a list, a map or a text, and got ${typeName(b)}`,
    { hint: 'text that holds JSON is opened with fromJson(NAME)' },
  );
}

/** The first argument that has a value; null counts as none, the empty text as one. */
function fallback(node: Extract<Expression, { kind: 'call' }>, scope: Scope, notes: Notes): Outcome {
  if (node.args.length < 2)
    throw expressionError('EXPRESSION_FUNCTION', 'default() takes a name and a fallback', {
      hint: 'write default(NAME, "text")',
    });
  let sensitive = false;
  let last: Outcome | undefined;
  for (const [i, arg] of node.args.entries()) {
    const outcome = walk(arg, scope, notes);
    if (outcome.state === 'absent') {
      last = outcome;
      continue;
    }
    sensitive ||= outcome.sensitive;
    // Whether a late value will be null cannot be known: the rest stays as it is.
    if (outcome.state === 'late' && i < node.args.length - 1) {
      const residual: Expression = { ...node, args: [outcome.residual, ...node.args.slice(i + 1)] };
      return { state: 'late', residual, display: outcome.display, sensitive };
    }
    if (outcome.state === 'late') return { ...outcome, sensitive };
    last = { ...outcome, sensitive };
    if (outcome.value !== null) return last;
  }
  return last as Outcome;
}

function lookUp(node: Extract<Expression, { kind: 'path' }>, scope: Scope, notes: Notes): Outcome {
  let at: ScopeNode = scope;
  for (const [i, segment] of node.segments.entries()) {
    if (at.kind !== 'names') return leaf(node, at, i, notes);
    const next = at.names.get(segment.name);
    if (next === undefined && at.open) {
      const label = pathText(node.segments);
      notes.waitsFor.add(label);
      return { state: 'late', residual: node, display: `⟨${label}⟩`, sensitive: false };
    }
    if (next === undefined) throw unknownName(node.segments, i, at.names.keys());
    at = next;
  }
  if (at.kind === 'names') throw incomplete(node.segments, at.names.keys());
  return leaf(node, at, node.segments.length, notes);
}

function leaf(
  node: Extract<Expression, { kind: 'path' }>,
  at: Exclude<ScopeNode, { kind: 'names' }>,
  used: number,
  notes: Notes,
): Outcome {
  const path = pathText(node.segments.slice(0, used));
  if (at.kind === 'denied')
    throw expressionError('EXPRESSION_SCOPE', `${path} cannot be used here: ${at.reason}`, {
      ...(at.hint === undefined ? {} : { hint: at.hint }),
      details: { name: path },
    });
  if (at.kind === 'absent') return { state: 'absent', path, reason: at.reason };
  if (at.sensitive) notes.sensitivePaths.add(path);
  if (at.kind === 'late') {
    notes.waitsFor.add(at.label);
    return { state: 'late', residual: node, display: `⟨${at.label}⟩`, sensitive: at.sensitive };
  }
  let found: Json = at.value;
  for (const [i, segment] of node.segments.slice(used).entries())
    found = memberOf(found, segment, pathText(node.segments.slice(0, used + i)));
  // A sensitive value is never written into a plan: the name stays.
  return { state: 'value', value: found, sensitive: at.sensitive };
}

function member(node: Extract<Expression, { kind: 'member' }>, object: Settled): Settled {
  return combine(
    [object],
    ([value]) => memberOf(value as Json, node.name, printExpression(node.object)),
    ([o]) => ({
      ...node,
      object: o as Expression,
    }),
  );
}

function memberOf(object: Json, segment: Segment, path: string): Json {
  const { name } = segment;
  if (Array.isArray(object)) {
    const item = /^\d{1,9}$/.test(name) ? (object[Number(name)] as Json | undefined) : undefined;
    if (item !== undefined) return item;
    throw expressionError(
      'EXPRESSION_UNKNOWN_NAME',
      `${shorten(path)} is a list of ${object.length} and has no item ${name}`,
      {
        hint: 'items are counted from 0',
      },
    );
  }
  if (typeof object === 'object' && object !== null) {
    const map = object as { readonly [key: string]: Json };
    if (Object.hasOwn(map, name)) return map[name] as Json;
    throw noMember(path, name, Object.keys(map));
  }
  throw expressionError(
    'EXPRESSION_UNKNOWN_NAME',
    `${shorten(path)} is ${typeName(object)} and has nothing called ${name}`,
    {
      hint: 'text that holds JSON is opened with fromJson(NAME)',
    },
  );
}

function noMember(path: string, name: string, known: readonly string[]) {
  const near = didYouMean(name, known.slice(0, 1000));
  return expressionError('EXPRESSION_UNKNOWN_NAME', `${shorten(path)}.${name} does not exist`, {
    hint: near === undefined ? `there ${listed(known)}` : `did you mean \`${shorten(path)}.${near}\`?`,
    ...(near === undefined ? {} : { details: { suggestion: near } }),
  });
}

function listed(names: readonly string[]): string {
  if (names.length === 0) return 'is nothing in it';
  return `${names.length === 1 ? 'is' : 'are'} ${names.slice(0, 12).join(', ')}${names.length > 12 ? ', …' : ''}`;
}

/** The error for a name that does not exist, with the nearest that does. */
export function unknownName(path: readonly (Segment | string)[], index: number, known: Iterable<string>) {
  const wrong = path[index] as Segment | string;
  const name = typeof wrong === 'string' ? wrong : wrong.name;
  const names = [...known].slice(0, 1000);
  const near = didYouMean(name, names);
  const group = pathText(path.slice(0, index));
  const hint =
    near !== undefined
      ? `did you mean \`${pathText([...path.slice(0, index), near])}\`?`
      : names.length === 0
        ? `there is nothing under ${group}`
        : `there ${listed(names)}`;
  return expressionError('EXPRESSION_UNKNOWN_NAME', `${pathText(path.slice(0, index + 1))} does not exist`, {
    hint,
    details: { name: pathText(path), ...(near === undefined ? {} : { suggestion: near }) },
  });
}

function incomplete(path: readonly Segment[], known: Iterable<string>) {
  const names = [...known].slice(0, 12);
  return expressionError('EXPRESSION_UNKNOWN_NAME', `${pathText(path)} is a group of names and not a value`, {
    hint: names.length === 0 ? 'name one of its members' : `name one of its members: ${names.join(', ')}`,
  });
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}
