import { loadShell, mayEvaluate, parseTemplate, references } from '../../document/expression/index.ts';
import { editScalar, sourceSpan, type TextEdit } from '../../document/index.ts';
import type { Text } from '../model.ts';
import { mendArgument } from './argument-fix.ts';
import { invokeMember, type LintContext, nodeAt, type PlacedStep, stepPath } from './context.ts';
import { addEnv } from './env-edit.ts';

type Shell = Awaited<ReturnType<typeof loadShell>>;

/** Expressions in scripts and command lines: where a value would become code (docs/bundle.md, "Expressions", rule 3). */
export async function checkPlaces(context: LintContext): Promise<void> {
  const holds = (text: Text) => text.text.includes(context.bundle.delimiters === 'dollar' ? '${' : '{{');
  const steps = context.steps.filter((placed) => {
    const { step } = placed;
    if (step.body.kind !== 'invoke') return false;
    const { command } = step.body;
    if (command.kind === 'run') return holds(command.script);
    if (command.kind === 'command') return command.argv.some(holds) && mayEvaluate(wordsOf(command.argv));
    if (command.kind !== 'args' || !command.args.some(holds)) return false;
    return mayEvaluate([...entrypointOf(context, placed), ...wordsOf(command.args)]);
  });
  if (steps.length === 0) return;
  const shell = await loadShell();
  for (const placed of steps) {
    if (placed.step.body.kind !== 'invoke') continue;
    const { command } = placed.step.body;
    if (command.kind === 'run')
      checkScript(context, placed, { script: command.script, declared: command.shell, shell });
    if (command.kind === 'command')
      checkWords(context, placed, { words: command.argv, entrypoint: [], shell });
    if (command.kind === 'args')
      checkWords(context, placed, { words: command.args, entrypoint: entrypointOf(context, placed), shell });
  }
}

function wordsOf(words: readonly Text[]): readonly string[] {
  return words.map((word) => word.text);
}

function envOf(placed: PlacedStep): Readonly<Record<string, string>> {
  if (placed.step.body.kind !== 'invoke') return {};
  return Object.fromEntries([...placed.step.body.env].map(([name, text]) => [name, text.text]));
}

function checkScript(
  context: LintContext,
  placed: PlacedStep,
  options: { readonly script: Text; readonly declared: string | undefined; readonly shell: Shell },
): void {
  const { script } = options;
  const { source } = context.document;
  const bound = options.shell.bindScript(script.text, {
    delimiters: context.bundle.delimiters,
    env: envOf(placed),
    ...(options.declared === undefined ? {} : { shell: options.declared }),
  });
  const fix =
    bound.fix === undefined
      ? undefined
      : stepFix(context, placed, { text: script, edits: bound.fix.replaceInScript, env: bound.fix.addEnv });
  for (const finding of bound.findings)
    context.report(sourceSpan(source, script, finding.span), {
      severity: finding.severity,
      code: finding.code,
      message: finding.message,
      hint: finding.hint,
      // One fix mends all of a script's findings at once; each of them carries it.
      fix: finding.fixable ? fix : undefined,
    });
  noteLongArguments(context, script, bound.bindings);
}

/**
 * In a script's own variables any length goes; what a program outside of the shell is handed as an argument ends at the
 * kernel's 128 KiB. Outputs that are files may well be longer.
 */
function noteLongArguments(
  context: LintContext,
  script: Text,
  bindings: ReturnType<Shell['bindScript']>['bindings'],
): void {
  const files = context.bundle.outputs.filter((output) => output.isFile).map((output) => output.name);
  if (files.length === 0) return;
  const places = references(parseTemplate(script.text, { delimiters: context.bundle.delimiters }));
  for (const { template, argumentOf } of bindings) {
    const [program] = argumentOf;
    const read = references(template).find(
      ({ path: [root, group, name] }) =>
        root === 'bundle' && group === 'outputs' && name !== undefined && files.includes(name),
    );
    const place = places.find((one) => one.text === read?.text);
    if (program === undefined || read === undefined || place === undefined) continue;
    const name = read.path[2] ?? '';
    context.report(sourceSpan(context.document.source, script, place.span), {
      severity: 'note',
      code: 'long-argument',
      message: `\`${program}\` gets the file \`${name}\` as an argument, which ends at 128 KiB`,
      hint: `name it under \`inputs:\` of the step and hand over /cnab/app/inputs/${name}`,
    });
  }
}

function stepFix(
  context: LintContext,
  placed: PlacedStep,
  options: {
    readonly text: Text;
    readonly edits: readonly TextEdit[];
    readonly env: Readonly<Record<string, string>>;
  },
): readonly TextEdit[] | undefined {
  const { source } = context.document;
  const invoke = nodeAt(context, [...stepPath(placed), 'invoke']);
  const script = editScalar(source, options.text, options.edits);
  const env = addEnv(source, invoke, options.env);
  return script === undefined || env === undefined ? undefined : [...script, ...env];
}

/** From the lock; where it does not know the image, the words are checked as they are. */
function entrypointOf({ options }: LintContext, { image }: PlacedStep): readonly string[] {
  return (image === undefined ? undefined : options.images?.(image)?.entrypoint) ?? [];
}

function checkWords(
  context: LintContext,
  placed: PlacedStep,
  options: { readonly words: readonly Text[]; readonly entrypoint: readonly string[]; readonly shell: Shell },
): void {
  const { words, entrypoint, shell } = options;
  const { delimiters } = context.bundle;
  const argv = words.map((word) => word.text);
  if (invokeMember(context, placed, 'action') === undefined) return;
  for (const finding of shell.checkArgv(argv, { delimiters, entrypoint })) {
    const text = words[finding.element];
    if (text === undefined) continue;
    const mended = mendArgument(shell, {
      argv: [...entrypoint, ...argv],
      element: entrypoint.length + finding.element,
      delimiters,
      env: envOf(placed),
    });
    const fix =
      mended === undefined
        ? undefined
        : stepFix(context, placed, {
            text,
            edits: [{ span: { start: 0, end: text.text.length }, text: mended.text }],
            env: mended.env,
          });
    context.report(sourceSpan(context.document.source, text, finding.span), {
      severity: finding.severity,
      code: finding.code,
      message: finding.message,
      hint: finding.hint,
      fix,
    });
  }
}
