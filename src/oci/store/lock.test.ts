import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { acquireLock, type Lock, lockNew, tryLock } from './lock.ts';

/** How long each wait was to be; `after` is called instead of waiting. */
const waits = vi.hoisted(() => ({ asked: [] as number[], after: (): void => {} }));
vi.mock('node:timers/promises', () => ({
  setTimeout: async (pause: number, _value: undefined, { signal }: { signal: AbortSignal }) => {
    waits.asked.push(pause);
    waits.after();
    if (signal.aborted) throw signal.reason;
  },
}));

const NEVER = new AbortController().signal;
let directory: string;
let path: string;
let held: Lock | undefined;
let clock: number;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-lock-'));
  path = join(directory, 'lock');
  held = tryLock(path);
  waits.asked = [];
  waits.after = () => {};
  clock = 1_000_000;
  vi.spyOn(performance, 'now').mockImplementation(() => clock);
  vi.spyOn(Math, 'random').mockReturnValue(0.5);
});
afterEach(async () => {
  vi.restoreAllMocks();
  held?.[Symbol.dispose]();
  await rm(directory, { recursive: true, force: true });
});

it('is asked for often at first, then less, but not less often than every 40 to 80 ms', async () => {
  waits.after = () => waits.asked.length === 12 && held?.[Symbol.dispose]();
  using lock = await acquireLock(path, { signal: NEVER });
  expect(lock.path).toBe(path);
  const pauses = [2, 3, 4.5, 6.75, 10.125, 15.1875, 22.78125, 34.171875, 40, 40, 40, 40];
  expect(waits.asked).toEqual(pauses.map((pause) => pause * 1.5));
});

it('is waited for as long as the time given, and not longer', async () => {
  const times = [1, 30_000, 30_001, 30_002];
  waits.after = () => {
    clock = 1_000_000 + (times.shift() ?? 0);
  };
  await expect(acquireLock(path, { signal: NEVER, timeoutMs: 30_000 })).rejects.toMatchObject({
    code: 'OCI_STORE_BUSY',
    message: `the store is locked by another process (${path})`,
    hint: 'wait for the other command, or end it if it hangs',
  });
  expect(waits.asked).toHaveLength(3);
});

it('without a time is waited for until the user stops it, and then at once', async () => {
  const stop = new AbortController();
  waits.after = () => {
    clock += 1e9;
    if (waits.asked.length === 4) stop.abort();
  };
  await expect(acquireLock(path, { signal: stop.signal })).rejects.toMatchObject({
    code: 'CANCELLED',
    message: 'cancelled while waiting for the store',
  });
  expect(waits.asked).toHaveLength(4);
});

it('that is free is not taken by one who was stopped', async () => {
  held?.[Symbol.dispose]();
  await expect(acquireLock(path, { signal: AbortSignal.abort() })).rejects.toMatchObject({
    code: 'CANCELLED',
  });
  using lock = tryLock(path);
  expect(lock).toBeDefined();
  expect(waits.asked).toEqual([]);
});

it('that is taken keeps no file open, and leaves none beside its own', async () => {
  const open = async (): Promise<number> => (await readdir('/proc/self/fd')).length;
  const before = await open();
  for (let index = 0; index < 20; index++) expect(tryLock(path)).toBeUndefined();
  expect(await open()).toBeLessThan(before + 10);
  expect(await readdir(directory)).toEqual(['lock']);
});

it('of a new name that cannot be made says so', async () => {
  await mkdir(join(directory, 'locks'));
  const { name, lock } = lockNew(join(directory, 'locks'), 'holder');
  expect(name).toMatch(/^holder-[0-9a-f-]{36}$/);
  expect(lock.path).toBe(join(directory, 'locks', name));
  expect(await readdir(join(directory, 'locks'))).toEqual([name]);
  lock[Symbol.dispose]();
  expect(() => lockNew(join(directory, 'none'), 'spool')).toThrow(
    /^the store cannot be locked: unable to open/,
  );
});
