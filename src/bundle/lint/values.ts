import type { Json, Span } from '../../document/index.ts';
import { checkSchema, type PatternTest, type Schema, validate } from '../../document/schema/index.ts';
import { invokeMember, type LintContext, nodeAt, type PlacedStep, spanAt } from './context.ts';

type Patterns = typeof import('../../document/pattern/index.ts');

let engine: Patterns | undefined;

/**
 * Loads the engine for patterns (RE2) and queries; `checkValue` needs it where a schema has a `pattern`. `lintBundle`
 * does this for the bundles that need it.
 */
export async function loadPatterns(): Promise<Patterns> {
  engine ??= await import('../../document/pattern/index.ts');
  return engine;
}

/**
 * One character class or a row of plain characters with at most one repetition: every engine reads it alike and in
 * linear time, so the big one need not be loaded for `^[a-z]+$`.
 */
function plainPattern(pattern: string): RegExp | undefined {
  if (
    pattern.length > 100 ||
    !/^\^?(?:[A-Za-z0-9 _-]|\[[A-Za-z0-9_.-]+\])*(?:\[[A-Za-z0-9_.-]+\][+*])?\$?$/.test(pattern)
  )
    return undefined;
  try {
    return new RegExp(pattern, 'u');
  } catch {
    return undefined;
  }
}

const test: PatternTest = (pattern, text) => {
  const plain = plainPattern(pattern);
  if (plain !== undefined) return plain.test(text);
  if (engine === undefined)
    throw new Error('a schema has a pattern: call loadPatterns() or lintBundle() first');
  try {
    return engine.compilePattern(pattern).test(text);
  } catch {
    // A pattern that is none is reported as such; nothing matches it.
    return false;
  }
};

/**
 * Why a value does not fit a parameter's or output's schema, as "must …" with the place in the value before it, or
 * undefined when it fits. The value itself is never part of the text.
 */
export function checkValue(schema: { readonly [key: string]: Json }, value: Json): string | undefined {
  const error = validate(schema, value, { test })[0];
  if (error === undefined) return undefined;
  return error.path.length === 0 ? error.message : `(at ${error.path.join('.')}) ${error.message}`;
}

/** Schemas, defaults, patterns and queries. */
export async function checkValues(context: LintContext): Promise<void> {
  await checkDeclared(context, 'parameters');
  await checkDeclared(context, 'outputs');
  for (const placed of context.steps) await checkStepPatterns(context, placed);
}

async function checkDeclared(context: LintContext, key: 'parameters' | 'outputs'): Promise<void> {
  for (const one of context.bundle[key]) {
    const what = `the ${key.slice(0, -1)} \`${one.name}\``;
    const index = indexOf(context, key, one.span);
    const at = (path: readonly string[]): Span =>
      index < 0 ? one.span : spanAt(context, [key, index, ...path]);
    const found = checkSchema(one.schema as Schema);
    for (const error of found.errors)
      context.report(at(error.path), {
        code: 'bad-schema',
        message: `${what}: \`${error.path.join('.')}\` ${error.message}`,
      });
    for (const { pattern, path } of found.patterns)
      await checkPattern(context, pattern, { span: at(path), what });
    if (one.default === undefined || one.isFile || found.errors.length > 0) continue;
    const wrong = checkValue(one.schema, one.default);
    if (wrong !== undefined)
      context.report(at(['default']), {
        code: 'bad-default',
        message: `the default of ${what} ${wrong}`,
        hint: numberAsText(one.schema, one.default) ? 'put it in quotes' : undefined,
      });
    if (one.sensitive && key === 'parameters' && typeof one.default === 'string' && one.default !== '')
      context.report(at(['default']), {
        severity: 'warning',
        code: 'secret-default',
        message: `${what} is sensitive and its default stands readable in the file`,
        hint: 'leave the default out, or empty',
      });
  }
}

function numberAsText(schema: { readonly [key: string]: Json }, value: Json): boolean {
  return schema.type === 'string' && (typeof value === 'number' || typeof value === 'boolean');
}

function indexOf(context: LintContext, key: string, span: Span): number {
  const list = nodeAt(context, [key]);
  return list?.kind === 'seq' ? list.items.findIndex((item) => item.span.start === span.start) : -1;
}

async function checkPattern(
  context: LintContext,
  pattern: string,
  options: { readonly span: Span; readonly what: string; readonly group?: boolean },
): Promise<void> {
  if (options.group !== true && plainPattern(pattern) !== undefined) return;
  const { compilePattern } = await loadPatterns();
  try {
    const { groupCount } = compilePattern(pattern);
    if (options.group === true && groupCount === 0)
      context.report(options.span, {
        code: 'regex-without-group',
        message: `${options.what}: the pattern has no capture group, so the output would always be empty`,
        hint: 'put the part that is wanted in parentheses',
      });
  } catch (error) {
    context.report(options.span, {
      code: 'bad-pattern',
      message: `${options.what}: the pattern is none that RE2 reads: ${error instanceof Error ? error.message : String(error)}`,
      hint: 'look-around and back references are not part of RE2',
    });
  }
}

async function checkStepPatterns(context: LintContext, placed: PlacedStep): Promise<void> {
  const { body } = placed.step;
  if (body.kind !== 'invoke') return;
  const outputs = invokeMember(context, placed, 'outputs');
  for (const output of body.outputs) {
    const node =
      outputs?.kind === 'seq'
        ? outputs.items.find((item) => item.span.start === output.span.start)
        : undefined;
    const entry = (key: string): Span =>
      node?.kind === 'map'
        ? (node.entries.find((one) => one.key === key)?.value.span ?? output.span)
        : output.span;
    const what = `the output \`${output.name}\` of ${placed.label}`;
    if (output.source.kind === 'regex')
      await checkPattern(context, output.source.pattern, { span: entry('regex'), what });
    if (output.source.kind === 'jsonPath')
      await checkQuery(context, output.source.query, { span: entry('jsonPath'), what });
  }
  const regex = body.ignoreError?.regex ?? [];
  const span = invokeMember(context, placed, 'ignoreError')?.span ?? placed.step.span;
  for (const pattern of regex)
    await checkPattern(context, pattern, { span, what: `ignoreError of ${placed.label}` });
}

async function checkQuery(
  context: LintContext,
  query: string,
  options: { readonly span: Span; readonly what: string },
): Promise<void> {
  // Names and indexes alone need no parser.
  if (!query.startsWith('$') || /^\$(?:\.[A-Za-z_][A-Za-z0-9_]*|\[\d{1,9}\])*$/.test(query)) return;
  const { checkQuery: check } = await loadPatterns();
  try {
    check(query);
  } catch (error) {
    context.report(options.span, {
      code: 'bad-query',
      message: `${options.what}: \`${query.slice(0, 80)}\` is no JSONPath: ${error instanceof Error ? error.message.split('\n')[0] : String(error)}`,
      hint: 'see RFC 9535; a name with a dash is written `$["my-name"]`',
    });
  }
}
