import { setTimeout as sleep } from 'node:timers/promises';
import type { Json } from '../document/index.ts';
import type { ContainerExit, ContainerFile, ContainerRun } from '../engine/index.ts';
import { failpoint, isSkycapError, type Redactor, type SkycapError } from '../kernel/index.ts';
import {
  type BoundStep,
  bind,
  type Known,
  type KnownValue,
  type Plan,
  type PlanStep,
} from '../plan/index.ts';
import type { StepState } from '../state/index.ts';
import { type CollectedOutputs, collectOutputs, mergeCarried, pathsOutside } from './collect.ts';
import { runError } from './errors.ts';
import type { StepRecords } from './records.ts';
import { StepOutput } from './step-output.ts';
import type { RunRequest } from './types.ts';
import { failureOf, isIgnored, retryDelay } from './verdict.ts';

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
  context: {
    readonly records: StepRecords;
    readonly values: RunValues;
    readonly signals: StepSignals;
    readonly redactor: Redactor;
  },
): Promise<StepOutcome> {
  const { records, signals } = context;
  const started = performance.now();
  let intent: string | undefined;
  const finish = async (
    outcome: StepOutcome,
    exit?: ContainerExit,
    ignored = false,
  ): Promise<StepOutcome> => {
    const finishedAt = new Date().toISOString();
    await records.update(step.id, {
      state: outcome.state,
      finishedAt,
      ...(exit === undefined ? {} : { exitCode: exit.exitCode }),
      ...(outcome.error === undefined ? {} : { message: outcome.error.message }),
    });
    // Only now: until the step's end is on record, the intent says where to look for it.
    if (intent !== undefined) await request.state.clearIntent(intent);
    if (outcome.state !== 'skipped') {
      request.emit({
        type: 'step.finished',
        step: step.id,
        state: outcome.state,
        durationMs: Math.round(performance.now() - started),
        ...(exit === undefined ? {} : { exitCode: exit.exitCode }),
        ...(outcome.error === undefined ? {} : { message: outcome.error.message }),
        ...(ignored ? { ignored } : {}),
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

    intent = bound.run.containerId;
    const result = await runAttempt(request, step, {
      ...context,
      bound,
      attempt,
      carried: known.carriedFiles,
    });
    if (result.kind === 'errored') return finish({ state: 'errored', error: result.error, outputs: nothing });
    const { exit, outputs, error } = result;
    const failure = failureOf(step, exit);
    if (failure === undefined) {
      if (error === undefined) return finish({ state: 'succeeded', outputs }, exit);
      return finish({ state: 'failed', error, outputs }, exit);
    }
    if (result.isIgnored) return finish({ state: 'succeeded', outputs }, exit, true);
    if (exit.cause === 'cancelled') return finish({ state: 'aborted', error: failure, outputs }, exit);
    if (exit.cause === 'unknown') return finish({ state: 'unknown', error: failure, outputs }, exit);
    const delayMs = retryDelay(step, exit, attempt);
    if (delayMs === undefined || signals.signal.aborted || signals.kill.aborted)
      return finish({ state: 'failed', error: failure, outputs }, exit);
    await request.state.clearIntent(intent);
    intent = undefined;
    request.emit({ type: 'step.retrying', step: step.id, attempt, exitCode: exit.exitCode, delayMs });
    try {
      await sleep(delayMs, undefined, { signal: AbortSignal.any([signals.signal, signals.kill]) });
    } catch {
      const error = runError('RUN_CANCELLED', `step ${step.id} was cancelled between two attempts`);
      return finish({ state: 'aborted', error, outputs }, exit);
    }
  }
}

type AttemptResult =
  | { readonly kind: 'errored'; readonly error: SkycapError }
  | {
      readonly kind: 'ended';
      readonly exit: ContainerExit;
      readonly outputs: ReadonlyMap<string, KnownValue>;
      readonly error?: SkycapError;
      readonly isIgnored: boolean;
    };

async function runAttempt(
  request: RunRequest,
  step: PlanStep,
  context: {
    readonly records: StepRecords;
    readonly values: RunValues;
    readonly signals: StepSignals;
    readonly redactor: Redactor;
    readonly bound: Extract<BoundStep, { kind: 'run' }>;
    readonly attempt: number;
    /** Files outside the workspace that its container finds. */
    readonly carried: readonly ContainerFile[];
  },
): Promise<AttemptResult> {
  const { records, bound, attempt, values } = context;
  const run: ContainerRun = { ...bound.run, collectPaths: pathsOutside(request.plan, step) };
  const startedAt = new Date().toISOString();
  request.emit({
    type: 'step.started',
    step: step.id,
    description: bound.description,
    image: step.image,
    attempt,
  });
  await records.updateAttempt(
    step.id,
    { number: attempt, containerId: run.containerId, state: 'running', startedAt },
    {
      state: 'running',
      description: bound.description,
      startedAt: records.get(step.id).startedAt ?? startedAt,
    },
  );
  // Before the start: whoever comes after a crash must know which container to look for.
  await request.state.putIntent({
    ...request.plan.installation,
    runId: request.runId,
    stepId: step.id,
    attempt,
    containerId: run.containerId,
    engine: request.engine,
    created: startedAt,
  });
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
    await records.updateAttempt(step.id, {
      number: attempt,
      containerId: run.containerId,
      state: 'errored',
      startedAt,
    });
    return { kind: 'errored', error: cause };
  }
  failpoint('exit');
  await records.updateAttempt(step.id, attemptRecord(attempt, run.containerId, exit));
  failpoint('record');

  const collected = await collectWhatCan(request, step, {
    containerId: run.containerId,
    printed,
    carried: context.carried,
  });
  values.carried = mergeCarried(values.carried, collected.changed);
  for (const [name, value] of collected.outputs) if (value.sensitive) printed.mask(name, value);
  printed.end();
  failpoint('collecting');
  await recordOutputs(
    request,
    step,
    mergeOutputs(values.outputs, { plan: request.plan, step }, collected.outputs),
  );
  const failed = failureOf(step, exit) !== undefined;
  const { ignored, error = collected.error } = forgiven(step, exit, printed);
  const keep = request.options.keep && failed && !ignored && exit.cause !== 'cancelled';
  const kept = await request.session.release(run.containerId, { keep });
  if (kept !== undefined) request.emit({ type: 'step.kept', step: step.id, ...kept });
  return {
    kind: 'ended',
    exit,
    outputs: collected.outputs,
    isIgnored: ignored,
    ...(error === undefined ? {} : { error }),
  };
}

/** What cannot be collected (too large, not there) is the step's failure, and no fault that ends the run. */
async function collectWhatCan(
  { plan, session }: Pick<RunRequest, 'plan' | 'session'>,
  step: PlanStep,
  source: Omit<Parameters<typeof collectOutputs>[2], 'session'>,
): Promise<CollectedOutputs> {
  try {
    return await collectOutputs(plan, step, { session, ...source });
  } catch (cause) {
    if (!isSkycapError(cause)) throw cause;
    return { outputs: nothing, changed: [], error: cause };
  }
}

/** Whether the step's failure is ignored; the error says why that could not be told. */
export function forgiven(
  step: PlanStep,
  exit: ContainerExit,
  printed: StepOutput,
): { readonly ignored: boolean; readonly error?: SkycapError } {
  if (failureOf(step, exit) === undefined) return { ignored: false };
  try {
    return {
      ignored: isIgnored(step, exit, () => Buffer.from(printed.raw('stderr')).toString('utf8')),
    };
  } catch (cause) {
    if (!isSkycapError(cause)) throw cause;
    return { ignored: false, error: cause };
  }
}

/** Outputs become the installation's as soon as they are collected: a later crash does not lose them. */
export async function recordOutputs(
  request: Pick<RunRequest, 'state' | 'installationId' | 'runId' | 'emit' | 'plan'>,
  step: PlanStep | undefined,
  outputs: ReadonlyMap<string, KnownValue>,
): Promise<void> {
  for (const [name, value] of outputs) {
    await request.state.putOutput({
      installationId: request.installationId,
      runId: request.runId,
      name,
      sensitive: value.sensitive,
      contentType: typeof value.json === 'string' ? 'text' : 'json',
      value: value.bytes,
      created: new Date().toISOString(),
    });
    request.emit({
      type: 'output.collected',
      name,
      sensitive: value.sensitive,
      ...(step === undefined ? {} : { step: step.id }),
      ...(value.sensitive ? {} : { value: value.json }),
    });
  }
}

/**
 * Puts a step's outputs among the run's. Those of matrix cells become one object by the cell's value; it is sensitive
 * as soon as one cell's is.
 *
 * @returns what changed, under the names and with the values that are recorded
 */
export function mergeOutputs(
  all: Map<string, KnownValue>,
  { plan, step }: { readonly plan: Plan; readonly step: PlanStep },
  outputs: ReadonlyMap<string, KnownValue>,
): ReadonlyMap<string, KnownValue> {
  const changed = new Map<string, KnownValue>();
  for (const [name, value] of outputs) {
    const merged = step.cell === undefined ? value : withCell(all.get(name), { plan, step }, value);
    all.set(name, merged);
    changed.set(name, merged);
  }
  return changed;
}

/** Cells that the matrix no longer has go; those that did not run this time keep the last run's value. */
function withCell(
  before: KnownValue | undefined,
  { plan, step }: { readonly plan: Plan; readonly step: PlanStep },
  value: KnownValue,
): KnownValue {
  const cell = cellKey(step);
  const cells = new Set(plan.steps.filter((other) => other.name === step.name).map(cellKey));
  const others =
    typeof before?.json === 'object' && before.json !== null && !Array.isArray(before.json)
      ? before.json
      : {};
  const kept = Object.entries(others).filter(([key]) => cells.has(key));
  const json = { ...(Object.fromEntries(kept) as Record<string, Json>), [cell]: value.json };
  return {
    json,
    bytes: new TextEncoder().encode(JSON.stringify(json)),
    sensitive: value.sensitive || before?.sensitive === true,
  };
}

function cellKey(step: PlanStep): string {
  return step.id.slice(step.name.length + 1, -1);
}

export function attemptRecord(number: number, containerId: string, exit: ContainerExit) {
  const state: StepState =
    exit.cause === 'cancelled'
      ? 'aborted'
      : exit.cause === 'unknown'
        ? 'unknown'
        : exit.exitCode === 0
          ? 'succeeded'
          : 'failed';
  return {
    number,
    containerId,
    state,
    exitCode: exit.exitCode,
    cause: exit.cause,
    startedAt: exit.startedAt,
    finishedAt: exit.finishedAt,
  };
}

export function containerIdOf(runId: string, stepNumber: number, attempt: number): string {
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
