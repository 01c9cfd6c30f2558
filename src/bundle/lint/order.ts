import { didYouMean } from '../../document/index.ts';
import {
  invokeMember,
  itemSpan,
  type LintContext,
  nodeAt,
  type PlacedStep,
  spanAt,
  stepPath,
} from './context.ts';
import { stepOutputNames } from './names.ts';
import { type OrderGraph, orderGraph } from './order-graph.ts';

/** Most steps of one action; beyond it the checks below would be the slowest part of an attack. */
const MOST_STEPS = 5000;

/** Ids, `needs`, cycles, and what follows from steps that may run together. */
export function checkOrder(context: LintContext): void {
  for (const [action, steps] of byAction(context)) {
    if (steps.length > MOST_STEPS) {
      context.report(spanAt(context, [action]), {
        code: 'too-many-steps',
        message: `${action} has more than ${MOST_STEPS} steps`,
      });
      continue;
    }
    checkIds(context, steps);
    const needs = needsOf(context, steps);
    if (needs === undefined) continue;
    const order = orderGraph(needs);
    if (order.kind === 'cycle') reportCycle(context, steps, order.steps);
    else checkTogether(context, steps, order.graph);
    checkAlways(context, steps);
  }
}

/** Who waits for whom in one action; undefined where `needs` is wrong, which `checkOrder` reports. */
export function orderOf(context: LintContext, steps: readonly PlacedStep[]): OrderGraph | undefined {
  const needs =
    steps.length > MOST_STEPS ? undefined : needsOf({ ...context, report: () => undefined }, steps);
  const order = needs === undefined ? undefined : orderGraph(needs);
  return order?.kind === 'order' ? order.graph : undefined;
}

export function byAction(context: LintContext): ReadonlyMap<string, readonly PlacedStep[]> {
  const lists = new Map<string, PlacedStep[]>();
  for (const placed of context.steps) {
    const list = lists.get(placed.action);
    if (list === undefined) lists.set(placed.action, [placed]);
    else list.push(placed);
  }
  return lists;
}

function checkIds(context: LintContext, steps: readonly PlacedStep[]): void {
  const seen = new Map<string, PlacedStep>();
  for (const placed of steps) {
    const { id } = placed.step;
    if (id === undefined) continue;
    const earlier = seen.get(id);
    if (earlier !== undefined)
      context.report(spanAt(context, [...stepPath(placed), 'id']), {
        code: 'duplicate-id',
        message: `two steps of ${placed.action} have the id \`${id}\``,
        hint: `the first is ${earlier.action}[${earlier.step.index}]; rename one`,
      });
    seen.set(id, placed);
  }
}

function needsOf(
  context: LintContext,
  steps: readonly PlacedStep[],
): readonly (readonly number[] | undefined)[] | undefined {
  const ids = new Map(steps.flatMap(({ step }, i) => (step.id === undefined ? [] : [[step.id, i] as const])));
  let complete = true;
  const lists = steps.map((placed, i) =>
    placed.step.needs?.flatMap((need) => {
      const target = ids.get(need);
      if (target !== undefined && target !== i) return [target];
      complete = false;
      reportNeed(
        context,
        placed,
        need,
        [...ids.keys()].filter((id) => id !== placed.step.id),
      );
      return [];
    }),
  );
  return complete ? lists : undefined;
}

function reportNeed(context: LintContext, placed: PlacedStep, need: string, ids: readonly string[]): void {
  const node = nodeAt(context, [...stepPath(placed), 'needs']);
  const span = itemSpan(node, need) ?? node?.span ?? placed.step.span;
  if (need === placed.step.id) {
    context.report(span, {
      code: 'needs-cycle',
      message: `the step ${placed.label} needs itself`,
      hint: 'remove it from `needs`',
    });
    return;
  }
  const meant = didYouMean(need, ids);
  context.report(span, {
    code: 'unknown-step',
    message: `the step ${placed.label} needs \`${need}\`, and no step of ${placed.action} has that id`,
    hint:
      meant === undefined
        ? `give the step \`id: ${need}\`${ids.length === 0 ? '' : `; ids are: ${ids.slice(0, 20).join(', ')}`}`
        : `did you mean \`${meant}\`?`,
    ...(meant === undefined ? {} : { fix: [{ span, text: meant }] }),
  });
}

function reportCycle(context: LintContext, steps: readonly PlacedStep[], cycle: readonly number[]): void {
  const placed = steps[cycle.find((i) => steps[i]?.step.needs !== undefined) ?? 0];
  if (placed === undefined) return;
  const labels = [...cycle, cycle[0] as number].map((i) => steps[i]?.label ?? '?');
  context.report(spanAt(context, [...stepPath(placed), 'needs']), {
    code: 'needs-cycle',
    message: `steps wait for each other: ${labels.slice(0, 12).join(' → ')}`,
    hint: 'a step without `needs` waits for all steps before it; give it `needs` of its own to break the circle',
  });
}

function checkTogether(context: LintContext, steps: readonly PlacedStep[], graph: OrderGraph): void {
  const makers = new Map<string, number[]>();
  for (const [i, placed] of steps.entries())
    for (const name of stepOutputNames(placed.step.body)) {
      const others = makers.get(name) ?? [];
      const clash = others.find((j) => !graph.before(i, j) && !graph.before(j, i));
      if (clash !== undefined)
        context.report(outputSpan(context, placed, name), {
          code: 'output-race',
          message: `the steps ${steps[clash]?.label} and ${placed.label} may run together and both make the output \`${name}\``,
          hint: 'rename one of the outputs, or let one step need the other',
        });
      makers.set(name, [...others, i]);
    }
}

function outputSpan(context: LintContext, placed: PlacedStep, name: string) {
  const outputs = invokeMember(context, placed, 'outputs');
  const index =
    outputs?.kind === 'seq' && placed.step.body.kind === 'invoke'
      ? placed.step.body.outputs.findIndex((output) => output.name === name)
      : -1;
  const item = outputs?.kind === 'seq' ? outputs.items[index] : undefined;
  return item?.span ?? placed.step.span;
}

function checkAlways(context: LintContext, steps: readonly PlacedStep[]): void {
  for (const placed of steps) {
    const { step } = placed;
    if (step.always && step.needs?.length === 0 && steps.length > 1)
      context.report(spanAt(context, [...stepPath(placed), 'needs']), {
        severity: 'warning',
        code: 'always-at-once',
        message: `the step ${placed.label} is \`always\` and needs nothing, so it runs at once and cleans up nothing`,
        hint: 'leave `needs` out to run it last, or name the steps it cleans up after',
      });
  }
}
