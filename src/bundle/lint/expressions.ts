import {
  checkTemplate,
  type ExpressionFinding,
  parseCondition,
  parseTemplate,
  references,
  type Scope,
  type Template,
} from '../../document/expression/index.ts';
import {
  didYouMean,
  editScalar,
  type Json,
  type ScalarNode,
  type SourceText,
  scalarsOf,
  sourceSpan,
} from '../../document/index.ts';
import type { Text } from '../model.ts';
import { type LintContext, nodeAt, type PlacedStep, stepPath } from './context.ts';
import { outputNames } from './names.ts';
import { hasMixinSteps, scopeOf, sharedScope } from './scope.ts';

/** Paths that each step's expressions read, by step: who sees what follows from it. */
export type UsedPaths = ReadonlyMap<PlacedStep, readonly (readonly string[])[]>;

/** Checks every expression of every step; returns what each reads. */
export function checkExpressions(context: LintContext): UsedPaths {
  const shared = sharedScope(context);
  const outputs = new Set(outputNames(context));
  const outputsOpen = hasMixinSteps(context);
  const used = new Map<PlacedStep, (readonly string[])[]>();
  for (const placed of context.steps) {
    const paths: (readonly string[])[] = [];
    used.set(placed, paths);
    const texts = [...textsOfStep(context, placed)];
    if (!texts.some(({ text }) => mayHoldExpression(text.text)) && isPlain(placed.step.when)) continue;
    const scope = scopeOf(placed, shared);
    for (const { text, condition } of texts) {
      if (!condition && !mayHoldExpression(text.text)) continue;
      const options = { delimiters: context.bundle.delimiters };
      const template = condition ? parseCondition(text.text, options) : parseTemplate(text.text, options);
      paths.push(...references(template).map((reference) => reference.path));
      checkOne(context, { placed, text, template, scope, outputs, outputsOpen });
    }
  }
  return used;
}

interface Checked {
  readonly placed: PlacedStep;
  readonly text: SourceText;
  readonly template: Template;
  readonly scope: Scope;
  readonly outputs: ReadonlySet<string>;
  readonly outputsOpen: boolean;
}

function checkOne(context: LintContext, checked: Checked): void {
  for (const finding of checkTemplate(checked.template, checked.scope))
    reportFinding(context, checked, finding);
  for (const reference of references(checked.template)) {
    const [root, group, name] = reference.path;
    if (root !== 'bundle' || name === undefined) continue;
    if (group === 'custom') checkCustomPath(context, checked, reference);
    if (group === 'outputs' && checked.outputsOpen && !checked.outputs.has(name))
      context.report(sourceSpan(context.document.source, checked.text, reference.span), {
        severity: 'warning',
        code: 'undeclared-output',
        message: `bundle.outputs.${name} is declared nowhere; only a mixin could make it`,
        hint: outputHint(name, checked.outputs),
      });
  }
}

function outputHint(name: string, outputs: ReadonlySet<string>): string {
  const meant = didYouMean(name, outputs);
  return meant === undefined
    ? 'declare it under `outputs:`, or in the step that makes it'
    : `did you mean \`${meant}\`?`;
}

function reportFinding(context: LintContext, checked: Checked, finding: ExpressionFinding): void {
  const { source } = context.document;
  const reference = references(checked.template).find(
    (one) => one.span.start <= finding.span.start && finding.span.end <= one.span.end,
  );
  const fix =
    finding.replacement === undefined
      ? undefined
      : editScalar(source, checked.text, [{ span: finding.span, text: finding.replacement }]);
  const isParameter = reference?.path[0] === 'bundle' && reference.path[1] === 'parameters';
  context.report(sourceSpan(source, checked.text, finding.span), {
    severity: finding.severity,
    // Porter's own rule where it is the same one: a parameter in an action that it does not apply to.
    code: finding.code === 'expression-scope' && isParameter ? 'porter-101' : finding.code,
    message: finding.message,
    hint: imageHint(reference?.path, finding) ?? finding.hint,
    fix,
  });
}

function imageHint(path: readonly string[] | undefined, finding: ExpressionFinding): string | undefined {
  const [root, group, key] = path ?? [];
  if (root !== 'bundle' || group !== 'images' || key === undefined || finding.code !== 'expression-name')
    return undefined;
  if (finding.replacement !== undefined || !finding.message.includes(key)) return undefined;
  return `declare it: \`images: {${key}: {repository: REGISTRY/NAME, tag: TAG}}\``;
}

/** Members of `custom` are written in the file, so a slip in one is known before any run. */
function checkCustomPath(
  context: LintContext,
  checked: Checked,
  reference: {
    readonly path: readonly string[];
    readonly span: { readonly start: number; readonly end: number };
  },
): void {
  let at: Json = context.bundle.custom;
  for (const [i, name] of reference.path.slice(2).entries()) {
    if (typeof at !== 'object' || at === null) {
      if (i === 0) return;
      reportCustom(context, checked, { reference, name, known: [] });
      return;
    }
    const members: Readonly<Record<string, Json>> = Array.isArray(at)
      ? Object.fromEntries(at.entries())
      : (at as Readonly<Record<string, Json>>);
    const next: Json | undefined = Object.hasOwn(members, name) ? members[name] : undefined;
    // The first level is the scope's business.
    if (next === undefined && i > 0)
      reportCustom(context, checked, { reference, name, known: Object.keys(members) });
    if (next === undefined) return;
    at = next;
  }
}

function reportCustom(
  context: LintContext,
  checked: Checked,
  options: {
    readonly reference: {
      readonly path: readonly string[];
      readonly span: { readonly start: number; readonly end: number };
    };
    readonly name: string;
    readonly known: readonly string[];
  },
): void {
  const meant = didYouMean(options.name, options.known);
  context.report(sourceSpan(context.document.source, checked.text, options.reference.span), {
    code: 'expression-name',
    message: `${options.reference.path.join('.')} is not declared under \`custom\``,
    hint: meant === undefined ? 'declare it, or use `default(…, …)`' : `did you mean \`${meant}\`?`,
  });
}

function mayHoldExpression(text: string): boolean {
  return text.includes('${') || text.includes('{{');
}

/** No condition, or true or false as they are. */
function isPlain(when: PlacedStep['step']['when']): boolean {
  return when === undefined || when.value !== undefined;
}

/** Every text of a step in which expressions are looked for. */
function* textsOfStep(
  context: LintContext,
  placed: PlacedStep,
): Generator<{ readonly text: SourceText; readonly condition: boolean }> {
  const { step } = placed;
  const plain = (text: Text) => ({ text, condition: false });
  if (step.when !== undefined && !isPlain(step.when)) yield { text: step.when, condition: true };
  if (step.body.kind === 'invoke') {
    yield plain(step.description);
    const { command, dir, env } = step.body;
    if (command.kind === 'command') yield* command.argv.map(plain);
    if (command.kind === 'args') yield* command.args.map(plain);
    if (command.kind === 'run') yield plain(command.script);
    if (command.kind === 'with') yield* scalars(context, nodeWith(context, placed)).map(plain);
    if (dir !== undefined) yield plain(dir);
    yield* [...env.values()].map(plain);
  } else {
    yield* scalars(context, nodeAt(context, [...stepPath(placed), step.body.mixin])).map(plain);
  }
  if (step.matrix !== undefined)
    yield* scalars(context, nodeAt(context, [...stepPath(placed), 'matrix'])).map(plain);
}

function nodeWith(context: LintContext, placed: PlacedStep) {
  const invoke = nodeAt(context, [...stepPath(placed), 'invoke']);
  if (invoke?.kind !== 'seq') return nodeAt(context, [...stepPath(placed), 'invoke', 'action', 'with']);
  const index = invoke.items.findIndex(
    (item) => item.kind === 'map' && item.entries.some((entry) => entry.key === 'action'),
  );
  return nodeAt(context, [...stepPath(placed), 'invoke', index, 'action', 'with']);
}

function scalars(_context: LintContext, node: ReturnType<typeof nodeAt>): readonly ScalarNode[] {
  return node === undefined
    ? []
    : [...scalarsOf(node)]
        .map(({ node: scalar }) => scalar)
        .filter((scalar) => typeof scalar.value === 'string');
}
