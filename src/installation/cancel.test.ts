import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import type { LiveHolder, Run } from '../state/index.ts';
import { type CancelDeps, cancelRun } from './cancel.ts';
import type { TakeOverDeps } from './takeover.ts';

const RUN = { id: 'one', namespace: '', installation: 'busy', state: 'running' } as Run;
const holderOf = (runId: string, pid: number): LiveHolder => ({
  runId,
  action: 'look',
  host: hostname(),
  pid,
  startTime: `${pid}0`,
  isStopped: false,
});
const FORCE = { kill: false, force: true, wait: true };
const TERM = { kill: false, force: false, wait: false };

/** Whoever holds the lock can be changed while the engine is reached; a signal finds only who still does. */
function machine(...first: LiveHolder[]) {
  const world = {
    holders: first,
    run: RUN,
    isOurs: true,
    sent: [] as string[],
    meanwhile: () => {},
  };
  const state = {
    holders: async () => world.holders,
    lock: async () => ({ mode: 'exclusive', [Symbol.asyncDispose]: async () => {} }),
    getRun: async () => world.run,
    getInstallation: async () => undefined,
  } as unknown as CancelDeps['state'];
  const deps: CancelDeps = {
    state,
    sendSignal({ pid, startTime }, signal) {
      if (!world.isOurs || !world.holders.some((one) => one.pid === pid && one.startTime === startTime))
        return false;
      world.sent.push(`${signal} ${pid}`);
      return true;
    },
    emit: () => {},
    signal: new AbortController().signal,
    async takeOver() {
      world.meanwhile();
      return { state, emit: () => {}, signal: deps.signal } as unknown as TakeOverDeps;
    },
  };
  return { world, cancel: (options: typeof FORCE) => cancelRun(RUN, deps, options) };
}

describe('run cancel', () => {
  it('kills nobody where the process ended while the engine was reached', async () => {
    const { world, cancel } = machine(holderOf('one', 7));
    world.meanwhile = () => {
      world.holders = [];
      world.run = { ...RUN, state: 'succeeded' };
    };
    expect(await cancel(FORCE)).toEqual({ run: world.run });
    expect(world.sent).toEqual([]);
  });

  it('kills the process that holds the lock, by its start time, too', async () => {
    const { world, cancel } = machine(holderOf('one', 7));
    expect(await cancel(FORCE)).toMatchObject({ pid: 7 });
    expect(world.sent).toEqual(['SIGKILL 7']);
  });

  it('kills nothing where another run shares the installation, at first or meanwhile', async () => {
    const early = machine(holderOf('one', 7), holderOf('two', 8));
    const late = machine(holderOf('one', 7));
    late.world.meanwhile = () => late.world.holders.push(holderOf('two', 8));
    for (const { world, cancel } of [early, late]) {
      await expect(cancel(FORCE)).rejects.toMatchObject({
        code: 'STATE_LOCKED',
        message: expect.stringContaining('run two (look) by process 8'),
        hint: expect.stringContaining('skycap run cancel two'),
      });
      expect(world.sent).toEqual([]);
    }
  });

  it('says that the process is gone, or that the run has ended, where it ends before the signal', async () => {
    for (const [state, said] of [
      ['running', 'is gone'],
      ['succeeded', 'has ended already (succeeded)'],
    ] as const) {
      const { world, cancel } = machine();
      world.run = { ...RUN, state };
      let looks = 0;
      // There at the first look, and gone when the signal is sent.
      Object.defineProperty(world, 'holders', { get: () => (looks++ === 0 ? [holderOf('one', 7)] : []) });
      await expect(cancel(TERM)).rejects.toMatchObject({
        code: 'USAGE',
        message: expect.stringContaining(said),
      });
    }
  });

  it("says that another user's process takes no signal", async () => {
    for (const options of [TERM, FORCE]) {
      const { world, cancel } = machine(holderOf('one', 7));
      world.isOurs = false;
      await expect(cancel(options)).rejects.toMatchObject({
        code: 'USAGE',
        message: expect.stringContaining('takes no signal'),
      });
    }
  });
});
