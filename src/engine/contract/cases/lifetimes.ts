import { randomInt } from 'node:crypto';
import { expect } from 'vitest';
import { type ContractCase, contractCase } from '../case.ts';
import { exits, reads, sh, stubborn, waits, writes } from '../programs.ts';

/** Counts its starts in the workspace, says two words with a pause between them, and ends with 6. */
const slow = sh(
  'echo start >>starts; echo one; echo err >&2; sleep 1.5; echo two; printf x >outputs/x; exit 6',
  async (p) => {
    p.files.write('starts', `${p.files.exists('starts') ? p.files.text('starts') : ''}start\n`);
    p.stdout('one\n');
    p.stderr('err\n');
    await p.sleep(150);
    p.stdout('two\n');
    p.files.write('outputs/x', 'x');
    return 6;
  },
);

export const lifetimeCases: readonly ContractCase[] = [
  contractCase('timeout-term', 'a timeout ends the container with TERM', async (context) => {
    const ran = await context.run(await context.session(), waits, { timeoutMs: 3000 });
    expect(ran.exit).toMatchObject({ exitCode: 143, cause: 'timeout' });
    expect(ran.stdout).toBe('ready\n');
  }),
  contractCase('timeout-kill', 'who ignores TERM is killed after the grace time', async (context) => {
    const ran = await context.run(await context.session(), stubborn, { timeoutMs: 3000, graceMs: 300 });
    expect(ran.exit).toMatchObject({ exitCode: 137, cause: 'timeout' });
  }),
  contractCase(
    'cancel-once',
    'the first cancellation is TERM, and the container may tidy up',
    async (context) => {
      const session = await context.session();
      const running = context.start(
        session,
        sh('trap "echo bye; exit 5" TERM; echo ready; while :; do sleep 0.05; done', async (p) => {
          const { promise, resolve } = Promise.withResolvers<number>();
          p.onTerm(() => {
            p.stdout('bye\n');
            resolve(5);
          });
          p.stdout('ready\n');
          return await promise;
        }),
      );
      await running.said('ready');
      running.cancel();
      const ran = await running.result;
      expect(ran.exit).toMatchObject({ exitCode: 5, cause: 'cancelled' });
      expect(ran.stdout).toBe('ready\nbye\n');
    },
  ),
  contractCase('cancel-default', 'without a handler it ends with 143', async (context) => {
    const running = context.start(await context.session(), waits);
    await running.said('ready');
    running.cancel();
    expect((await running.result).exit).toMatchObject({ exitCode: 143, cause: 'cancelled' });
  }),
  contractCase(
    'cancel-grace',
    'who ignores the first cancellation is killed after the grace time',
    async (context) => {
      const running = context.start(await context.session(), stubborn, { graceMs: 300 });
      await running.said('ready');
      running.cancel();
      expect((await running.result).exit).toMatchObject({ exitCode: 137, cause: 'cancelled' });
    },
  ),
  contractCase('cancel-twice', 'the second cancellation kills at once', async (context) => {
    const running = context.start(await context.session(), stubborn, { graceMs: 600_000 });
    await running.said('ready');
    running.cancel();
    running.kill();
    expect((await running.result).exit).toMatchObject({ exitCode: 137, cause: 'cancelled' });
  }),
  contractCase('grandchildren', 'double-forked children are gone when the container is', async (context) => {
    const session = await context.session();
    // As no other suite does meanwhile.
    const sleeps = `sleep 302.${randomInt(1e9)}`;
    const ran = await context.run(
      session,
      sh(`(setsid ${sleeps} &) ; (${sleeps} & ${sleeps} &) ; echo x; exit 0`, (p) => p.stdout('x\n')),
    );
    expect(ran.exit.exitCode).toBe(0);
    const running = context.start(
      session,
      sh(`(setsid ${sleeps} &) ; echo ready; ${sleeps}`, async (p) => {
        p.stdout('ready\n');
        await p.sleep(302_000);
      }),
    );
    await running.said('ready');
    running.kill();
    await running.result;
    expect(await processesWith(sleeps.replace(' ', '\0'))).toEqual([]);
  }),
  contractCase(
    'orphan-attach',
    'a container survives its creator’s kill -9; exit code, output and outputs are complete, and it ran once',
    async (context) => {
      const spec = context.spec();
      const run = context.container(slow);
      await context.fixture.orphan(spec, run);
      const session = await context.fixture.engine.adopt(spec.runId, context.operation);
      expect(session?.runId).toBe(spec.runId);
      if (session === undefined) return;
      const ran = await context.attach(session, run.containerId).result;
      expect(ran.exit).toMatchObject({ exitCode: 6, cause: 'exited' });
      expect([ran.stdout, ran.stderr]).toEqual(['one\ntwo\n', 'err\n']);
      expect((await context.collect(session, ran)).map((file) => String(file.content))).toEqual(['x']);
      expect(await context.files(session, ['starts'])).toEqual({ starts: 'start\n' });
      await session.release(run.containerId, { keep: false });
      await session.close({ keepWorkspace: false });
    },
  ),
  contractCase(
    'orphan-ended',
    'a container that ended while nobody watched tells its end, twice if asked',
    async (context) => {
      const spec = context.spec();
      const run = context.container(slow);
      await context.fixture.orphan(spec, run);
      const session = await context.fixture.engine.adopt(spec.runId, context.operation);
      if (session === undefined) throw new Error('nothing to adopt');
      const first = await context.attach(session, run.containerId).result;
      const second = await context.attach(session, run.containerId).result;
      expect([second.exit.exitCode, second.stdout]).toEqual([first.exit.exitCode, first.stdout]);
    },
  ),
  contractCase('orphan-cancel', 'an adopted container can be cancelled', async (context) => {
    const spec = context.spec();
    const run = context.container(waits);
    await context.fixture.orphan(spec, run);
    const session = await context.fixture.engine.adopt(spec.runId, context.operation);
    if (session === undefined) throw new Error('nothing to adopt');
    const running = context.attach(session, run.containerId);
    await running.said('ready');
    running.cancel();
    expect((await running.result).exit).toMatchObject({ exitCode: 143, cause: 'cancelled' });
  }),
  contractCase('orphan-timeout', 'a timeout is kept though the creator is gone', async (context) => {
    const spec = context.spec();
    const run = context.container(waits, { timeoutMs: 2000 });
    await context.fixture.orphan(spec, run);
    const session = await context.fixture.engine.adopt(spec.runId, context.operation);
    if (session === undefined) throw new Error('nothing to adopt');
    expect((await context.attach(session, run.containerId).result).exit).toMatchObject({
      exitCode: 143,
      cause: 'timeout',
    });
  }),
  contractCase(
    'orphan-goes-on',
    'an adopted session runs further containers in the same workspace',
    async (context) => {
      const spec = context.spec();
      const run = context.container(slow);
      await context.fixture.orphan(spec, run);
      const session = await context.fixture.engine.adopt(spec.runId, context.operation);
      if (session === undefined) throw new Error('nothing to adopt');
      await context.attach(session, run.containerId).result;
      expect((await context.run(session, reads('starts'))).stdout).toBe('start\n');
    },
  ),
  contractCase('attach-unknown', 'a container that never started cannot be attached to', async (context) => {
    const session = await context.session();
    const io = {
      onOutput: () => {},
      signal: new AbortController().signal,
      kill: new AbortController().signal,
    };
    expect(await session.attach('never-started', io)).toBeUndefined();
    await expect(context.collect(session, { containerId: 'never-started' })).rejects.toMatchObject({
      code: 'ENGINE_CONTAINER_UNKNOWN',
    });
    expect(await session.release('never-started', { keep: false })).toBeUndefined();
  }),
  contractCase(
    'cancel-before',
    'an exit, also of a container that was cancelled before its start, can be collected (nothing) and released',
    async (context) => {
      const session = await context.session();
      const [now, later] = [AbortSignal.abort(), new AbortController().signal];
      for (const [signal, kill] of [
        [now, later],
        [now, now],
      ] as const) {
        const run = context.container(writes('outputs/x', 'x'));
        let seen = 0;
        const onOutput = (): void => {
          seen += 1;
        };
        const exit = await session.run(run, { onOutput, onStarted: onOutput, signal, kill });
        expect(exit).toMatchObject({ exitCode: 143, cause: 'cancelled' });
        expect(seen).toBe(0);
        expect(await context.collect(session, run)).toEqual([]);
        expect(await session.release(run.containerId, { keep: false })).toBeUndefined();
        expect(await session.release(run.containerId, { keep: true })).toBeUndefined();
      }
      // The session goes on.
      const ran = await context.run(session, writes('outputs/x', 'x'));
      expect((await context.collect(session, ran)).map((file) => String(file.content))).toEqual(['x']);
      await session.release(ran.containerId, { keep: false });
      expect(await session.release(ran.containerId, { keep: false })).toBeUndefined();
      await session.close({ keepWorkspace: false });
    },
  ),
  contractCase('adopt-unknown', 'a run of which nothing is left cannot be adopted', async (context) => {
    const session = await context.session();
    await context.run(session, exits(0));
    await session.close({ keepWorkspace: false });
    expect(await context.fixture.engine.adopt(session.runId, context.operation)).toBeUndefined();
    expect(await context.fixture.engine.adopt('never-was', context.operation)).toBeUndefined();
  }),
  contractCase('sweep', 'a sweep stops and removes all that a dead run left', async (context) => {
    const spec = context.spec();
    const run = context.container(waits);
    await context.fixture.orphan(spec, run);
    await context.fixture.engine.sweep(spec.runId, context.operation);
    expect(await context.fixture.engine.adopt(spec.runId, context.operation)).toBeUndefined();
    expect(await context.leftovers()).toEqual([]);
    await context.fixture.engine.sweep(spec.runId, context.operation);
  }),
  contractCase('open-twice', 'a run has one session', async (context) => {
    const spec = context.spec();
    await context.fixture.engine.open(spec, context.operation);
    await expect(context.fixture.engine.open(spec, context.operation)).rejects.toMatchObject({
      code: 'ENGINE_SESSION_FAILED',
    });
  }),
  contractCase(
    'keep',
    'a kept container says how to open a shell in it, and a sweep removes it',
    async (context) => {
      const session = await context.session();
      const ran = await context.run(session, writes('/tmp/x', 'kept'));
      const kept = await session.release(ran.containerId, { keep: true });
      expect(kept?.containerId).toBe(ran.containerId);
      expect(kept?.shell.length).toBeGreaterThan(0);
      await session.close({ keepWorkspace: false });
    },
  ),
  contractCase('close-running', 'closing a session ends what still runs in it', async (context) => {
    const session = await context.session();
    const running = context.start(session, stubborn, { graceMs: 600_000 });
    await running.said('ready');
    await session.close({ keepWorkspace: false });
    await running.result.catch(() => {});
    expect(await context.leftovers()).toEqual([]);
  }),
  contractCase('network-none', 'without a network there is only the loopback', async (context) => {
    const ran = await context.run(
      await context.session(),
      sh(
        'cat /proc/net/route | tail -n +2; ping -c1 -W1 127.0.0.1 >/dev/null 2>&1 || nc -l -p 9 127.0.0.1 & ip -o addr show lo | grep -c 127.0.0.1',
        (p) => p.stdout('1\n'),
      ),
    );
    expect(ran.stdout).toBe('1\n');
  }),
  contractCase('network-default', 'with one there is a way out', async (context) => {
    const ran = await context.run(
      await context.session({ network: true }),
      sh('ip route | grep -c ^default', (p) => p.stdout('1\n')),
      { network: 'default' },
    );
    expect(ran.stdout).toBe('1\n');
  }),
  contractCase('limit-pids', 'a limit on processes holds', async (context) => {
    const ran = await context.run(
      await context.session(),
      sh('i=0; while [ $i -lt 60 ]; do sleep 303 & i=$((i+1)); done; echo all', (p) => {
        p.stdout('all\n');
      }),
      { resources: { pids: 20 } },
    );
    expect(ran.stdout).toBe('');
    expect(ran.exit.exitCode).not.toBe(0);
  }),
  contractCase('limit-memory', 'a limit on memory holds, and the cause says so', async (context) => {
    const ran = await context.run(
      await context.session(),
      { image: 'shell', argv: ['tail', '/dev/zero'], fake: () => 0 },
      { resources: { memoryBytes: 32 << 20 } },
    );
    expect(ran.exit).toMatchObject({ exitCode: 137, cause: 'oom' });
  }),
];

/** Command lines on this host that contain the text, arguments ending with NUL as in /proc. */
async function processesWith(text: string): Promise<readonly string[]> {
  const { readdirSync, readFileSync } = await import('node:fs');
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(text);
    } catch {
      return false;
    }
  });
}
