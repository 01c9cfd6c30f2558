import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerExit, ContainerFile, ContainerRun } from '../engine/index.ts';
import { failpoint, isSkycapError, type Redactor, type SkycapError } from '../kernel/index.ts';
import { type BoundStep, bind, type Known, type KnownValue, type PlanStep } from '../plan/index.ts';
import type { AttemptRecord, StepRecord, StepState } from '../state/index.ts';
import { attemptRecord, type LeftBehind, takeWhatIsLeft } from './attempt-end.ts';
import { pathsOutside } from './collect.ts';
import { runError } from './errors.ts';
import { emitOutputs, mergeOutputs, outputRecords } from './outputs.ts';
import type { StepRecords } from './records.ts';
import { StepOutput } from './step-output.ts';
import type { RunRequest } from './types.ts';
import { failureOf, resumeHint, retryDelay } from './verdict.ts';

export interface StepSignals {
  readonly signal: AbortSignal;
  readonly kill: AbortSignal;
}

/** What all steps of a run share; steps that end add to it. */
export interface RunValues {
  readonly outputs: Map<string, KnownValue>;
  carried: readonly ContainerFile[];
}

export interface StepOutcome {
  readonly state: Exclude<StepState, 'pending' | 'running'>;
  readonly error?: SkycapError;
  readonly outputs: ReadonlyMap<string, KnownValue>;
}

const nothing: ReadonlyMap<string, KnownValue> = new Map();

/** One step with its attempts, from its condition to its outputs. Never throws for what the step did. */
export async function runStep(
  request: RunRequest,
  step: PlanStep,
  context: StepContext,
): Promise<StepOutcome> {
  const { signals } = context;
  const started = performance.now();
  const finish = async (
    outcome: StepOutcome,
    attempted?: Attempted,
    exit = attempted?.exit,
  ): Promise<StepOutcome> => {
    const message = outcome.error === undefined ? {} : { message: outcome.error.message };
    const exitCode = exit === undefined ? {} : { exitCode: exit.exitCode };
    const change = { state: outcome.state, finishedAt: request.now().toISOString(), ...exitCode, ...message };
    await settle(request, step, { ...context, change, attempted });
    if (outcome.state !== 'skipped') {
      request.emit({
        type: 'step.finished',
        step: step.id,
        state: outcome.state,
        durationMs: Math.round(performance.now() - started),
        ...exitCode,
        ...message,
        ...(attempted?.isIgnored === true ? { ignored: true } : {}),
      });
    }
    return outcome;
  };

  for (let attempt = 1; ; attempt += 1) {
    const known = knownTo(request, step, { attempt, values: context.values });
    let bound: BoundStep;
    try {
      bound = bind(request.plan, step, known);
    } catch (cause) {
      if (!isSkycapError(cause)) throw cause;
      return finish({ state: 'errored', error: cause, outputs: nothing });
    }
    if (bound.kind === 'skipped') {
      request.emit({ type: 'step.skipped', step: step.id, reason: bound.reason });
      return finish({ state: 'skipped', outputs: nothing });
    }

    const attempted = await runAttempt(request, step, {
      ...context,
      bound,
      attempt,
      carried: known.carriedFiles,
    });
    const { exit, outputs, error } = attempted;
    if (exit === undefined) return finish({ state: 'errored', ...errorOf(error), outputs }, attempted);
    const failure = failureOf(step, exit);
    if (failure === undefined)
      return finish(
        { state: error === undefined ? 'succeeded' : 'failed', ...errorOf(error), outputs },
        attempted,
      );
    if (attempted.isIgnored) return finish({ state: 'succeeded', outputs }, attempted);
    if (exit.cause === 'cancelled') return finish({ state: 'aborted', error: failure, outputs }, attempted);
    if (exit.cause === 'unknown') return finish({ state: 'unknown', error: failure, outputs }, attempted);
    const delayMs = retryDelay(step, exit, attempt);
    if (delayMs === undefined || signals.signal.aborted || signals.kill.aborted)
      return finish({ state: 'failed', error: failure, outputs }, attempted);
    await settle(request, step, { ...context, change: {}, attempted });
    request.emit({ type: 'step.retrying', step: step.id, attempt, exitCode: exit.exitCode, delayMs });
    try {
      await sleep(delayMs, undefined, { signal: AbortSignal.any([signals.signal, signals.kill]) });
    } catch {
      const error = runError('RUN_CANCELLED', `step ${step.id} was cancelled between two attempts`, {
        hint: resumeHint,
      });
      return finish({ state: 'aborted', error, outputs }, undefined, exit);
    }
  }
}

export interface StepContext {
  readonly records: StepRecords;
  readonly values: RunValues;
  readonly signals: StepSignals;
  readonly redactor: Redactor;
}

/** One attempt after its container has ended, before anything of that is on record. */
interface Attempted extends LeftBehind {
  readonly record: AttemptRecord;
  /** Undefined where there never was a container. */
  readonly exit?: ContainerExit;
}

function errorOf(error: SkycapError | undefined): { readonly error?: SkycapError } {
  return error === undefined ? {} : { error };
}

async function runAttempt(
  request: RunRequest,
  step: PlanStep,
  context: StepContext & {
    readonly bound: Extract<BoundStep, { kind: 'run' }>;
    readonly attempt: number;
    /** Files outside the workspace that its container finds. */
    readonly carried: readonly ContainerFile[];
  },
): Promise<Attempted> {
  const { records, bound, attempt, values } = context;
  const run: ContainerRun = { ...bound.run, collectPaths: pathsOutside(request.plan, step) };
  const startedAt = request.now().toISOString();
  request.emit({
    type: 'step.started',
    step: step.id,
    description: bound.description,
    image: step.image,
    attempt,
  });
  const begun = { number: attempt, containerId: run.containerId, startedAt };
  // Before the start: whoever comes after a crash must know which container to look for.
  await records.update(
    step.id,
    {
      state: 'running',
      description: bound.description,
      startedAt: records.get(step.id).startedAt ?? startedAt,
    },
    {
      attempt: { ...begun, state: 'running' },
      intent: {
        ...request.plan.installation,
        runId: request.runId,
        stepId: step.id,
        attempt,
        containerId: run.containerId,
        engine: request.engine,
        created: startedAt,
      },
    },
  );
  failpoint('intent');

  const printed = new StepOutput(step, context.redactor, {
    emit: request.emit,
    showLive: request.options.showLive,
    maxBytes: request.options.maxOutputBytes,
  });
  let exit: ContainerExit;
  try {
    exit = await request.session.run(run, {
      onOutput: (stream, chunk) => printed.write(stream, chunk),
      onStarted() {
        request.emit({ type: 'step.running', step: step.id, attempt });
        failpoint('running');
      },
      ...context.signals,
    });
  } catch (cause) {
    if (!isSkycapError(cause)) throw cause;
    printed.end();
    return { record: { ...begun, state: 'errored' }, error: cause, outputs: nothing, isIgnored: false };
  }
  failpoint('exit');

  const left = await takeWhatIsLeft(request, step, {
    exit,
    containerId: run.containerId,
    printed,
    found: context.carried,
    values,
  });
  failpoint('collecting');
  return { record: attemptRecord(attempt, run.containerId, exit), exit, ...left };
}

/**
 * Puts the end of an attempt on record, in one commit with its outputs: a later crash does not lose them. Until then
 * its intent says where to look for the container, which goes only afterwards.
 */
async function settle(
  request: RunRequest,
  step: PlanStep,
  end: StepContext & { readonly change: Partial<StepRecord>; readonly attempted: Attempted | undefined },
): Promise<void> {
  const { records, attempted } = end;
  if (attempted === undefined) return records.update(step.id, end.change);
  const { record, exit } = attempted;
  const outputs = mergeOutputs(end.values.outputs, { plan: request.plan, step }, attempted.outputs);
  await records.update(step.id, end.change, {
    attempt: record,
    ended: record.containerId,
    outputs: outputRecords(request, outputs),
  });
  failpoint('record');
  emitOutputs(request, step, outputs);
  if (exit === undefined) return;
  const failed = failureOf(step, exit) !== undefined;
  const keep = request.options.keep && failed && !attempted.isIgnored && exit.cause !== 'cancelled';
  const kept = await request.session.release(record.containerId, { keep });
  if (kept !== undefined) request.emit({ type: 'step.kept', step: step.id, ...kept });
}

function containerIdOf(runId: string, stepNumber: number, attempt: number): string {
  return `skycap-${runId.toLowerCase()}-${stepNumber}-${attempt}`;
}

function knownTo(
  request: RunRequest,
  step: PlanStep,
  { attempt, values }: { attempt: number; values: RunValues },
): Known {
  return {
    runId: request.runId,
    revision: request.revision,
    installationId: request.installationId,
    attempt,
    containerId: containerIdOf(request.runId, request.plan.steps.indexOf(step), attempt),
    graceMs: request.options.graceMs,
    parameters: request.parameters,
    credentials: request.credentials,
    outputs: values.outputs,
    carriedFiles: values.carried,
    manifest: request.manifest,
    cnabBundle: request.cnabBundle,
  };
}
