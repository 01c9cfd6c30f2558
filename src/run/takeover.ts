import type { ContainerExit, ContainerFile, Session } from '../engine/index.ts';
import { createRedactor, type Emit, type SkycapError } from '../kernel/index.ts';
import type { KnownValue, Plan, PlanStep } from '../plan/index.ts';
import type { Intent, Run, RunState, StateStore, StepRecord, StepState } from '../state/index.ts';
import { attemptRecord, takeWhatIsLeft } from './attempt-end.ts';
import type { RunEvent } from './events.ts';
import { finalOutputs, type RunHooks } from './execute.ts';
import { maskValue } from './masking.ts';
import { emitOutputs, mergeOutputs, outputRecords } from './outputs.ts';
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
      const {
        record: updated,
        outputs,
        told,
      } = await finishStep(interrupted, { step, record, intent, gathered });
      const context = { ...interrupted, installationId: run.installationId, runId: run.id };
      steps.set(step.id, updated);
      await state.putStep(run.id, updated, {
        ended: intent.containerId,
        outputs: outputRecords(context, outputs),
      });
      emitOutputs(context, step, outputs);
      if (told !== undefined) interrupted.emit(told);
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

/** A step as its record has to become, with the outputs that belong into the same commit. */
interface FinishedStep {
  readonly record: StepRecord;
  readonly outputs: ReadonlyMap<string, KnownValue>;
  /** To be said once it is on record; undefined where its container was not found. */
  readonly told?: RunEvent;
}

async function finishStep(
  interrupted: InterruptedRun,
  found: {
    readonly step: PlanStep;
    readonly record: StepRecord;
    readonly intent: Intent;
    readonly gathered: Gathered;
  },
): Promise<FinishedStep> {
  const { session, plan } = interrupted;
  const { step, record, intent, gathered } = found;
  const { containerId } = intent;
  const started = performance.now();
  const printed = outputOf({ ...interrupted, outputs: gathered.outputs }, step);
  const exit = await session?.attach(containerId, {
    onOutput: (stream, chunk) => printed.write(stream, chunk),
    signal: interrupted.signal,
    kill: interrupted.kill,
  });
  if (session === undefined || exit === undefined) {
    const state: StepState = session === undefined ? 'unknown' : 'pending';
    const attempts = record.attempts.map((a) => (a.number === intent.attempt ? { ...a, state } : a));
    return { record: { ...record, state, attempts }, outputs: new Map() };
  }
  const left = await takeWhatIsLeft({ plan, session }, step, {
    exit,
    containerId,
    printed,
    found: gathered.carried,
    values: gathered,
  });
  const error = left.isIgnored ? undefined : (failureOf(step, exit) ?? left.error);
  const state = endOf(exit, error);
  const attempts = [
    ...record.attempts.filter((a) => a.number !== intent.attempt),
    attemptRecord(intent.attempt, containerId, exit),
  ];
  const { exitCode, finishedAt } = exit;
  const message = error === undefined ? {} : { message: error.message };
  return {
    record: { ...record, state, exitCode, finishedAt, ...message, attempts },
    outputs: mergeOutputs(gathered.outputs, { plan, step }, left.outputs),
    told: {
      type: 'step.finished',
      step: step.id,
      state,
      exitCode,
      durationMs: Math.round(performance.now() - started),
      message: error?.message ?? 'it finished after the process that had started it was killed',
    },
  };
}

/**
 * Secrets of the run died with its process and cannot be masked, and a file can bring one to a step that was never
 * given it: where the run had any, what its steps printed stays hidden. Outputs that are on record are masked.
 */
function outputOf({ plan, run, outputs, emit }: InterruptedRun, step: PlanStep): StepOutput {
  const values = [
    ...plan.parameters.filter((parameter) => parameter.set),
    ...Object.values(run.parameters),
    ...plan.outputs,
  ];
  const hasSecrets = plan.credentials.length > 0 || values.some((value) => value.sensitive);
  const redactor = createRedactor();
  for (const [name, value] of outputs) if (value.sensitive) maskValue(redactor, { name, ...value }, emit);
  return new StepOutput(step, redactor, {
    emit,
    showLive: false,
    maxBytes: defaultRunOptions.maxOutputBytes,
    hidden: hasSecrets ? 'the secrets to be masked in it went with the process that was killed' : undefined,
  });
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
