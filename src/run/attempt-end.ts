import type { ContainerExit, ContainerFile, Session } from '../engine/index.ts';
import { isSkycapError, type SkycapError } from '../kernel/index.ts';
import type { KnownValue, Plan, PlanStep } from '../plan/index.ts';
import type { AttemptRecord, StepState } from '../state/index.ts';
import { type CollectedOutputs, collectOutputs, mergeCarried } from './collect.ts';
import type { StepOutput } from './step-output.ts';
import { failureOf, isIgnored } from './verdict.ts';

/** What comes of an ended container. */
export interface LeftBehind {
  readonly outputs: ReadonlyMap<string, KnownValue>;
  /** The first output that could not be had. */
  readonly error?: SkycapError;
  /** `ignoreError` forgives how it ended. */
  readonly isIgnored: boolean;
}

/** Collects what an ended container left, and shows what it printed once the secrets among that are masked. */
export async function takeWhatIsLeft(
  { plan, session }: { readonly plan: Plan; readonly session: Session },
  step: PlanStep,
  ended: {
    readonly exit: ContainerExit;
    readonly containerId: string;
    readonly printed: StepOutput;
    /** Files outside the workspace as the container found them. */
    readonly found: readonly ContainerFile[];
    /** Those files as the containers to come find them: what this one changed is put there. */
    readonly values: { carried: readonly ContainerFile[] };
  },
): Promise<LeftBehind> {
  const { exit, containerId, printed, values } = ended;
  if (exit.cause === 'unknown') {
    printed.end();
    return { outputs: new Map(), isIgnored: false };
  }
  const collected = await collectWhatCan(plan, step, {
    session,
    containerId,
    printed,
    carried: ended.found,
  });
  values.carried = mergeCarried(values.carried, collected.changed);
  printed.end(collected.outputs);
  const { outputs, error } = collected;
  return { outputs, isIgnored: isForgiven(step, exit, printed), ...(error === undefined ? {} : { error }) };
}

/** What cannot be collected (too large, not there) is the step's failure, and no fault that ends the run. */
async function collectWhatCan(...given: Parameters<typeof collectOutputs>): Promise<CollectedOutputs> {
  try {
    return await collectOutputs(...given);
  } catch (cause) {
    if (!isSkycapError(cause)) throw cause;
    return { outputs: new Map(), changed: [], error: cause };
  }
}

/** A failure that cannot be told to be one that is ignored is none. */
function isForgiven(step: PlanStep, exit: ContainerExit, printed: StepOutput): boolean {
  if (failureOf(step, exit) === undefined) return false;
  try {
    return isIgnored(step, exit, () => Buffer.from(printed.raw('stderr')).toString('utf8'));
  } catch (cause) {
    if (!isSkycapError(cause)) throw cause;
    return false;
  }
}

export function attemptRecord(number: number, containerId: string, exit: ContainerExit): AttemptRecord {
  const { exitCode, cause, startedAt, finishedAt } = exit;
  return { number, containerId, state: stateOf(exit), exitCode, cause, startedAt, finishedAt };
}

/** A program that was stopped may well end with 0. */
function stateOf({ cause, exitCode }: ContainerExit): StepState {
  if (cause === 'cancelled') return 'aborted';
  if (cause === 'unknown') return 'unknown';
  return cause === 'exited' && exitCode === 0 ? 'succeeded' : 'failed';
}
