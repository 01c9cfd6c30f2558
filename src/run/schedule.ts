import type { PlanStep } from '../plan/index.ts';
import type { StepState } from '../state/index.ts';

/** What the scheduler knows of the run so far. */
export interface Progress {
  readonly states: ReadonlyMap<string, StepState>;
  /** A step failed (and was not ignored), or the run was cancelled: only `always` steps start from here on. */
  readonly stopping: boolean;
}

/**
 * The steps that may start now (docs/bundle.md, "Order"). A step waits for its `needs`; once the run is stopping only
 * `always` steps start, when what they need has ended in any way or can no longer start.
 */
export function readySteps(steps: readonly PlanStep[], progress: Progress): readonly PlanStep[] {
  const isOver = overTest(steps, progress);
  const running = steps.filter((step) => progress.states.get(step.id) === 'running');
  return steps.filter((step) => {
    if (stateOf(progress, step.id) !== 'pending') return false;
    if (progress.stopping && !step.always) return false;
    const needsMet = step.needs.every((id) => {
      const state = stateOf(progress, id);
      if (state === 'succeeded' || state === 'skipped') return true;
      return step.always && isOver(id);
    });
    if (!needsMet) return false;
    return !reachesCellLimit(step, running) && !cellGroupFailed(step, steps, progress);
  });
}

/** Ended, or waiting in a stopping run for a start that will not come; what it waits for counts, too. */
function overTest(steps: readonly PlanStep[], progress: Progress): (id: string) => boolean {
  const byId = new Map(steps.map((step) => [step.id, step]));
  const known = new Map<string, boolean>();
  return function isOver(id: string): boolean {
    const cached = known.get(id);
    if (cached !== undefined) return cached;
    const state = stateOf(progress, id);
    const step = byId.get(id);
    const over =
      hasEnded(state) ||
      (progress.stopping &&
        state === 'pending' &&
        step !== undefined &&
        (!step.always || cellGroupFailed(step, steps, progress)) &&
        step.needs.every(isOver));
    known.set(id, over);
    return over;
  };
}

export function hasEnded(state: StepState): boolean {
  return state !== 'pending' && state !== 'running';
}

function stateOf(progress: Progress, id: string): StepState {
  return progress.states.get(id) ?? 'pending';
}

function reachesCellLimit(step: PlanStep, running: readonly PlanStep[]): boolean {
  const limit = step.matrix?.maxParallel;
  if (limit === undefined) return false;
  return running.filter((other) => other.name === step.name).length >= limit;
}

function cellGroupFailed(step: PlanStep, steps: readonly PlanStep[], progress: Progress): boolean {
  if (step.matrix?.failFast !== true) return false;
  return steps.some((other) => {
    if (other.name !== step.name) return false;
    const state = stateOf(progress, other.id);
    return state === 'failed' || state === 'errored';
  });
}
