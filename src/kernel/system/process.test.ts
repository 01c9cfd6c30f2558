import { getEventListeners } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runProcess } from './process.ts';

it('a helper gets nothing of our environment but what it needs', async () => {
  process.env.SOMEBODYS_TOKEN = 'a-secret-of-the-user';
  try {
    const { stdout } = await runProcess('env', []);
    expect(stdout.toString()).toContain('PATH=');
    expect(stdout.toString()).not.toContain('a-secret-of-the-user');
  } finally {
    delete process.env.SOMEBODYS_TOKEN;
  }
});

it('a program that is missing leaves nothing on the signal, as little as one that has ended', async () => {
  const { signal } = new AbortController();
  const listeners = () => getEventListeners(signal, 'abort').length;
  await expect(runProcess('skycap-has-no-such-program', [], { signal })).rejects.toMatchObject({
    code: 'PROGRAM_MISSING',
  });
  expect(listeners()).toBe(0);
  const running = runProcess('true', [], { signal });
  expect(listeners()).toBe(1);
  await running;
  expect(listeners()).toBe(0);
});

describe('a program that leaves another one behind, with its output open', () => {
  const leaving = ['-c', 'sleep 600 & echo $! >"$1"', 'sh'];
  let directory: string;
  let left: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'skycap-process-'));
    left = join(directory, 'pid');
  });
  afterEach(async () => {
    process.kill(Number(await readFile(left, 'utf8')), 'SIGKILL');
    await rm(directory, { recursive: true });
  });
  const written = () => expect.poll(() => readFile(left, 'utf8').catch(() => '')).toMatch(/\d\n/);

  it('is not waited for after its time', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const running = runProcess('sh', [...leaving, left], { timeoutMs: 20_000 });
      await written();
      vi.advanceTimersByTime(20_000);
      expect((await running).stderr.toString()).toBe('');
    } finally {
      vi.useRealTimers();
    }
  });

  it('is not waited for after a cancel', async () => {
    const controller = new AbortController();
    const running = runProcess('sh', [...leaving, left], { signal: controller.signal });
    running.catch(() => {});
    await written();
    controller.abort(new Error('cancelled'));
    await expect(running).rejects.toThrow('cancelled');
  });
});
