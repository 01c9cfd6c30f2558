import { type LintContext, nodeAt, stepPath } from './context.ts';

/** Rules that are Porter's own, and what becomes of mixin steps. */
export function checkPorterRules(context: LintContext): void {
  checkDependencies(context);
  noteMixins(context);
}

/** porter-102: a dependency's name is the name of its installation, so two of one name are one. */
function checkDependencies(context: LintContext): void {
  const seen = new Set<string>();
  for (const dependency of context.bundle.dependencies) {
    if (seen.has(dependency.name))
      context.report(dependency.span, {
        code: 'porter-102',
        message: `the dependency \`${dependency.name}\` is declared more than once`,
        hint: 'give each dependency a name of its own',
      });
    seen.add(dependency.name);
  }
}

/** One note for each mixin, at its first step. */
function noteMixins(context: LintContext): void {
  const counts = new Map<string, number>();
  for (const { step } of context.steps)
    if (step.body.kind === 'mixin') counts.set(step.body.mixin, (counts.get(step.body.mixin) ?? 0) + 1);
  const noted = new Set<string>();
  for (const placed of context.steps) {
    const { body } = placed.step;
    if (body.kind !== 'mixin' || noted.has(body.mixin)) continue;
    noted.add(body.mixin);
    const count = counts.get(body.mixin) ?? 1;
    const step = nodeAt(context, stepPath(placed));
    const key =
      step?.kind === 'map' ? step.entries.find((entry) => entry.key === body.mixin)?.keySpan : undefined;
    context.report(key ?? placed.step.span, {
      severity: 'note',
      code: 'mixin-step',
      message: `${count === 1 ? 'one step uses' : `${count} steps use`} the mixin \`${body.mixin}\`; Skycap reads mixin steps and does not run them yet`,
      hint: 'replace it by `invoke:` with an invocation image',
    });
  }
}
