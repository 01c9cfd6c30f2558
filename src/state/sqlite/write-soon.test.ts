import { mkdtempSync, rmSync } from 'node:fs';
import type * as promises from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openState } from '../index.ts';
import type { ManagedStateStore, StepRecord } from '../port.ts';
import { Database } from './database.ts';
import { anInstallation, aRun, aStep } from './samples.fixture.ts';

/** Files that were brought to the disk beside SQLite's own ways. */
const synced = vi.hoisted(() => [] as string[]);
vi.mock(import('node:fs/promises'), async (original) => {
  const real = await original();
  const open: typeof promises.open = async (path, ...rest) => {
    const handle = await real.open(path, ...rest);
    const datasync = handle.datasync.bind(handle);
    handle.datasync = async () => {
      await datasync();
      synced.push(String(path));
    };
    return handle;
  };
  return { ...real, open };
});

const FULL = 2;
const NORMAL = 1;

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'skycap-database-'));
  synced.length = 0;
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  rmSync(directory, { recursive: true, force: true });
});

const level = (db: Database): unknown => db.get('PRAGMA synchronous')?.synchronous;

describe('a commit that the disk may have soon', () => {
  let db: Database;
  beforeEach(() => {
    db = new Database(join(directory, 'a.db'));
    db.script('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (a)');
  });
  afterEach(() => db.close());

  const insert = (value: number) => (on: Database) => {
    on.run('INSERT INTO t VALUES (?)', value);
    return level(on);
  };

  it('is made without waiting for it, every other one with', async () => {
    expect(await db.write(insert(1))).toBe(FULL);
    expect(await db.writeSoon(insert(2))).toBe(NORMAL);
    await expect(
      db.writeSoon((on) => {
        insert(3)(on);
        throw new Error('no');
      }),
    ).rejects.toThrow('no');
    expect(await db.write(insert(4))).toBe(FULL);
    expect(db.all('SELECT a FROM t').map(({ a }) => a)).toEqual([1, 2, 4]);
  });

  it('is brought to it a moment later, once for several', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await Promise.all([db.writeSoon(insert(1)), db.writeSoon(insert(2))]);
    expect(synced).toEqual([]);
    vi.advanceTimersByTime(50);
    await vi.waitFor(() => expect(synced).toEqual([`${db.path}-wal`]));
    vi.advanceTimersByTime(500);
    expect(synced).toHaveLength(1);
  });

  it('is brought to it by the next one that waits', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await db.writeSoon(insert(1));
    await db.write(insert(2));
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is not brought to it by one that changes nothing', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await db.writeSoon(insert(1));
    await db.write((on) => on.run('DELETE FROM t WHERE a = 7'));
    vi.advanceTimersByTime(50);
    await vi.waitFor(() => expect(synced).toHaveLength(1));
  });

  it('is waited for where that goes on while the database is closed', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await db.writeSoon(insert(1));
    vi.advanceTimersByTime(50);
    await db.close();
    expect(synced).toHaveLength(1);
  });

  it('is brought to it before the database is closed', async () => {
    await db.writeSoon(insert(1));
    await db.close();
    expect(synced).toEqual([`${db.path}-wal`]);
  });
});

describe('the record of a step', () => {
  let state: ManagedStateStore;
  beforeEach(async () => {
    state = await openState({ directory: join(directory, 'state') });
  });
  afterEach(() => state[Symbol.asyncDispose]());

  it('is on the disk before its container starts, and soon after it ended', async () => {
    const soon = vi.spyOn(Database.prototype, 'writeSoon');
    const now = vi.spyOn(Database.prototype, 'write');
    const run = aRun('R1', { steps: [aStep('a', 0)] });
    await state.putInstallation(anInstallation('app'));
    await state.putRun(run);
    now.mockClear();
    const step = run.steps[0] as StepRecord;
    const intent = {
      namespace: run.namespace,
      name: run.installation,
      runId: run.id,
      stepId: step.id,
      attempt: 1,
      containerId: 'c1',
      engine: 'fake',
      created: run.created,
    };
    await state.putStep(run.id, { ...step, state: 'running' }, { intent });
    expect([now.mock.calls.length, soon.mock.calls.length]).toEqual([1, 0]);
    await state.putStep(run.id, { ...step, state: 'succeeded' }, { ended: 'c1' });
    expect([now.mock.calls.length, soon.mock.calls.length]).toEqual([1, 1]);
    await state.putStep(run.id, { ...step, state: 'skipped' });
    await state.putStep(run.id, { ...step, state: 'running' }, { intent, ended: 'c1' });
    expect([now.mock.calls.length, soon.mock.calls.length]).toEqual([3, 1]);
  });
});
