import { failpoint, isSkycapError, ulid } from '../kernel/index.ts';
import { pendingRecord, type RunResult } from '../run/index.ts';
import type { Installation, LogWriter, Run } from '../state/index.ts';
import type { LoadedBundle } from './bundle-source.ts';
import type { AllowedAction } from './check-action.ts';
import { closeSteps, endedInstallation, lastRevision, startedInstallation } from './records.ts';
import type { ActionDeps, ActionRequest } from './types.ts';

/** A run with the record of its installation, as both are on disk. */
export interface RecordedRun {
  readonly run: Run;
  readonly installation: Installation;
}

/** Where the end of a run is told and written. */
export interface RunLog {
  readonly deps: ActionDeps;
  readonly log: LogWriter;
  /** `performance.now()` when it began. */
  readonly begun: number;
}

/** Puts the run and its installation on record before anything starts. */
export async function beginRecord(
  request: ActionRequest,
  deps: ActionDeps,
  parts: { readonly loaded: LoadedBundle; readonly runId: string; readonly allowed: AllowedAction },
): Promise<RecordedRun> {
  const { runId, allowed, loaded } = parts;
  const { before, installationId, digest, resumed } = allowed;
  const { plan, remembered } = allowed.planned;
  const started = deps.now().toISOString();
  const installation = startedInstallation(request, {
    before,
    installationId,
    loaded,
    plan,
    remembered,
    runId,
    started,
  });
  const run: Run = {
    id: runId,
    ...request.key,
    installation: request.key.name,
    installationId,
    action: request.action,
    revision: plan.modifies ? ulid(deps.now().getTime()) : await lastRevision(before, deps, runId),
    engine: deps.engine.name,
    state: 'running',
    created: started,
    started,
    plan: JSON.stringify(plan),
    bundleDigest: digest,
    ...(resumed === undefined ? {} : { resumes: resumed.runId }),
    parameters: remembered,
    // With what is kept from the start: a run that cannot begin must not forget what was done before it.
    steps: plan.steps.map(
      (step) => (step.always ? undefined : resumed?.finished.get(step.id)) ?? pendingRecord(step),
    ),
  };
  await deps.state.putInstallation(installation);
  await deps.state.putRun(run);
  return { run, installation };
}

/** What the steps came to. */
export async function endRecord(
  { run, installation }: RecordedRun,
  result: RunResult,
  { deps, log, begun }: RunLog,
): Promise<RecordedRun> {
  const { error, state } = result;
  const ended: Run = {
    ...run,
    state,
    steps: result.steps,
    finished: deps.now().toISOString(),
    ...(error === undefined ? {} : { message: error.message, errorCode: error.code }),
  };
  // Whoever follows the log stops reading once the record says that the run ended.
  deps.emit({
    type: 'run.finished',
    runId: run.id,
    state,
    durationMs: Math.round(performance.now() - begun),
    ...(error === undefined ? {} : { message: error.message }),
  });
  await log.flush();
  await deps.state.putRun(ended);
  const last = endedInstallation(installation, ended, deps.now());
  await deps.state.putInstallation(last);
  failpoint('close');
  return { run: ended, installation: last };
}

/** A fault of the engine or of ours ended it. Never throws: the fault itself is what the caller has to tell. */
export async function failRecord(
  { run, installation }: RecordedRun,
  cause: unknown,
  { deps, log, begun }: RunLog,
): Promise<void> {
  const message = isSkycapError(cause) ? cause.message : 'a fault of Skycap itself';
  const state = deps.signal.aborted ? 'aborted' : 'errored';
  const recorded = await deps.state.getRun(run.id).catch(() => undefined);
  const failed: Run = {
    ...(recorded ?? run),
    state,
    message,
    finished: deps.now().toISOString(),
    ...(isSkycapError(cause) ? { errorCode: cause.code } : {}),
  };
  const durationMs = Math.round(performance.now() - begun);
  deps.emit({ type: 'run.finished', runId: run.id, state, durationMs, message });
  try {
    await log.flush();
    const closed = await closeSteps(failed, deps);
    await deps.state.putRun(closed);
    await deps.state.putInstallation(endedInstallation(installation, closed, deps.now()));
  } catch {
    // The first error counts; a record that cannot be written is closed by the next command.
  }
}
