import type { Engine } from '../engine/index.ts';
import type { Run, RunFilter } from '../state/index.ts';
import type { ActionDeps } from './types.ts';
import { hasBaseline, removeBaseline } from './workspace.ts';

export interface PruneDeps extends Pick<ActionDeps, 'state' | 'emit' | 'signal' | 'now' | 'directory'> {
  /** Asked only if a run may have left something with an engine. */
  engine(): Promise<Engine>;
}

export interface PruneOptions {
  readonly filter: RunFilter;
  /** Only those that ended longer ago than this, in milliseconds. */
  readonly olderThanMs?: number;
  /** As many of each installation stay; at least one does. */
  readonly keep?: number;
  readonly dryRun: boolean;
}

/**
 * Removes ended runs with their logs and what they left with the engine. The last of each installation stays, and so
 * does one whose workspace another engine keeps: without its record nobody would find that again.
 *
 * @returns the runs that were removed, or would be
 */
export async function pruneRuns(deps: PruneDeps, options: PruneOptions): Promise<readonly Run[]> {
  const chosen = choose(await deps.state.listRuns(options.filter), options, deps.now().getTime());
  if (options.dryRun || chosen.length === 0) return chosen;
  const stuck = new Set<Run>();
  for (const run of chosen) if (!(await forget(run, deps))) stuck.add(run);
  const gone = chosen.filter((run) => !stuck.has(run));
  await deps.state.deleteRuns(gone.map((run) => run.id));
  return gone;
}

function choose(runs: readonly Run[], { olderThanMs, keep }: PruneOptions, now: number): readonly Run[] {
  const byInstallation = Map.groupBy(runs, (run) => run.installationId);
  return [...byInstallation.values()].flatMap((own) =>
    own
      .slice(0, Math.max(0, own.length - Math.max(1, keep ?? 1)))
      .filter(({ state }) => state !== 'running' && state !== 'pending')
      .filter(
        (run) => olderThanMs === undefined || now - Date.parse(run.finished ?? run.created) > olderThanMs,
      ),
  );
}

/** @returns false if the run's workspace is with another engine */
async function forget(run: Run, deps: PruneDeps): Promise<boolean> {
  const keptWorkspace = await hasBaseline(deps.directory, run.id);
  // A step that failed may have been kept, its failure forgiven or not.
  if (!keptWorkspace && run.steps.every((step) => step.state !== 'failed')) return true;
  const { signal, emit } = deps;
  const engine = await deps.engine();
  if (engine.name === run.engine) {
    await engine.sweep(run.id, { signal, emit });
    await removeBaseline(deps.directory, run.id);
    return true;
  }
  if (!keptWorkspace) return true;
  emit({
    type: 'notice',
    code: 'run-not-pruned',
    message: `run ${run.id} of ${run.installation} stays: its workspace is with the engine ${run.engine}; prune it with SKYCAP_ENGINE=${run.engine}`,
  });
  return false;
}
