import { failpoint, isSkycapError, ulid } from '../kernel/index.ts';
import type { Plan } from '../plan/index.ts';
import { loadRun, pendingRecord, type RunResult } from '../run/index.ts';
import type { Installation, Run } from '../state/index.ts';
import { listBundleFiles } from './bundle-files.ts';
import { type LoadedBundle, loadBundleSource } from './bundle-source.ts';
import { checkReady, planAllowed } from './check-action.ts';
import { knownOutputs } from './outputs.ts';
import type { PlannedAction } from './plan-action.ts';
import {
  closeSteps,
  endedInstallation,
  lastRevision,
  startedEvent,
  startedInstallation,
  stateDigest,
} from './records.ts';
import { isAlone, type ResumedRun, sweepKeptWorkspaces } from './resume.ts';
import { checkName } from './rules.ts';
import { takeOver, takeOverIfAlone } from './takeover.ts';
import type { ActionDeps, ActionRequest, ActionResult } from './types.ts';
import { endsInstallation, removeAfterUninstall } from './uninstall.ts';
import {
  fillWorkspace,
  readBaseline,
  removeBaseline,
  savedOutside,
  saveWorkspaceState,
  writeBaseline,
} from './workspace.ts';

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

async function runLocked(
  request: ActionRequest,
  deps: ActionDeps,
  { loaded, runId }: { readonly loaded: LoadedBundle; readonly runId: string },
): Promise<ActionResult> {
  const { state, engine } = deps;
  const allowed = await planAllowed(request, deps, { loaded, runId });
  const { before, installationId, digest, resumed } = allowed;
  const { plan, parameters, remembered, outputs, cnabBundle } = allowed.planned;
  const credentials = await checkReady(request, deps, allowed);
  const started = deps.now().toISOString();
  const revision = plan.modifies ? ulid(deps.now().getTime()) : await lastRevision(before, deps, runId);
  const installation = startedInstallation(request, {
    before,
    installationId,
    loaded,
    plan,
    remembered,
    runId,
    started,
  });
  let run: Run = {
    id: runId,
    ...request.key,
    installation: request.key.name,
    installationId,
    action: request.action,
    revision,
    engine: engine.name,
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
  await state.putInstallation(installation);
  await state.putRun(run);
  await using log = await state.openLog(runId);
  const emit: ActionDeps['emit'] = (event) => {
    log.write(JSON.stringify({ time: deps.now().toISOString(), ...event }));
    deps.emit(event);
  };
  emit(startedEvent(plan, { runId, engine: engine.name }));
  const clock = performance.now();
  let result: RunResult;
  try {
    result = await runInSession(
      request,
      { ...deps, emit },
      {
        loaded,
        plan,
        runId,
        revision,
        installationId,
        parameters,
        outputs,
        credentials,
        cnabBundle,
        resumed,
        isSameBundle: (await stateDigest(before, deps)) === digest,
      },
    );
  } catch (cause) {
    const message = isSkycapError(cause) ? cause.message : 'a fault of Skycap itself';
    const aborted = deps.signal.aborted;
    const recorded = await state.getRun(runId).catch(() => undefined);
    run = {
      ...(recorded ?? run),
      state: aborted ? 'aborted' : 'errored',
      message,
      finished: deps.now().toISOString(),
      ...(isSkycapError(cause) ? { errorCode: cause.code } : {}),
    };
    emit({
      type: 'run.finished',
      runId,
      state: run.state === 'aborted' ? 'aborted' : 'errored',
      durationMs: Math.round(performance.now() - clock),
      message,
    });
    try {
      await log.flush();
      run = await closeSteps(run, deps);
      await state.putRun(run);
      await state.putInstallation(endedInstallation(installation, run, deps.now()));
    } catch {
      // The first error counts; a record that cannot be written is closed by the next command.
    }
    throw cause;
  }
  run = {
    ...run,
    state: result.state,
    steps: result.steps,
    finished: deps.now().toISOString(),
    ...(result.error === undefined ? {} : { message: result.error.message, errorCode: result.error.code }),
  };
  // Whoever follows the log stops reading once the record says that the run ended.
  emit({
    type: 'run.finished',
    runId,
    state: result.state,
    durationMs: Math.round(performance.now() - clock),
    ...(result.error === undefined ? {} : { message: result.error.message }),
  });
  await log.flush();
  await state.putRun(run);
  const ended = endedInstallation(installation, run, deps.now());
  await state.putInstallation(ended);
  failpoint('close');
  return { kind: 'ran', plan, run, installation: ended, result };
}

async function runInSession(
  request: ActionRequest,
  deps: ActionDeps,
  parts: {
    readonly loaded: LoadedBundle;
    readonly plan: Plan;
    readonly runId: string;
    readonly revision: string;
    readonly installationId: string;
    readonly isSameBundle: boolean;
    readonly resumed: ResumedRun | undefined;
  } & Pick<PlannedAction, 'parameters' | 'outputs' | 'cnabBundle'> & {
      readonly credentials: ReadonlyMap<string, Uint8Array>;
    },
): Promise<RunResult> {
  const { plan, runId, installationId, loaded, resumed } = parts;
  const { emit, signal } = deps;
  if (plan.steps.length === 0) {
    const message = `${plan.bundle.name} declares no steps for ${plan.action}: there is nothing to run`;
    emit({ type: 'warning', code: 'nothing-to-run', message });
    await removeAfterUninstall(plan, installationId, deps);
    return { state: 'succeeded', steps: [], outputs: parts.outputs, carried: [] };
  }
  const { carriedOutputs, executePlan, mergeCarried } = await loadRun();
  const images = Object.fromEntries(Object.entries(plan.images).map(([name, { image }]) => [name, image]));
  const session = await deps.engine.open(
    {
      runId,
      installationId,
      images,
      network: Object.values(plan.images).some((image) => image.network === 'default'),
      ...(resumed?.workspaceOf === undefined ? {} : { workspaceOf: resumed.workspaceOf }),
    },
    { signal, emit },
  );
  // Nothing is worth keeping before the steps could begin, but what an earlier run left.
  let hasSucceeded = false;
  let keepWorkspace = resumed?.workspaceOf !== undefined;
  try {
    const workspace = { plan, session, state: deps.state, installationId, emit };
    let baseline = {};
    let carried: RunCarried = [];
    if (resumed?.workspaceOf !== undefined) {
      baseline = await readBaseline(deps.directory, resumed.workspaceOf);
      carried = mergeCarried(await savedOutside(workspace), carriedOutputs(plan, parts.outputs));
    } else {
      const filled = await fillWorkspace(workspace, {
        folder: request.source.directory,
        files: await listBundleFiles(request.source.directory),
        imageNames: loaded.bundle.invocationImages
          .map((image) => image.name)
          .filter((name) => name in plan.images),
        parameters: parts.parameters,
        isSameBundle: parts.isSameBundle,
      });
      baseline = filled.baseline;
      carried = filled.carried;
    }
    await writeBaseline(deps.directory, runId, baseline);
    if (resumed?.workspaceOf !== undefined) await removeBaseline(deps.directory, resumed.workspaceOf);
    keepWorkspace = true;
    const save = (files: RunCarried) =>
      saveWorkspaceState(workspace, { id: runId, baseline, carried: files });
    const result = await executePlan(
      {
        plan,
        runId,
        revision: parts.revision,
        installationId,
        engine: deps.engine.name,
        session,
        state: deps.state,
        parameters: parts.parameters,
        credentials: parts.credentials,
        outputs: parts.outputs,
        carried,
        manifest: loaded.bundle.source,
        cnabBundle: parts.cnabBundle,
        finished: resumed?.finished ?? new Map(),
        options: request.options,
        emit,
        now: deps.now,
        signal,
        kill: deps.kill,
      },
      {
        async afterStep(files) {
          if (plan.modifies && plan.state.kind === 'paths') await save(files);
        },
        async readWorkspace(paths) {
          const { tarFiles } = await import('./state-restore.ts');
          return tarFiles(await session.workspace.get(paths));
        },
      },
    );
    failpoint('state save');
    if (plan.modifies && !(endsInstallation(plan) && result.state === 'succeeded'))
      await saveAfter(result, () => save(result.carried), emit);
    hasSucceeded = result.state === 'succeeded';
    keepWorkspace = !hasSucceeded;
    return result;
  } finally {
    await session.close({ keepWorkspace });
    if (!keepWorkspace) await removeBaseline(deps.directory, runId);
    // A look at the installation, or one step of it, is no success that makes the failed run's workspace useless.
    const succeeded = hasSucceeded && plan.modifies && plan.only === undefined;
    await sweepKeptWorkspaces(request.key, deps, { succeeded, runId });
    if (hasSucceeded) await removeAfterUninstall(plan, installationId, deps);
  }
}

/** A run whose steps failed ends with their failure; that its state cannot be kept is told besides. */
async function saveAfter(
  result: RunResult,
  save: () => Promise<void>,
  emit: ActionDeps['emit'],
): Promise<void> {
  try {
    await save();
  } catch (cause) {
    if (result.error === undefined || !isSkycapError(cause)) throw cause;
    const message = `what the run changed in the workspace was not saved: ${cause.message}`;
    emit({ type: 'warning', code: 'state-not-saved', message });
  }
}

type RunCarried = RunResult['carried'];
