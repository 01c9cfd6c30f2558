import {
  createRedactor,
  failpoint,
  isSkycapError,
  type Redactor,
  type SkycapError,
} from '../kernel/index.ts';
import { containerPath, type KnownValue, type PlanStep } from '../plan/index.ts';
import type { RunState, StepState } from '../state/index.ts';
import { isInWorkspace } from './collect.ts';
import { runError } from './errors.ts';
import { outputValue } from './extract.ts';
import { maskValue } from './masking.ts';
import { recordOutputs } from './outputs.ts';
import { StepRecords } from './records.ts';
import { hasEnded, readySteps } from './schedule.ts';
import { type RunValues, runStep, type StepOutcome } from './step.ts';
import type { RunRequest, RunResult } from './types.ts';
import { resumeHint } from './verdict.ts';

/** What the run leaves to whoever composed it. */
export interface RunHooks {
  /** After each step, whatever became of it; saves `state:` paths. */
  readonly afterStep: (carried: RunValues['carried']) => Promise<void>;
  /** Contents of regular files in the workspace, by relative path; what is not there is left out. */
  readonly readWorkspace: (paths: readonly string[]) => Promise<ReadonlyMap<string, Uint8Array>>;
}

/**
 * Carries out a plan: starts what may start, waits, collects, until nothing runs and nothing more can start. What
 * the steps did is a result and no exception; an exception means that Skycap or the engine failed.
 */
export async function executePlan(request: RunRequest, hooks: RunHooks): Promise<RunResult> {
  const { plan } = request;
  const redactor = runRedactor(request);
  const records = new StepRecords(request.state, request.runId, plan.steps);
  const values: RunValues = { outputs: new Map(request.outputs), carried: request.carried };
  const running = new Map<string, Promise<{ step: PlanStep; outcome: StepOutcome }>>();
  const cellAborts = new Map<string, AbortController>();
  const stopping = new AbortController();
  let firstError: { error: SkycapError; state: RunState } | undefined;

  for (const [id, record] of request.finished) {
    if (plan.steps.some((step) => step.id === id && !step.always)) await records.update(id, record);
  }

  // `always` steps run after a cancellation as well, but not for ever.
  const alwaysTime = new AbortController();
  let alwaysTimer: NodeJS.Timeout | undefined;
  const onCancel = (): void => {
    stopping.abort();
    alwaysTimer = setTimeout(() => alwaysTime.abort(), request.options.alwaysGraceMs);
    wake();
  };
  let wake = (): void => {};
  if (request.signal.aborted) onCancel();
  else request.signal.addEventListener('abort', onCancel, { once: true });

  const progress = () => ({
    states: records.states(),
    stopping: firstError !== undefined || stopping.signal.aborted,
  });
  const start = (step: PlanStep): void => {
    const wasCancelled = stopping.signal.aborted;
    const cells = cellAborts.get(step.name) ?? new AbortController();
    cellAborts.set(step.name, cells);
    const ending = wasCancelled && step.always ? alwaysTime.signal : request.signal;
    const signal = AbortSignal.any([ending, cells.signal]);
    records.note(step.id, { state: 'running' });
    const promise = runStep(request, step, {
      records,
      values,
      redactor,
      signals: { signal, kill: request.kill },
    });
    const ended = promise.then((outcome) => ({ step, outcome }));
    // It may fail before the loop comes to wait for it.
    ended.catch(() => {});
    running.set(step.id, ended);
  };

  try {
    for (;;) {
      if (!request.kill.aborted) {
        for (
          let ready = readySteps(plan.steps, progress());
          ready[0] !== undefined;
          ready = readySteps(plan.steps, progress())
        ) {
          start(ready[0]);
        }
      }
      if (running.size === 0) break;
      const cancelled = new Promise<undefined>((resolve) => {
        wake = () => resolve(undefined);
      });
      const ended = await Promise.race([...running.values(), cancelled]);
      if (ended === undefined) continue;
      running.delete(ended.step.id);
      const { outcome, step } = ended;
      const isFailure = outcome.state !== 'succeeded' && outcome.state !== 'skipped';
      if (isFailure) {
        // The first error is the run's, whatever the clean-up after it meets.
        firstError ??= {
          error: outcome.error ?? runError('STEP_FAILED', `step ${step.id} failed`),
          state: outcome.state as RunState,
        };
        if (step.matrix?.failFast === true) cellAborts.get(step.name)?.abort();
      }
      await hooks.afterStep(values.carried);
    }
  } finally {
    clearTimeout(alwaysTimer);
    request.signal.removeEventListener('abort', onCancel);
    // An exception must not leave containers that nobody waits for.
    if (running.size > 0) {
      for (const controller of cellAborts.values()) controller.abort();
      alwaysTime.abort();
      await Promise.allSettled(running.values());
    }
  }

  const missing = await finalOutputs(request, values, {
    hooks,
    isWhole: plan.only === undefined && records.all().every((record) => isDone(record.state)),
  });
  const failure = firstError ?? missing;
  return {
    ...verdictOf(request, failure, records),
    steps: records.all(),
    outputs: values.outputs,
    carried: values.carried,
  };
}

/** Every secret of the run is masked in every step: a file can bring one to a step that was never given it. */
function runRedactor(request: RunRequest): Redactor {
  const redactor = createRedactor();
  for (const [name, bytes] of request.credentials)
    maskValue(redactor, { name, bytes, json: '' }, request.emit);
  for (const [name, value] of [...request.parameters, ...request.outputs])
    if (value.sensitive) maskValue(redactor, { name, ...value }, request.emit);
  return redactor;
}

function verdictOf(
  request: RunRequest,
  failure: { error: SkycapError; state: RunState } | undefined,
  records: StepRecords,
): Pick<RunResult, 'state' | 'error'> {
  if (request.signal.aborted && (failure === undefined || failure.state === 'aborted')) {
    if (failure === undefined && records.all().every((record) => hasEnded(record.state)))
      return { state: 'succeeded' };
    return {
      state: 'aborted',
      error: failure?.error ?? runError('RUN_CANCELLED', 'the run was cancelled', { hint: resumeHint }),
    };
  }
  if (failure === undefined) return { state: 'succeeded' };
  return { state: failure.state as RunResult['state'], error: failure.error };
}

/**
 * Bundle outputs that lie in the workspace are read at the end; one that is missing and has no default is an error
 * where all steps ran that could have written it (`isWhole`).
 */
export async function finalOutputs(
  request: Pick<RunRequest, 'plan' | 'state' | 'installationId' | 'runId' | 'emit' | 'now'>,
  values: Pick<RunValues, 'outputs'>,
  { hooks, isWhole }: { readonly hooks: Pick<RunHooks, 'readWorkspace'>; readonly isWhole: boolean },
): Promise<{ error: SkycapError; state: RunState } | undefined> {
  const { plan } = request;
  const inWorkspace = plan.outputs.filter(
    (output) => output.path !== undefined && isInWorkspace(containerPath(output.path)),
  );
  const found = new Map<string, KnownValue>();
  let firstError: SkycapError | undefined;
  if (inWorkspace.length > 0) {
    const files = await hooks.readWorkspace(inWorkspace.map((output) => relativePath(output.path ?? '')));
    for (const output of inWorkspace) {
      const bytes = files.get(relativePath(output.path ?? ''));
      if (bytes === undefined) continue;
      try {
        found.set(output.name, outputValue(bytes, output, output.sensitive));
      } catch (cause) {
        // What a step wrote fails the run; it must not end the keeping of records and state.
        if (!isSkycapError(cause)) throw cause;
        if (isWhole) firstError ??= cause;
      }
    }
  }
  for (const output of plan.outputs) {
    if (found.has(output.name) || values.outputs.has(output.name)) continue;
    if (output.default !== undefined) {
      const text = typeof output.default === 'string' ? output.default : JSON.stringify(output.default);
      found.set(output.name, {
        json: output.default,
        bytes: new TextEncoder().encode(text),
        sensitive: output.sensitive,
      });
    } else if (isWhole && firstError === undefined) {
      firstError = runError(
        'OUTPUT_MISSING',
        `no step wrote the output ${output.name}, and it has no default`,
        {
          hint: `write it to /cnab/app/outputs/${output.name}, or limit it with applyTo`,
        },
      );
    }
  }
  for (const [name, value] of found) values.outputs.set(name, value);
  await recordOutputs(request, undefined, found);
  failpoint('outputs');
  return firstError === undefined ? undefined : { error: firstError, state: 'failed' };
}

/** Nothing is missing of a step in this state. */
function isDone(state: StepState): boolean {
  return state === 'succeeded' || state === 'skipped';
}

function relativePath(path: string): string {
  return containerPath(path).slice('/cnab/app/'.length);
}
