import type { ContainerExit, Session } from '../engine/index.ts';
import { createRedactor, type Emit, isSkycapError } from '../kernel/index.ts';
import type { KnownValue, Plan, PlanStep } from '../plan/index.ts';
import type { Intent, Run, RunState, StateStore, StepRecord, StepState } from '../state/index.ts';
import { collectOutputs } from './collect.ts';
import type { RunEvent } from './events.ts';
import { attemptRecord, mergeOutputs, recordOutputs } from './step.ts';
import { StepOutput } from './step-output.ts';
import { defaultRunOptions } from './types.ts';
import { failureOf, isIgnored } from './verdict.ts';

export interface InterruptedRun {
  readonly run: Run;
  readonly plan: Plan;
  readonly intents: readonly Intent[];
  /** What the engine found of it; undefined if nothing. */
  readonly session: Session | undefined;
  readonly state: StateStore;
  readonly outputs: ReadonlyMap<string, KnownValue>;
  readonly emit: Emit<RunEvent>;
  readonly signal: AbortSignal;
  readonly kill: AbortSignal;
}

/**
 * Brings the records of a run whose process died to the truth: awaits its containers, collects what they leave, and
 * closes the run. Steps that had not begun stay pending; a step of which nothing is left is unknown.
 */
export async function finishInterrupted(interrupted: InterruptedRun): Promise<Run> {
  const { run, plan, state } = interrupted;
  const steps = new Map(run.steps.map((step) => [step.id, step]));
  const outputs = new Map(interrupted.outputs);
  for (const intent of interrupted.intents) {
    const step = plan.steps.find((candidate) => candidate.id === intent.stepId);
    const record = steps.get(intent.stepId);
    if (step === undefined || record === undefined) continue;
    const updated = await finishStep(interrupted, { step, record, intent, outputs });
    steps.set(step.id, updated);
    await state.putStep(run.id, updated);
    await state.clearIntent(intent.containerId);
  }
  // Begun, and without an intent: the process died before the container could start, or after it was put away.
  for (const [id, record] of steps) {
    if (record.state !== 'running') continue;
    const last = record.attempts.at(-1);
    const ended: StepState = last === undefined || last.state === 'running' ? 'pending' : last.state;
    const updated = { ...record, state: ended };
    steps.set(id, updated);
    await state.putStep(run.id, updated);
  }
  const closed: Run = {
    ...run,
    steps: [...steps.values()],
    state: stateOf([...steps.values()]),
    finished: new Date().toISOString(),
    message: 'the process that ran it was killed',
  };
  await state.putRun(closed);
  return closed;
}

async function finishStep(
  interrupted: InterruptedRun,
  found: {
    readonly step: PlanStep;
    readonly record: StepRecord;
    readonly intent: Intent;
    readonly outputs: Map<string, KnownValue>;
  },
): Promise<StepRecord> {
  const { session, state, plan, run } = interrupted;
  const { step, record, intent } = found;
  const started = performance.now();
  // Its secrets died with the process and cannot be masked, so what it printed stays hidden where it saw any.
  const isHidden =
    step.sees.credentials.length > 0 ||
    plan.parameters.some((p) => p.sensitive && step.sees.parameters.includes(p.name));
  const redactor = createRedactor();
  const printed = new StepOutput(isHidden ? { ...step, suppressOutput: true } : step, redactor, {
    emit: interrupted.emit,
    showLive: false,
    maxBytes: defaultRunOptions.maxOutputBytes,
  });
  const exit: ContainerExit | undefined = await session?.attach(intent.containerId, {
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
  let message: string | undefined;
  let failed = failureOf(step, exit);
  if (session !== undefined && exit.cause !== 'unknown') {
    const collected = await collectOutputs(plan, step, {
      session,
      containerId: intent.containerId,
      printed,
      carried: [],
    });
    for (const [name, value] of collected.outputs)
      if (value.sensitive) redactor.add({ name, value: value.bytes });
    await recordOutputs(
      { state, installationId: run.installationId, runId: run.id, emit: interrupted.emit, plan },
      step,
      mergeOutputs(found.outputs, step, collected.outputs),
    );
    message = collected.error?.message;
    failed ??= collected.error;
    try {
      if (isIgnored(step, exit, () => Buffer.from(printed.raw('stderr')).toString('utf8')))
        failed = undefined;
    } catch (cause) {
      if (!isSkycapError(cause)) throw cause;
    }
    await session.release(intent.containerId, { keep: false });
  }
  printed.end();
  const ended =
    exit.cause === 'unknown'
      ? 'unknown'
      : exit.cause === 'cancelled'
        ? 'aborted'
        : failed === undefined
          ? 'succeeded'
          : 'failed';
  interrupted.emit({
    type: 'step.finished',
    step: step.id,
    state: ended,
    exitCode: exit.exitCode,
    durationMs: Math.round(performance.now() - started),
    message: message ?? failed?.message ?? 'it finished after the process that had started it was killed',
  });
  return {
    ...record,
    state: ended,
    exitCode: exit.exitCode,
    finishedAt: exit.finishedAt,
    ...(failed === undefined ? {} : { message: failed.message }),
    attempts: [
      ...record.attempts.filter((a) => a.number !== intent.attempt),
      attemptRecord(intent.attempt, intent.containerId, exit),
    ],
  };
}

function stateOf(steps: readonly StepRecord[]): RunState {
  if (steps.some((step) => step.state === 'unknown')) return 'unknown';
  if (steps.some((step) => step.state === 'failed' || step.state === 'errored')) return 'failed';
  return steps.every((step) => step.state === 'succeeded' || step.state === 'skipped')
    ? 'succeeded'
    : 'aborted';
}
