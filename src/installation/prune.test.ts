import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Engine } from '../engine/index.ts';
import type { Run } from '../state/index.ts';
import { type ActionWorld, makeActionWorld, ran } from './action.fixture.ts';
import { type PruneOptions, pruneRuns } from './prune.ts';
import type { InstallationEvent } from './types.ts';
import { writeBaseline } from './workspace.ts';

const day = 86_400_000;
const now = Date.UTC(2026, 5, 1);

let world: ActionWorld;
let runs: readonly Run[];
let directory: string;

beforeEach(async () => {
  world = await makeActionWorld();
  const bundle = world.bundle('install:\n  - {description: One, invoke: {name: tools}}\n');
  directory = join(bundle, 'baselines');
  const { run } = ran(await world.run(bundle, 'install', { image: { run: () => 0 } }));
  await world.state.deleteRuns([run.id]);
  const daysAgo = [40, 30, 20, 10];
  runs = daysAgo.map((days, index) => {
    const finished = new Date(now - days * day).toISOString();
    return { ...run, id: `${run.id.slice(0, -1)}${index}`, created: finished, finished, engine: 'fake' };
  });
});

afterEach(() => world[Symbol.asyncDispose]());

/** Prunes, and tells which runs went, were swept and are still there, by their place in `runs`. */
async function prune(options: Partial<PruneOptions>, engineName: string | undefined = 'fake') {
  // Records are in the order in which they were made.
  await world.state.deleteRuns(runs.map((run) => run.id));
  for (const run of runs) await world.state.putRun(run);
  const swept: string[] = [];
  const events: InstallationEvent[] = [];
  let asked = 0;
  const places = (ids: readonly string[]) => ids.map((id) => runs.findIndex((run) => run.id === id));
  const gone = await pruneRuns(
    {
      state: world.state,
      engine: async () => {
        asked += 1;
        return { name: engineName, sweep: async (id: string) => void swept.push(id) } as unknown as Engine;
      },
      emit: (event) => void events.push(event),
      signal: new AbortController().signal,
      now: () => new Date(now),
      directory,
    },
    { filter: {}, dryRun: false, ...options },
  );
  const left = (await world.state.listRuns({})).map((run) => run.id);
  return { gone: places(gone.map((run) => run.id)), swept: places(swept), left: places(left), asked, events };
}

describe('pruneRuns', () => {
  it('chooses by age and count, and never the last of an installation', async () => {
    expect((await prune({ olderThanMs: 25 * day, dryRun: true })).gone).toEqual([0, 1]);
    expect((await prune({ keep: 3, dryRun: true })).gone).toEqual([0]);
    expect((await prune({ olderThanMs: 25 * day, keep: 3, dryRun: true })).gone).toEqual([0]);
    expect((await prune({ keep: 0, dryRun: true })).gone).toEqual([0, 1, 2]);
    expect((await prune({ olderThanMs: 0 })).left).toEqual([3]);
  });

  it('removes nothing in a dry run, and no run that goes on', async () => {
    runs = runs.map((run, index) => (index === 1 ? { ...run, state: 'running' } : run));
    expect(await prune({ keep: 1, dryRun: true })).toMatchObject({ gone: [0, 2], left: [0, 1, 2, 3] });
    expect(await prune({ keep: 1 })).toMatchObject({ gone: [0, 2], left: [1, 3] });
  });

  it('asks the engine only for runs that may have left something with it', async () => {
    expect(await prune({ keep: 1 })).toMatchObject({ gone: [0, 1, 2], asked: 0 });
    await writeBaseline(directory, (runs[1] as Run).id, {});
    runs = runs.map((run, index) =>
      index === 2 ? { ...run, steps: run.steps.map((step) => ({ ...step, state: 'failed' })) } : run,
    );
    expect(await prune({ keep: 1 })).toMatchObject({ gone: [0, 1, 2], swept: [1, 2] });
    await expect(access(join(directory, `${(runs[1] as Run).id}.json`))).rejects.toThrow('ENOENT');
  });

  it('keeps the record of a workspace that another engine has, and says so', async () => {
    await writeBaseline(directory, (runs[0] as Run).id, {});
    const pruned = await prune({ keep: 1 }, 'other');
    expect(pruned).toMatchObject({ gone: [1, 2], swept: [], left: [0, 3] });
    expect(pruned.events).toMatchObject([
      { code: 'run-not-pruned', message: expect.stringContaining('fake') },
    ]);
    await access(join(directory, `${(runs[0] as Run).id}.json`));
  });
});
