import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { openState } from '../index.ts';
import type { ManagedStateStore } from '../port.ts';

const CHILD = fileURLToPath(new URL('child.fixture.ts', import.meta.url));
const KEY = { namespace: 'dev', name: 'app' };
const HOLDER = { runId: 'run-of-test', action: 'install' };

let directory: string;
let store: ManagedStateStore;
let orphans: number[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-lock-'));
  store = await openState({ directory });
});
afterEach(async () => {
  for (const pid of orphans) process.kill(pid, 'SIGKILL');
  orphans = [];
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

function start(command: string, argument = ''): { child: ChildProcess; lines: AsyncIterator<string> } {
  const child = spawn(process.execPath, ['--no-warnings', CHILD, command, directory, argument], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  return { child, lines: createInterface({ input: child.stdout! })[Symbol.asyncIterator]() };
}

async function startHolder(mode: 'exclusive' | 'shared'): Promise<ChildProcess> {
  const { child, lines } = start('hold', mode);
  const line = (await lines.next()).value as string;
  orphans.push(Number(line.split(' ')[1]));
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

describe('the installation lock', () => {
  it('names run, action, host and process of a holder in another process', async () => {
    const child = await startHolder('exclusive');
    const failure = await store.lock(KEY, 'exclusive', HOLDER).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: 'STATE_LOCKED',
      exitCode: 61,
      details: { runId: 'run-of-child', action: 'upgrade', pid: child.pid, mode: 'exclusive' },
    });
    const { hostname } = await import('node:os');
    expect((failure as Error).message).toContain(hostname());
    expect((failure as Error).message).toContain(`process ${child.pid}`);
    await expect(store.lock(KEY, 'shared', HOLDER)).rejects.toMatchObject({ code: 'STATE_LOCKED' });
    await kill(child);
  });

  it('is free as soon as its holder is killed, although a child of the holder lives on', async () => {
    for (const mode of ['exclusive', 'shared'] as const) {
      const child = await startHolder(mode);
      await kill(child);
      const lock = await store.lock(KEY, 'exclusive', HOLDER);
      await lock[Symbol.asyncDispose]();
    }
  });

  it('is shared by actions that modify nothing, and names one of those that still live', async () => {
    const dead = await startHolder('shared');
    const living = await startHolder('shared');
    const mine = await store.lock(KEY, 'shared', HOLDER);
    await mine[Symbol.asyncDispose]();
    await kill(dead);
    await expect(store.lock(KEY, 'exclusive', HOLDER)).rejects.toMatchObject({
      code: 'STATE_LOCKED',
      details: { pid: living.pid, mode: 'shared' },
    });
    await kill(living);
    await using _lock = await store.lock(KEY, 'exclusive', HOLDER);
  });

  it('forgets the names of the dead, and is given up only once', async () => {
    await kill(await startHolder('exclusive'));
    const lock = await store.lock(KEY, 'exclusive', HOLDER);
    const folders = (await readdir(join(directory, 'locks'))).filter((name) => name.endsWith('.holders'));
    expect(folders).toHaveLength(1);
    expect(await readdir(join(directory, 'locks', folders[0]!))).toHaveLength(1);
    await lock[Symbol.asyncDispose]();
    await lock[Symbol.asyncDispose]();
    expect(await readdir(join(directory, 'locks', folders[0]!))).toEqual([]);
  });

  it('keeps installations of any name apart and inside its folder', async () => {
    const names = ['../../etc/passwd', 'a/b', 'a_b', '.', '', 'x'.repeat(300), 'ü'];
    const locks = [];
    for (const name of names) locks.push(await store.lock({ namespace: 'n', name }, 'exclusive', HOLDER));
    locks.push(await store.lock({ namespace: 'n/a', name: 'b' }, 'exclusive', HOLDER));
    for (const name of await readdir(join(directory, 'locks'))) {
      const { mode } = await stat(join(directory, 'locks', name));
      expect(mode & 0o077).toBe(0);
    }
    for (const lock of locks) await lock[Symbol.asyncDispose]();
  });

  it('lets one of eight processes in at a time, some of them killed inside', async () => {
    const racers = Array.from({ length: 8 }, () => start('race', '12'));
    const seen: string[] = [];
    await Promise.all(
      racers.map(async ({ child, lines }, index) => {
        const gone = once(child, 'exit');
        for (let count = 0; ; count++) {
          const next = await lines.next();
          if (next.done === true) break;
          seen.push(next.value);
          // It said so from inside the critical section.
          if (index < 3 && count === 3) child.kill('SIGKILL');
        }
        await gone;
      }),
    );
    expect(seen.filter((line) => line !== 'entered')).toEqual([]);
    expect(seen.length).toBeGreaterThanOrEqual(5 * 12 + 3 * 4);
    await using _lock = await store.lock(KEY, 'exclusive', HOLDER);
  });
});
