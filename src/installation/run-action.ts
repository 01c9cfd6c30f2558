import { failpoint, isSkycapError, ulid } from '../kernel/index.ts';
import type { Plan } from '../plan/index.ts';
import type { RunResult } from '../run/index.ts';
import type { Installation, Run } from '../state/index.ts';
import { type LoadedBundle, loadBundleSource } from './bundle-source.ts';
import { checkReady, planAllowed } from './check-action.ts';
import { knownOutputs } from './outputs.ts';
import { startedEvent } from './records.ts';
import { isAlone } from './resume.ts';
import { checkName } from './rules.ts';
import { beginRecord, endRecord, failRecord } from './run-record.ts';
import { runInSession } from './run-session.ts';
import { takeOver, takeOverIfAlone } from './takeover.ts';
import type { ActionDeps, ActionRequest, ActionResult } from './types.ts';

/**
 * One action on one installation: the straight way from porter.yaml to a record (docs/architecture.md). Bundle,
 * images, plan, run, state; each stop takes what the one before it made.
 *
 * @throws the errors of every room on the way; what the steps did is in the result
 */
export async function runAction(request: ActionRequest, deps: ActionDeps): Promise<ActionResult> {
  checkName('installation', request.key.name);
  checkName('namespace', request.key.namespace);
  const loaded = await loadBundleSource(request.source);
  for (const problem of loaded.problems) {
    if (problem.severity === 'warning')
      deps.emit({ type: 'warning', code: problem.code, message: problem.message });
  }
  const runId = ulid(deps.now().getTime());
  if (request.dryRun) return await planOnly(request, deps, { loaded, runId });
  const declared = loaded.bundle.customActions.find((action) => action.name === request.action);
  const mode = (declared?.modifies ?? true) ? 'exclusive' : 'shared';
  let closed = mode === 'shared' ? await takeOverIfAlone(request, deps, runId) : [];
  await using _lock = await deps.state.lock(request.key, mode, { runId, action: request.action });
  failpoint('lock');
  if (mode === 'exclusive') closed = await takeOver(request.key, deps);
  const finished = request.resume ? await finishedByItself(request, deps, closed) : undefined;
  if (finished !== undefined) return finished;
  deps.signal.throwIfAborted();
  return await runLocked(request, deps, { loaded, runId });
}

/**
 * The run that was to be resumed, where it turned out that all its steps had come to a good end after its process
 * was killed: there is nothing left to do, and that is a success.
 */
async function finishedByItself(
  request: ActionRequest,
  deps: ActionDeps,
  closed: readonly Run[],
): Promise<ActionResult | undefined> {
  const run = closed.findLast((one) => one.action === request.action && !isAlone(one));
  if (run?.state !== 'succeeded') return undefined;
  const installation = (await deps.state.getInstallation(request.key)) as Installation;
  const outputs = await knownOutputs(deps.state, installation.id);
  const message = `run ${run.id} had finished: there is nothing left to resume`;
  deps.emit({ type: 'notice', code: 'nothing-to-resume', message });
  return {
    kind: 'ran',
    plan: JSON.parse(run.plan) as Plan,
    run,
    installation,
    result: { state: 'succeeded', steps: run.steps, outputs, carried: [] },
  };
}

/** What would run, and why it would not: all that can be known without starting a container. */
async function planOnly(
  request: ActionRequest,
  deps: ActionDeps,
  context: { readonly loaded: LoadedBundle; readonly runId: string },
): Promise<ActionResult> {
  const allowed = await planAllowed(request, deps, context);
  const planned = { kind: 'planned', plan: allowed.planned.plan, gaps: deps.engine.gaps } as const;
  try {
    await checkReady(request, deps, allowed);
    return planned;
  } catch (cause) {
    if (!isSkycapError(cause)) throw cause;
    return { ...planned, refused: cause };
  }
}

/** With the installation's lock held: rules and plan, the record of the run, its steps, its end. */
async function runLocked(
  request: ActionRequest,
  deps: ActionDeps,
  { loaded, runId }: { readonly loaded: LoadedBundle; readonly runId: string },
): Promise<ActionResult> {
  const allowed = await planAllowed(request, deps, { loaded, runId });
  const { plan } = allowed.planned;
  const credentials = await checkReady(request, deps, allowed);
  const recorded = await beginRecord(request, deps, { loaded, runId, allowed });
  await using log = await deps.state.openLog(runId);
  const logged: ActionDeps = {
    ...deps,
    emit(event) {
      log.write(JSON.stringify({ time: deps.now().toISOString(), ...event }));
      deps.emit(event);
    },
  };
  const record = { deps: logged, log, begun: performance.now() };
  logged.emit(startedEvent(plan, { runId, engine: deps.engine.name }));
  let result: RunResult;
  try {
    result = await runInSession(request, logged, { loaded, allowed, credentials, run: recorded.run });
  } catch (cause) {
    await failRecord(recorded, cause, record);
    throw cause;
  }
  return { kind: 'ran', plan, result, ...(await endRecord(recorded, result, record)) };
}
