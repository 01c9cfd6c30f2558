import type { ContainerExit, ContainerFile, Session } from '../engine/index.ts';
import { createRedactor, type Emit, isSkycapError, type SkycapError } from '../kernel/index.ts';
import type { KnownValue, Plan, PlanStep } from '../plan/index.ts';
import type { Intent, Run, RunState, StateStore, StepRecord, StepState } from '../state/index.ts';
import { type CollectedOutputs, collectOutputs, mergeCarried } from './collect.ts';
import type { RunEvent } from './events.ts';
import { finalOutputs, type RunHooks } from './execute.ts';
import { maskValue } from './masking.ts';
import { mergeOutputs, recordOutputs } from './outputs.ts';
import { attemptRecord, forgiven } from './step.ts';
import { StepOutput } from './step-output.ts';
import { defaultRunOptions } from './types.ts';
import { failureOf } from './verdict.ts';

export interface InterruptedRun {
  readonly run: Run;
  readonly plan: Plan;
  readonly intents: readonly Intent[];
  /** What the engine found of it; undefined if nothing. */
  readonly session: Session | undefined;
  readonly state: StateStore;
  readonly outputs: ReadonlyMap<string, KnownValue>;
  /** Saved files outside the workspace. */
  readonly carried: readonly ContainerFile[];
  readonly readWorkspace: RunHooks['readWorkspace'];
  readonly emit: Emit<RunEvent>;
  readonly now: () => Date;
  readonly signal: AbortSignal;
  readonly kill: AbortSignal;
}

export interface FinishedRun {
  /** As its record has to become; the caller writes it once everything else is saved. */
  readonly run: Run;
  /** Files outside the workspace as its containers left them. */
  readonly carried: readonly ContainerFile[];
}

/** What the steps that are finished add to. */
interface Gathered {
  readonly outputs: Map<string, KnownValue>;
  carried: readonly ContainerFile[];
}

/**
 * Brings the records of a run whose process died to the truth: awaits its containers, collects what they leave, and
 * says how the run ended. Steps that had not begun stay pending; a step of which nothing is left is unknown.
 */
export async function finishInterrupted(interrupted: InterruptedRun): Promise<FinishedRun> {
  const { run, plan, state } = interrupted;
  const steps = new Map(run.steps.map((step) => [step.id, step]));
  const gathered: Gathered = { outputs: new Map(interrupted.outputs), carried: interrupted.carried };
  for (const intent of interrupted.intents) {
    const step = plan.steps.find((candidate) => candidate.id === intent.stepId);
    const record = steps.get(intent.stepId);
    if (step !== undefined && record?.state === 'running') {
      const updated = await finishStep(interrupted, { step, record, intent, gathered });
      steps.set(step.id, updated);
      await state.putStep(run.id, updated, { ended: intent.containerId });
      // Only now: should this process die too, the next one finds the container again.
      if (updated.state !== 'pending' && updated.state !== 'unknown')
        await interrupted.session?.release(intent.containerId, { keep: false });
    } else await state.clearIntent(intent.containerId);
  }
  // Begun, and without an intent: the process died before the container could start, or between two attempts.
  for (const [id, record] of steps) {
    if (record.state !== 'running') continue;
    const last = record.attempts.at(-1);
    const ended: StepState = last === undefined || last.state === 'running' ? 'pending' : last.state;
    const updated = { ...record, state: ended };
    steps.set(id, updated);
    await state.putStep(run.id, updated);
  }
  const all = [...steps.values()];
  const ended = stateOf(all);
  let missing: SkycapError | undefined;
  if (interrupted.session !== undefined) {
    const found = await finalOutputs(
      {
        plan,
        state,
        installationId: run.installationId,
        runId: run.id,
        emit: interrupted.emit,
        now: interrupted.now,
      },
      { outputs: gathered.outputs },
      { hooks: interrupted, isWhole: ended === 'succeeded' && plan.only === undefined },
    );
    missing = found?.error;
  }
  const closed: Run = {
    ...run,
    steps: all,
    state: missing === undefined ? ended : 'failed',
    finished: interrupted.now().toISOString(),
    ...(missing === undefined
      ? ended === 'succeeded'
        ? {}
        : { message: 'the process that ran it was killed' }
      : { message: missing.message, errorCode: missing.code }),
  };
  return { run: closed, carried: gathered.carried };
}

async function finishStep(
  interrupted: InterruptedRun,
  found: {
    readonly step: PlanStep;
    readonly record: StepRecord;
    readonly intent: Intent;
    readonly gathered: Gathered;
  },
): Promise<StepRecord> {
  const { session } = interrupted;
  const { step, record, intent } = found;
  const started = performance.now();
  const printed = outputOf(interrupted, step);
  const exit = await session?.attach(intent.containerId, {
    onOutput: (stream, chunk) => printed.write(stream, chunk),
    signal: interrupted.signal,
    kill: interrupted.kill,
  });
  if (exit === undefined) {
    const state: StepState = session === undefined ? 'unknown' : 'pending';
    return {
      ...record,
      state,
      attempts: record.attempts.map((a) => (a.number === intent.attempt ? { ...a, state } : a)),
    };
  }
  let error = failureOf(step, exit);
  if (session !== undefined && exit.cause !== 'unknown') {
    const collected = await collect(interrupted, { ...found, session, printed });
    const verdict = forgiven(step, exit, printed);
    if (verdict.ignored) error = undefined;
    else error ??= verdict.error ?? collected.error;
  } else if (forgiven(step, exit, printed).ignored) error = undefined;
  printed.end();
  const state = endOf(exit, error);
  interrupted.emit({
    type: 'step.finished',
    step: step.id,
    state,
    exitCode: exit.exitCode,
    durationMs: Math.round(performance.now() - started),
    message: error?.message ?? 'it finished after the process that had started it was killed',
  });
  return {
    ...record,
    state,
    exitCode: exit.exitCode,
    finishedAt: exit.finishedAt,
    ...(error === undefined ? {} : { message: error.message }),
    attempts: [
      ...record.attempts.filter((a) => a.number !== intent.attempt),
      attemptRecord(intent.attempt, intent.containerId, exit),
    ],
  };
}

/** Its secrets died with the process and cannot be masked, so what it printed stays hidden where it saw any. */
function outputOf({ plan, outputs, emit }: InterruptedRun, step: PlanStep): StepOutput {
  const { sees } = step;
  const isHidden =
    sees.credentials.length > 0 ||
    plan.parameters.some((p) => p.sensitive && sees.parameters.includes(p.name));
  const redactor = createRedactor();
  for (const [name, value] of outputs) if (value.sensitive) maskValue(redactor, { name, ...value }, emit);
  return new StepOutput(isHidden ? { ...step, suppressOutput: true } : step, redactor, {
    emit,
    showLive: false,
    maxBytes: defaultRunOptions.maxOutputBytes,
  });
}

async function collect(
  { plan, run, state, emit, now }: InterruptedRun,
  found: {
    readonly step: PlanStep;
    readonly intent: Intent;
    readonly gathered: Gathered;
    readonly session: Session;
    readonly printed: StepOutput;
  },
): Promise<Pick<CollectedOutputs, 'error'>> {
  const { step, gathered, session, printed } = found;
  const { containerId } = found.intent;
  let collected: CollectedOutputs;
  try {
    collected = await collectOutputs(plan, step, {
      session,
      containerId,
      printed,
      carried: gathered.carried,
    });
  } catch (cause) {
    if (!isSkycapError(cause)) throw cause;
    return { error: cause };
  }
  gathered.carried = mergeCarried(gathered.carried, collected.changed);
  for (const [name, value] of collected.outputs) {
    if (value.sensitive) printed.mask(name, value);
  }
  await recordOutputs(
    { state, installationId: run.installationId, runId: run.id, emit, now, plan },
    step,
    mergeOutputs(gathered.outputs, { plan, step }, collected.outputs),
  );
  return collected.error === undefined ? {} : { error: collected.error };
}

function endOf(
  exit: ContainerExit,
  error: SkycapError | undefined,
): 'succeeded' | 'failed' | 'aborted' | 'unknown' {
  if (exit.cause === 'unknown') return 'unknown';
  if (exit.cause === 'cancelled') return 'aborted';
  return error === undefined ? 'succeeded' : 'failed';
}

function stateOf(steps: readonly StepRecord[]): Exclude<RunState, 'pending' | 'running'> {
  if (steps.some((step) => step.state === 'unknown')) return 'unknown';
  if (steps.some((step) => step.state === 'failed' || step.state === 'errored')) return 'failed';
  return steps.every((step) => step.state === 'succeeded' || step.state === 'skipped')
    ? 'succeeded'
    : 'aborted';
}
