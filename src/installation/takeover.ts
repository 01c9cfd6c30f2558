import type { Session } from '../engine/index.ts';
import { isSkycapError } from '../kernel/index.ts';
import type { Plan } from '../plan/index.ts';
import { loadRun } from '../run/index.ts';
import type { Installation, InstallationKey, Run } from '../state/index.ts';
import { installationError } from './errors.ts';
import { knownOutputs } from './outputs.ts';
import { endedInstallation } from './records.ts';
import type { ActionDeps } from './types.ts';
import { endsInstallation, removeAfterUninstall } from './uninstall.ts';
import { readBaseline, removeBaseline, savedOutside, saveWorkspaceState } from './workspace.ts';

export type TakeOverDeps = Pick<
  ActionDeps,
  'state' | 'engine' | 'emit' | 'now' | 'signal' | 'kill' | 'directory'
>;

/** One run that is ended instead of awaited; others wait for the next command. */
export interface EndedRun {
  readonly runId: string;
  /** As in a run: the first ends its steps with grace, the second at once. */
  readonly signals: Pick<ActionDeps, 'signal' | 'kill'>;
}

/**
 * Whoever holds the lock finishes what a killed process left: awaits its containers, collects outputs and state,
 * closes its records. Only then may anything new start, so that never two containers of one installation run.
 *
 * @throws RUN_OTHER_ENGINE where another engine has to be asked what became of the run
 */
export async function takeOver(
  key: InstallationKey,
  deps: TakeOverDeps,
  ended?: EndedRun,
): Promise<readonly Run[]> {
  const found = await deps.state.getInstallation(key);
  if (found === undefined) return [];
  let installation = found;
  const open = (await openRuns(found, deps)).filter((run) => ended === undefined || run.id === ended.runId);
  const closed: Run[] = [];
  for (const run of open) {
    if (run.engine !== deps.engine.name) {
      throw installationError(
        'RUN_OTHER_ENGINE',
        `run ${run.id} (${run.action}) of ${key.name} was interrupted on the engine ${run.engine}, and this command works with ${deps.engine.name}`,
        { hint: `let that engine tell how it ended: run the command again with --engine ${run.engine}` },
      );
    }
    const { emit } = deps;
    emit({
      type: 'notice',
      code: 'run-interrupted',
      message: `run ${run.id} (${run.action}) was interrupted; ${ended === undefined ? 'waiting for' : 'ending'} what it left`,
    });
    const last = await close(run, installation, { ...deps, signals: ended?.signals ?? deps });
    installation = endedInstallation(installation, last, deps.now());
    await deps.state.putRun(last);
    await deps.state.putInstallation(installation);
    emit({ type: 'notice', code: 'run-closed', message: `run ${run.id} ended: ${last.state}` });
    closed.push(last);
  }
  return closed;
}

/** Runs whose record says that they go on. Their processes are dead where nobody holds the installation's lock. */
async function openRuns(
  installation: Installation,
  deps: Pick<ActionDeps, 'state'>,
): Promise<readonly Run[]> {
  return deps.state.listRuns({ installationId: installation.id, states: ['running', 'pending'] });
}

async function close(
  run: Run,
  installation: Installation,
  deps: TakeOverDeps & { readonly signals: EndedRun['signals'] },
): Promise<Run> {
  const { signal, emit, state } = deps;
  const plan = JSON.parse(run.plan) as Plan;
  const session = await deps.engine.adopt(run.id, { signal, emit });
  const { finishInterrupted } = await loadRun();
  const { tarFiles } = await import('./state-restore.ts');
  const parts = { plan, state, installationId: installation.id, emit };
  const intents = await state.listIntents(installation);
  let { run: ended, carried } = await finishInterrupted({
    run,
    plan,
    intents: intents.filter((intent) => intent.runId === run.id),
    session,
    state,
    outputs: await knownOutputs(state, installation.id),
    carried: await savedOutside(parts),
    readWorkspace: async (paths) =>
      session === undefined ? new Map() : tarFiles(await session.workspace.get(paths)),
    emit,
    now: deps.now,
    signal: deps.signals.signal,
    kill: deps.signals.kill,
  });
  const isGone = endsInstallation(plan) && ended.state === 'succeeded';
  if (session !== undefined) {
    if (plan.modifies && !isGone)
      ended = await saveOrTell(ended, { ...parts, session }, { directory: deps.directory, carried });
    const keepWorkspace = ended.state !== 'succeeded';
    await session.close({ keepWorkspace });
    if (!keepWorkspace) await removeBaseline(deps.directory, run.id);
  }
  if (isGone) await removeAfterUninstall(plan, installation.id, deps);
  return ended;
}

/** State that cannot be kept must not keep the installation from ever being worked on again. */
async function saveOrTell(
  run: Run,
  parts: Parameters<typeof saveWorkspaceState>[0] & { readonly session: Session },
  from: { readonly directory: string; readonly carried: Parameters<typeof saveWorkspaceState>[1]['carried'] },
): Promise<Run> {
  try {
    const baseline = await readBaseline(from.directory, run.id);
    await saveWorkspaceState(parts, { id: run.id, baseline, carried: from.carried });
    return run;
  } catch (cause) {
    if (!isSkycapError(cause) || !(cause.code === 'WORKSPACE_TOO_LARGE' || cause.code.startsWith('ENGINE_')))
      throw cause;
    parts.emit({
      type: 'warning',
      code: 'state-not-saved',
      message: `what run ${run.id} changed in the workspace was not saved: ${cause.message}`,
    });
    return { ...run, state: run.state === 'succeeded' ? 'errored' : run.state, message: cause.message };
  }
}

/**
 * Before an action that shares the installation: what a killed process left is finished by whoever can have it
 * alone for a moment. Where others work on it, it waits for the next one.
 */
export async function takeOverIfAlone(
  { key, action }: { readonly key: InstallationKey; readonly action: string },
  deps: ActionDeps,
  runId: string,
): Promise<readonly Run[]> {
  const installation = await deps.state.getInstallation(key);
  if (installation === undefined || (await openRuns(installation, deps)).length === 0) return [];
  try {
    await using _lock = await deps.state.lock(key, 'exclusive', { runId, action });
    return await takeOver(key, deps);
  } catch (cause) {
    if (!isSkycapError(cause) || cause.code !== 'STATE_LOCKED') throw cause;
    return [];
  }
}
