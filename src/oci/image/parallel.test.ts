import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { eachLimited } from './parallel.ts';

describe('eachLimited', () => {
  it('runs so many at a time, all of them, in order of start', async () => {
    const begun: number[] = [];
    let now = 0;
    let most = 0;
    const { signal } = new AbortController();
    await eachLimited([1, 2, 3, 4, 5], { limit: 2, signal }, async (item) => {
      begun.push(item);
      most = Math.max(most, ++now);
      await Promise.resolve();
      now -= 1;
    });
    expect(begun).toEqual([1, 2, 3, 4, 5]);
    expect(most).toBe(2);
    await eachLimited([], { limit: 2, signal }, async () => {
      throw new Error('of nothing');
    });
  });

  it('the first fault stops the rest, and is thrown when they have ended', async () => {
    const begun: string[] = [];
    const ended: string[] = [];
    const fault = new Error('first');
    const { signal } = new AbortController();
    const work = eachLimited(['slow', 'bad', 'never'], { limit: 2, signal }, async (item, stopped) => {
      begun.push(item);
      if (item === 'bad') throw fault;
      await once(stopped, 'abort');
      await Promise.resolve();
      ended.push(item);
      throw new Error('stopped');
    });
    await expect(work).rejects.toBe(fault);
    expect(begun).toEqual(['slow', 'bad']);
    expect(ended).toEqual(['slow']);
  });

  it("the caller's signal reaches the work", async () => {
    const stop = new AbortController();
    const work = eachLimited(['a'], { limit: 1, signal: stop.signal }, async (_item, signal) => {
      stop.abort(new Error('enough'));
      signal.throwIfAborted();
    });
    await expect(work).rejects.toThrow('enough');
  });
});
