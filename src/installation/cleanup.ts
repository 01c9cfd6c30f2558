import type { InstallationKey, Run } from '../state/index.ts';
import { installationError } from './errors.ts';
import { isUninstalled } from './rules.ts';
import { takeOver } from './takeover.ts';
import type { ActionDeps } from './types.ts';
import { removeBaseline } from './workspace.ts';

/**
 * Forgets an installation: records, outputs, state, volumes and kept workspaces. Only after a successful uninstall,
 * unless forced (Porter's rule).
 *
 * @throws INSTALLATION_NOT_FOUND, INSTALLATION_EXISTS
 */
export async function deleteInstallation(
  key: InstallationKey,
  deps: ActionDeps,
  options: { readonly force: boolean },
): Promise<void> {
  await using _lock = await deps.state.lock(key, 'exclusive', { runId: '', action: 'delete' });
  const installation = await deps.state.getInstallation(key);
  if (installation === undefined) {
    throw installationError('INSTALLATION_NOT_FOUND', `there is no installation ${key.name}`, {
      hint: 'list them with: skycap list',
    });
  }
  await takeOver(key, deps);
  if (!options.force && !isUninstalled(await deps.state.getInstallation(key))) {
    throw installationError('INSTALLATION_EXISTS', `${key.name} was not uninstalled`, {
      hint: `uninstall it first with: skycap uninstall ${key.name}; --force forgets it all the same and leaves what it made`,
    });
  }
  const cleaning = { signal: AbortSignal.timeout(60_000), emit: deps.emit };
  for (const run of await deps.state.listRuns({ installationId: installation.id }))
    await forgetWorkspace(run, deps);
  await deps.engine.removeVolumes(installation.id, cleaning);
  await deps.state.deleteInstallation(key);
}

async function forgetWorkspace(run: Run, deps: ActionDeps): Promise<void> {
  if (run.state === 'succeeded' || run.engine !== deps.engine.name) return;
  await deps.engine.sweep(run.id, { signal: AbortSignal.timeout(60_000), emit: deps.emit });
  await removeBaseline(deps.directory, run.id);
}
