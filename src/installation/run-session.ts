import type { Session } from '../engine/index.ts';
import { failpoint, isSkycapError } from '../kernel/index.ts';
import { loadRun, type RunResult } from '../run/index.ts';
import type { Run } from '../state/index.ts';
import { listBundleFiles } from './bundle-files.ts';
import type { LoadedBundle } from './bundle-source.ts';
import type { AllowedAction } from './check-action.ts';
import { stateDigest } from './records.ts';
import { sweepKeptWorkspaces } from './resume.ts';
import type { ActionDeps, ActionRequest } from './types.ts';
import { endsInstallation, removeAfterUninstall } from './uninstall.ts';
import {
  type Baseline,
  fillWorkspace,
  readBaseline,
  removeBaseline,
  savedOutside,
  saveWorkspaceState,
  type WorkspaceParts,
  writeBaseline,
} from './workspace.ts';

export interface SessionParts {
  readonly loaded: LoadedBundle;
  readonly allowed: AllowedAction;
  readonly credentials: ReadonlyMap<string, Uint8Array>;
  /** As it is on record. */
  readonly run: Run;
}

type Carried = RunResult['carried'];

/** A planned run from its engine session to the saved state: workspace in, steps, changes out. */
export async function runInSession(
  request: ActionRequest,
  deps: ActionDeps,
  parts: SessionParts,
): Promise<RunResult> {
  const { run, allowed } = parts;
  const { installationId, resumed } = allowed;
  const { plan } = allowed.planned;
  if (plan.steps.length === 0) return await runNothing(deps, allowed);
  const session = await openSession(deps, parts);
  // Nothing is worth keeping before the steps could begin, but what an earlier run left.
  let hasSucceeded = false;
  let keepWorkspace = resumed?.workspaceOf !== undefined;
  try {
    const workspace = { plan, session, state: deps.state, installationId, emit: deps.emit };
    const { baseline, carried } = await enterWorkspace(request, deps, { ...parts, workspace });
    keepWorkspace = true;
    const save = (files: Carried): Promise<void> =>
      saveWorkspaceState(workspace, { id: run.id, baseline, carried: files });
    const result = await carryOut(request, deps, { ...parts, session, carried, save });
    failpoint('state save');
    if (plan.modifies && !(endsInstallation(plan) && result.state === 'succeeded'))
      await saveAfter(result, () => save(result.carried), deps.emit);
    hasSucceeded = result.state === 'succeeded';
    keepWorkspace = !hasSucceeded;
    return result;
  } finally {
    // A look at the installation, or one step of it, is no success that makes the failed run's workspace useless.
    const succeeded = hasSucceeded && plan.modifies && plan.only === undefined;
    await cleanUp({ hasSucceeded, emit: deps.emit }, [
      () => session.close({ keepWorkspace }),
      async () => {
        if (!keepWorkspace) await removeBaseline(deps.directory, run.id);
      },
      () => sweepKeptWorkspaces(request.key, deps, { succeeded, runId: run.id }),
    ]);
    if (hasSucceeded) await removeAfterUninstall(plan, installationId, deps);
  }
}

/** All are tried. A run that failed ends with its own fault; what could not be cleaned up is told besides. */
async function cleanUp(
  { hasSucceeded, emit }: Pick<ActionDeps, 'emit'> & { readonly hasSucceeded: boolean },
  works: readonly (() => Promise<void>)[],
): Promise<void> {
  const faults: unknown[] = [];
  for (const work of works) {
    try {
      await work();
    } catch (cause) {
      faults.push(cause);
    }
  }
  for (const fault of hasSucceeded ? faults.slice(1) : faults) {
    const message = `what the run used was not cleaned up: ${fault instanceof Error ? fault.message : String(fault)}`;
    emit({ type: 'warning', code: 'not-cleaned-up', message });
  }
  if (hasSucceeded && faults.length > 0) throw faults[0];
}

async function runNothing(deps: ActionDeps, { planned, installationId }: AllowedAction): Promise<RunResult> {
  const { plan, outputs } = planned;
  const message = `${plan.bundle.name} declares no steps for ${plan.action}: there is nothing to run`;
  deps.emit({ type: 'warning', code: 'nothing-to-run', message });
  await removeAfterUninstall(plan, installationId, deps);
  return { state: 'succeeded', steps: [], outputs, carried: [] };
}

async function openSession(
  { engine, signal, emit }: ActionDeps,
  { run, allowed }: SessionParts,
): Promise<Session> {
  const { images } = allowed.planned.plan;
  const workspaceOf = allowed.resumed?.workspaceOf;
  return await engine.open(
    {
      runId: run.id,
      installationId: allowed.installationId,
      images: Object.fromEntries(Object.entries(images).map(([name, { image }]) => [name, image])),
      network: Object.values(images).some((image) => image.network === 'default'),
      ...(workspaceOf === undefined ? {} : { workspaceOf }),
    },
    { signal, emit },
  );
}

/**
 * The workspace as the first step finds it: that of the resumed run where it is still there, else a new one. From
 * here on it is worth keeping.
 */
async function enterWorkspace(
  request: ActionRequest,
  deps: ActionDeps,
  { workspace, loaded, allowed, run }: SessionParts & { readonly workspace: WorkspaceParts },
): Promise<{ readonly baseline: Baseline; readonly carried: Carried }> {
  const { plan, parameters, outputs } = allowed.planned;
  const kept = allowed.resumed?.workspaceOf;
  if (kept !== undefined) {
    const { carriedOutputs, mergeCarried } = await loadRun();
    const baseline = await readBaseline(deps.directory, kept);
    const carried = mergeCarried(await savedOutside(workspace), carriedOutputs(plan, outputs));
    await writeBaseline(deps.directory, run.id, baseline);
    await removeBaseline(deps.directory, kept);
    return { baseline, carried };
  }
  const { directory } = request.source;
  const names = loaded.bundle.invocationImages.map((image) => image.name);
  const filled = await fillWorkspace(workspace, {
    folder: directory,
    files: await listBundleFiles(directory),
    imageNames: names.filter((name) => name in plan.images),
    parameters,
    isSameBundle: (await stateDigest(allowed.before, deps)) === allowed.digest,
  });
  await writeBaseline(deps.directory, run.id, filled.baseline);
  return filled;
}

async function carryOut(
  request: ActionRequest,
  deps: ActionDeps,
  parts: SessionParts & {
    readonly session: Session;
    readonly carried: Carried;
    readonly save: (files: Carried) => Promise<void>;
  },
): Promise<RunResult> {
  const { session, run, allowed } = parts;
  const { plan, parameters, outputs, cnabBundle } = allowed.planned;
  const { executePlan } = await loadRun();
  return await executePlan(
    {
      plan,
      runId: run.id,
      revision: run.revision,
      installationId: allowed.installationId,
      engine: deps.engine.name,
      session,
      state: deps.state,
      parameters,
      credentials: parts.credentials,
      outputs,
      carried: parts.carried,
      manifest: parts.loaded.bundle.source,
      cnabBundle,
      finished: allowed.resumed?.finished ?? new Map(),
      options: request.options,
      emit: deps.emit,
      now: deps.now,
      signal: deps.signal,
      kill: deps.kill,
    },
    {
      async afterStep(files) {
        if (plan.modifies && plan.state.kind === 'paths') await parts.save(files);
      },
      async readWorkspace(paths) {
        const { tarFiles } = await import('./state-restore.ts');
        return tarFiles(await session.workspace.get(paths));
      },
    },
  );
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
