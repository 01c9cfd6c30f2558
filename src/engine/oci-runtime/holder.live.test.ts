import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore } from '../../oci/store/index.ts';
import { CaseContext } from '../contract/context.ts';
import type { Program } from '../contract/fixture.ts';
import type { Session } from '../port.ts';
import { crunFixture } from './fixture.contract.ts';
import { Holder, recordedProcess } from './holder.ts';

type Fixture = Awaited<ReturnType<typeof crunFixture>>;

function shell(script: string): Program {
  return { image: 'shell', argv: ['sh', '-c', script], fake: () => 0 };
}

/** The shell in whose mount namespace a session lives. */
function holderOf({ directories }: Fixture, session: Session): number {
  const found = recordedProcess(join(directories.runtime, session.runId, 'h0', 'holder'));
  if (found === undefined) throw new Error('the session has no holder');
  return found.pid;
}

describe('a holder on crun', () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await crunFixture();
  }, 120_000);
  afterAll(async () => {
    await fixture[Symbol.asyncDispose]();
  });

  async function failing(context: CaseContext, session: Session): Promise<void> {
    await expect(context.run(session, shell('true'))).rejects.toMatchObject({
      code: 'ENGINE_SESSION_FAILED',
      message: expect.stringContaining('the shell that holds the session'),
    });
  }

  it('that was killed between two steps fails every further one at once, and the session closes', async () => {
    await using context = new CaseContext(fixture);
    const session = await context.session();
    const ran = await context.run(session, shell('echo first'));
    process.kill(holderOf(fixture, session), 'SIGKILL');
    // The first has a root that was mounted before, the others have none.
    for (let steps = 0; steps < 3; steps += 1) await failing(context, session);
    await session.release(ran.containerId, { keep: false });
    await session.close({ keepWorkspace: false });
    expect(await context.leftovers()).toEqual([]);
  });

  it('that was killed under a step lets it end and be cancelled, and fails the next ones', async () => {
    await using context = new CaseContext(fixture);
    const session = await context.session();
    const running = context.start(session, shell('echo ready; sleep 300 & wait $!'));
    await running.said('ready');
    process.kill(holderOf(fixture, session), 'SIGKILL');
    for (let steps = 0; steps < 2; steps += 1) await failing(context, session);
    running.cancel();
    expect((await running.result).exit).toMatchObject({ cause: 'cancelled' });
    await failing(context, session);
    await session.close({ keepWorkspace: false });
    expect(await context.leftovers()).toEqual([]);
  });

  it('tells why it cannot mount, answers to unmounting, and once it has ended to whoever asks it later', async () => {
    const runFolder = mkdtempSync('/dev/shm/engine-holder-');
    try {
      const holder = Holder.start({
        runFolder,
        generation: 0,
        outputFolder: runFolder,
        stateDirectory: runFolder,
        runtime: '/usr/bin/crun',
        mountProgram: '/bin/false',
        network: false,
        onNotice: () => {},
      });
      await holder.ready;
      expect(holder.whyGone()).toBeUndefined();
      await expect(holder.mount('1', 'l/missing')).rejects.toMatchObject({
        code: 'ENGINE_SESSION_FAILED',
        message: expect.stringMatching(/^the layers could not be mounted: mount: /),
      });
      await holder.unmount(['1', '2']);
      process.kill(holder.pid, 'SIGKILL');
      await holder.end();
      const gone = { code: 'ENGINE_SESSION_FAILED', message: expect.stringContaining('ended with 137') };
      expect(holder.whyGone()).toMatchObject(gone);
      await expect(holder.mount('1', 'l/empty')).rejects.toMatchObject(gone);
      await expect(holder.mountImage('1', '/image')).rejects.toMatchObject(gone);
      // Its mounts are gone, which is what these ask for.
      await holder.unmount(['1']);
      await holder.drop(['1', '2']);
    } finally {
      rmSync(runFolder, { recursive: true });
    }
  });

  it('that answers late does not keep a step from being cancelled', async () => {
    await using context = new CaseContext(fixture);
    const session = await context.session();
    await context.run(session, shell('true'));
    const holder = holderOf(fixture, session);
    process.kill(holder, 'SIGSTOP');
    try {
      const first = context.start(session, shell('echo went on'));
      // There is no root for it before the holder answers.
      const second = context.start(session, shell('true'));
      second.cancel();
      const { containerId, exit } = await second.result;
      expect(exit).toMatchObject({ exitCode: 143, cause: 'cancelled' });
      expect(await session.release(containerId, { keep: false })).toBeUndefined();
      process.kill(holder, 'SIGCONT');
      expect((await first.result).stdout).toBe('went on\n');
    } finally {
      process.kill(holder, 'SIGCONT');
    }
    await session.close({ keepWorkspace: false });
    expect(await context.leftovers()).toEqual([]);
  });
});

describe('the layers of a run on crun', () => {
  it('are kept when its tool was killed, and again by whoever takes it over, whatever is pruned', async () => {
    await using fixture = await crunFixture();
    await using store = await openStore({ directory: fixture.directories.store });
    await using context = new CaseContext(fixture);
    const spec = context.spec();
    const run = context.container(shell('echo ready; sleep 300 & wait $!'));
    await fixture.orphan(spec, run);
    const folder = join(fixture.directories.store, 'leases');
    const leases = (): { file: string; expires: number }[] =>
      readdirSync(folder)
        .map((name) => join(folder, name))
        .map((file) => ({ file, ...JSON.parse(readFileSync(file, 'utf8')) }))
        .filter(({ name }) => name === `run-${spec.runId}`);
    expect(leases()).toHaveLength(1);
    for (const lease of leases()) {
      expect(lease.expires).toBeGreaterThan(Date.now() + 29 * 86_400_000);
      // As if all that time were over.
      writeFileSync(lease.file, JSON.stringify({ ...lease, expires: 1 }));
    }

    const session = await fixture.engine.adopt(spec.runId, context.operation);
    if (session === undefined) throw new Error('nothing to adopt');
    for (const { reference } of await store.list()) await store.untag(reference);
    await store.prune({ olderThanMs: 0, keep: [] });
    const running = context.attach(session, run.containerId);
    await running.said('ready');
    expect((await context.run(session, shell('echo on'))).stdout).toBe('on\n');
    running.cancel();
    await running.result;
    await session.close({ keepWorkspace: false });
    expect(leases()).toEqual([]);
  });
});
