import { invokeMember, type LintContext, spanAt } from './context.ts';
import { stepOutputNames } from './names.ts';
import { byAction, orderOf } from './order.ts';

/** Variables that Skycap sets itself (docs/bundle.md, "What a step finds"). */
const OURS = /^(?:CNAB_|PORTER_(?:INSTALLATION_|VERBOSITY$|DEBUG$))/;

/** Names that meet in one container, and outputs that are read before or without being made. */
export function checkEnvironment(context: LintContext): void {
  if (!context.strict) return;
  checkReserved(context);
  checkDestinations(context);
  checkUnmade(context);
}

function checkReserved(context: LintContext): void {
  for (const placed of context.steps) {
    if (placed.step.body.kind !== 'invoke') continue;
    const env = invokeMember(context, placed, 'env');
    for (const [name, text] of placed.step.body.env)
      if (OURS.test(name))
        context.report(
          (env?.kind === 'map' ? env.entries.find((one) => one.key === name)?.keySpan : undefined) ??
            text.span,
          {
            code: 'reserved-env',
            message: `the step ${placed.label} sets ${name}, which Skycap sets itself`,
            hint: 'use another name',
          },
        );
  }
}

/** Two values under one variable or in one file: one of them would be lost. */
function checkDestinations(context: LintContext): void {
  const { parameters, credentials } = context.bundle;
  const all = [
    ...parameters.map((one) => ({ ...one, what: 'parameter' })),
    ...credentials.map((one) => ({ ...one, what: 'credential' })),
  ];
  for (const key of ['env', 'path'] as const) {
    const taken = new Map<string, (typeof all)[number]>();
    for (const one of all) {
      const place = one[key];
      if (place === undefined) continue;
      const earlier = taken.get(place);
      const together =
        earlier !== undefined &&
        (earlier.applyTo.length === 0 ||
          one.applyTo.length === 0 ||
          earlier.applyTo.some((action) => one.applyTo.includes(action)));
      if (together)
        context.report(one.span, {
          code: 'same-destination',
          message: `the ${one.what} \`${one.name}\` and the ${earlier.what} \`${earlier.name}\` both go to ${key === 'env' ? `the variable ${place}` : place}`,
          hint: `give one of them another \`${key}:\``,
        });
      taken.set(place, one);
    }
  }
}

/** An output of the bundle that nothing makes. */
function checkUnmade(context: LintContext): void {
  if (context.steps.some(({ step }) => step.body.kind === 'mixin')) return;
  const made = new Set(context.steps.flatMap(({ step }) => stepOutputNames(step.body)));
  for (const [i, output] of context.bundle.outputs.entries())
    if (
      !made.has(output.name) &&
      output.path === undefined &&
      output.default === undefined &&
      !writesOutputs(context, output.name)
    )
      context.report(spanAt(context, ['outputs', i, 'name']), {
        severity: 'warning',
        code: 'output-unmade',
        message: `nothing makes the output \`${output.name}\``,
        hint: 'add it to the `outputs:` of a step, write it to /cnab/app/outputs, or give it a `path` or `default`',
      });
}

/** A script that names the outputs folder may write any of them; an image without a command may too. */
function writesOutputs(context: LintContext, name: string): boolean {
  return context.steps.some(({ step }) => {
    if (step.body.kind !== 'invoke') return true;
    const { command } = step.body;
    if (command.kind === 'run')
      return (
        command.script.text.includes('outputs/') ||
        command.script.text.includes('./') ||
        command.script.text.includes(name)
      );
    return true;
  });
}

/** An input or expression that reads what only a later step of the same action makes. */
export function checkLateOutputs(context: LintContext): void {
  const declared = new Set(context.bundle.outputs.map((output) => output.name));
  for (const steps of byAction(context).values()) {
    const graph = orderOf(context, steps);
    if (graph === undefined) continue;
    for (const [late, placed] of steps.entries())
      for (const name of placed.step.inputs) {
        const makers = steps.flatMap(({ step }, i) => (stepOutputNames(step.body).includes(name) ? [i] : []));
        if (declared.has(name) || makers.length === 0 || makers.some((maker) => graph.before(maker, late)))
          continue;
        context.report(spanAt(context, [placed.action, placed.step.index, 'inputs']), {
          code: 'output-later',
          message: `the step ${placed.label} reads the output \`${name}\`, which ${steps[makers[0] ?? 0]?.label} makes, and does not wait for it`,
          hint: 'name that step under `needs:`, or put it first',
        });
      }
  }
}
