import type { Plan } from '../plan/index.ts';
import { loadRun } from '../run/index.ts';
import type { InstallationKey, Run } from '../state/index.ts';
import { knownOutputs } from './outputs.ts';
import type { ActionDeps } from './types.ts';
import { readBaseline, saveWorkspaceState } from './workspace.ts';

/**
 * Whoever holds the lock finishes what a killed process left: awaits its containers, collects outputs and state,
 * closes its records. Only then may anything new start, so that never two containers of one installation run.
 */
export async function takeOver(key: InstallationKey, deps: ActionDeps): Promise<readonly Run[]> {
  const installation = await deps.state.getInstallation(key);
  if (installation === undefined) return [];
  const open = await deps.state.listRuns({ installationId: installation.id, states: ['running', 'pending'] });
  const intents = await deps.state.listIntents(key);
  const closed: Run[] = [];
  for (const run of open) {
    deps.emit({
      type: 'notice',
      code: 'run-interrupted',
      message: `run ${run.id} (${run.action}) was interrupted; waiting for what it left`,
    });
    const plan = JSON.parse(run.plan) as Plan;
    const { signal, emit } = deps;
    const session = await deps.engine.adopt(run.id, { signal, emit });
    const { finishInterrupted } = await loadRun();
    const ended = await finishInterrupted({
      run,
      plan,
      intents: intents.filter((intent) => intent.runId === run.id),
      session,
      state: deps.state,
      outputs: await knownOutputs(deps.state, installation.id),
      emit,
      signal,
      kill: deps.kill,
    });
    if (session !== undefined) {
      if (plan.modifies) {
        const parts = { plan, session, state: deps.state, installationId: installation.id, emit };
        await saveWorkspaceState(parts, {
          id: run.id,
          baseline: await readBaseline(deps.directory, run.id),
          carried: [],
        });
      }
      await session.close({ keepWorkspace: ended.state !== 'succeeded' });
    }
    const now = deps.now().toISOString();
    const succeeded = ended.state === 'succeeded';
    await deps.state.putInstallation({
      ...installation,
      status: {
        ...installation.status,
        modified: now,
        resultStatus: ended.state,
        ...(succeeded && run.action === 'install' ? { installed: now } : {}),
        ...(succeeded && run.action === 'uninstall' ? { uninstalled: now } : {}),
      },
    });
    emit({ type: 'notice', code: 'run-closed', message: `run ${run.id} ended: ${ended.state}` });
    closed.push(ended);
  }
  return closed;
}
