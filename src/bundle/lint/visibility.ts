import type { DocNode, TextEdit } from '../../document/index.ts';
import { type LintContext, nodeAt, type PlacedStep, spanAt, stepPath } from './context.ts';
import type { UsedPaths } from './expressions.ts';
import { byAction, orderOf } from './order.ts';
import { applies } from './scope.ts';

type Kind = 'credentials' | 'parameters';

/** Who sees which secret: docs/bundle.md, "Who sees what". */
export function checkVisibility(context: LintContext, used: UsedPaths): void {
  if (!context.strict) return;
  const seen = new Map(context.steps.map((placed) => [placed, visibleTo(context, placed, used)] as const));
  checkUnseen(context, seen);
  checkImplied(context, used);
  suggestPaths(context);
  checkReach(context, seen);
}

/** Names of the credentials that a step sees. */
export function visibleTo(context: LintContext, placed: PlacedStep, used: UsedPaths): ReadonlySet<string> {
  const { step, image, action } = placed;
  const own = context.bundle.credentials.filter((one) => applies(one, action)).map((one) => one.name);
  if (step.body.kind === 'mixin' || step.credentials === 'all') return new Set(own);
  const named = step.credentials ?? image?.credentials ?? [];
  return new Set(
    own.filter((name) => named.includes(name) || usedNames(used, placed, 'credentials').has(name)),
  );
}

function usedNames(used: UsedPaths, placed: PlacedStep, kind: Kind): ReadonlySet<string> {
  const paths = used.get(placed) ?? [];
  return new Set(
    paths.flatMap(([root, group, name]) =>
      root === 'bundle' && group === kind && name !== undefined ? [name] : [],
    ),
  );
}

function checkUnseen(context: LintContext, seen: ReadonlyMap<PlacedStep, ReadonlySet<string>>): void {
  for (const credential of context.bundle.credentials) {
    if ([...seen.values()].some((names) => names.has(credential.name))) continue;
    const handedOn = context.bundle.dependencies.some((dependency) =>
      [...Object.values(dependency.credentials), ...Object.values(dependency.parameters)].some((text) =>
        text.includes(`bundle.credentials.${credential.name}`),
      ),
    );
    if (handedOn) continue;
    context.report(credential.span, {
      code: 'credential-unseen',
      message: `no step sees the credential \`${credential.name}\``,
      hint: `name it under \`credentials:\` of the step or the invocation image that needs it, or remove it`,
    });
  }
}

/** A name that an expression proves is added to a list that lacks it: the list then says what is so anyway. */
function checkImplied(context: LintContext, used: UsedPaths): void {
  for (const placed of context.steps)
    for (const kind of ['credentials', 'parameters'] as const) {
      const list = placed.step[kind];
      if (list === undefined || list === 'all') continue;
      const secrets = context.bundle[kind].filter(
        (one) => kind === 'credentials' || ('sensitive' in one && one.sensitive),
      );
      const missing = secrets
        .map((one) => one.name)
        .filter((name) => usedNames(used, placed, kind).has(name) && !list.includes(name));
      if (missing.length === 0) continue;
      const path = [...stepPath(placed), kind];
      context.report(spanAt(context, path), {
        severity: 'note',
        code: `${kind.slice(0, -1)}-implied`,
        message: `the step ${placed.label} uses ${missing.map((name) => `\`${name}\``).join(', ')} in an expression and so sees ${missing.length === 1 ? 'it' : 'them'}, though \`${kind}\` does not say so`,
        hint: 'add the name to the list',
        fix: appendItems(context.document.source, nodeAt(context, path), missing),
      });
    }
}

function appendItems(
  source: string,
  node: DocNode | undefined,
  names: readonly string[],
): readonly TextEdit[] | undefined {
  if (node?.kind !== 'seq') return undefined;
  const last = node.items.at(-1);
  if (last === undefined) return node.flow ? [{ span: node.span, text: `[${names.join(', ')}]` }] : undefined;
  const at = last.span.end;
  if (node.flow) return [{ span: { start: at, end: at }, text: names.map((name) => `, ${name}`).join('') }];
  const lineStart = source.lastIndexOf('\n', last.span.start - 1) + 1;
  const lead = source.slice(lineStart, last.span.start);
  if (!/^ *- +$/.test(lead)) return undefined;
  return [{ span: { start: at, end: at }, text: names.map((name) => `\n${lead}${name}`).join('') }];
}

/** What is in a container's environment can be read by the engine's administrator while it lives (docs/security.md). */
function suggestPaths(context: LintContext): void {
  const { bundle } = context;
  const secrets = [
    ...bundle.credentials.map((one) => ({ ...one, what: 'credential' })),
    ...bundle.parameters
      .filter((one) => one.sensitive)
      .map((one) => ({ ...one, what: 'sensitive parameter' })),
  ];
  for (const { what, name, env, path, span } of secrets)
    if (env !== undefined && path === undefined)
      context.report(span, {
        severity: 'note',
        code: 'secret-as-env',
        message: `the ${what} \`${name}\` reaches steps as the environment variable ${env}, which the engine’s administrator can read while a step runs`,
        hint: 'hand it over as a file with `path:` where the tool allows it',
      });
}

/** More than this says nothing that the first ones did not. */
const MOST_REACHES = 100;

/** Through a shared workspace one step can prepare what another runs; scoping credentials does not change that. */
function checkReach(context: LintContext, seen: ReadonlyMap<PlacedStep, ReadonlySet<string>>): void {
  let count = 0;
  for (const steps of byAction(context).values()) {
    const holders = steps.flatMap((placed, i) => {
      const reads = placed.step.body.kind === 'invoke' && (placed.image?.workspace ?? 'rw') !== 'none';
      return reads && (seen.get(placed)?.size ?? 0) > 0 ? [i] : [];
    });
    if (holders.length === 0) continue;
    const graph = orderOf(context, steps);
    if (graph === undefined) continue;
    for (const late of holders) {
      const holder = steps[late] as PlacedStep;
      const told = new Set<string>();
      for (const [early, placed] of steps.entries()) {
        if (early === late || placed.image === undefined || placed.image.workspace !== 'rw') continue;
        if (placed.image === holder.image || told.has(placed.image.name) || graph.before(late, early))
          continue;
        const gained = [...(seen.get(holder) ?? [])].filter((name) => !seen.get(placed)?.has(name));
        if (gained.length === 0) continue;
        told.add(placed.image.name);
        if (++count > MOST_REACHES) return;
        context.report(spanAt(context, stepPath(holder)), {
          severity: 'note',
          code: 'workspace-reach',
          message: `the step ${placed.label} (image ${placed.image.name}) can alter what the step ${holder.label} (image ${holder.image?.name ?? '?'}) runs with the credential ${gained.join(', ')}`,
          hint: 'narrow it with `workspace: ro` or `none` on one of the images, or let one image do both',
        });
      }
    }
  }
}
