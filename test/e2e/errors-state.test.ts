import {
  chmodSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeGate } from '../../src/testkit/gate.ts';
import { enginesToTest } from '../support/engines.ts';
import { expectRefused } from '../support/refused.ts';
import { expectCode, makeWorld, type Ran, type Running, type World } from '../support/world.ts';

describe.each(enginesToTest('oci-runtime'))('records that cannot be used, on %s', (engine) => {
  let world: World;
  let cwd: string;
  let folder: string;
  let database: string;
  /** In a folder of its own, kept from its database for as long as it waits. */
  let kept: { readonly running: Running; readonly file: string; release(): void };

  beforeAll(async () => {
    world = await makeWorld(engine);
    const tools = await world.image('acme/tools:1');
    cwd = world.bundle({
      'porter.yaml': `name: kept
version: 1.0.0
invocationImages:
  - {name: tools, image: "${tools}"}
parameters:
  - {name: seconds, env: SECONDS_, type: number, default: 0}
outputs:
  - {name: open, type: string}
  - {name: secret, type: string, sensitive: true}
install:
  - id: only
    description: Only
    invoke: {name: tools, action: {run: 'echo waiting; sleep "$SECONDS_" || :; for o in open secret; do echo $o > outputs/$o; done'}}
`,
    });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    expectCode(await world.skycap(['install'], { cwd }), 0);
    folder = join(world.env.XDG_DATA_HOME as string, 'skycap/state');
    database = join(folder, 'state.db');
    kept = await keepBusy();
  });
  afterAll(async () => {
    kept?.release();
    await world?.[Symbol.asyncDispose]();
  });

  async function keepBusy(): Promise<typeof kept> {
    const env = { SKYCAP_STATE_DIRECTORY: join(world.directory, 'busy') };
    expectCode(await world.skycap(['list'], { env }), 0);
    const file = join(env.SKYCAP_STATE_DIRECTORY, 'state.db');
    const state = new DatabaseSync(file);
    state.exec('PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE');
    const running = world.start(['list'], { env });
    return { running, file, release: () => state.isOpen && state.close() };
  }

  const show = (name = 'open'): Promise<Ran> => world.skycap(['output', 'show', name, '-i', 'kept']);

  /** With the database changed, which has to be as it was changed afterwards. */
  async function changed(change: () => void, check: () => Promise<void>): Promise<void> {
    sql('PRAGMA wal_checkpoint(TRUNCATE)');
    const before = readFileSync(database);
    try {
      change();
      const now = readFileSync(database);
      await check();
      expect(readFileSync(database).equals(now)).toBe(true);
    } finally {
      for (const rest of ['-wal', '-shm']) rmSync(`${database}${rest}`, { force: true });
      writeFileSync(database, before);
    }
    expect(expectCode(await show(), 0).stdout).toBe('open\n');
  }

  function sql(statement: string): void {
    using state = new DatabaseSync(database);
    state.exec(`${statement}; PRAGMA wal_checkpoint(TRUNCATE)`);
  }

  /** Every command that would read or write it. */
  async function refusedByAll(code: string, exit: number, says: readonly string[]): Promise<void> {
    for (const args of [['list'], ['install', 'new'], ['run', 'list']])
      expectRefused(await world.skycap(args, { cwd }), { code, exit, says });
  }

  it('STATE_FUTURE a database of a newer version', () =>
    changed(
      () => sql('PRAGMA user_version = 99'),
      () => refusedByAll('STATE_FUTURE', 63, [database, '99']),
    ));

  it('STATE_FOREIGN a database of another program', () =>
    changed(
      () => sql('PRAGMA application_id = 77'),
      () => refusedByAll('STATE_FOREIGN', 64, [database]),
    ));

  it('STATE_CORRUPT a database that is damaged', () =>
    changed(
      () => writeFileSync(database, readFileSync(database).fill(0xff, 4096)),
      () => refusedByAll('STATE_CORRUPT', 64, [database, 'damaged']),
    ));

  it('STATE_CORRUPT a database that is empty and is not new', () =>
    changed(
      () => truncateSync(database),
      async () => {
        await refusedByAll('STATE_CORRUPT', 64, [database, 'empty']);
        expect(statSync(database).size).toBe(0);
      },
    ));

  it('STATE_UNREADABLE a folder in place of the database', async () => {
    const directory = join(world.directory, 'unreadable');
    mkdirSync(join(directory, 'state.db'), { recursive: true, mode: 0o700 });
    expectRefused(await world.skycap(['list'], { env: { SKYCAP_STATE_DIRECTORY: directory } }), {
      code: 'STATE_UNREADABLE',
      exit: 60,
      says: [join(directory, 'state.db')],
    });
  });

  it('STATE_PERMISSIONS a folder that cannot be made', async () => {
    expectRefused(await world.skycap(['list'], { env: { SKYCAP_STATE_DIRECTORY: '/dev/null/state' } }), {
      code: 'STATE_PERMISSIONS',
      exit: 60,
      says: ['/dev/null/state', 'ENOTDIR'],
    });
  });

  it('STATE_KEY_FILE a key that others can read', async () => {
    const key = join(folder, 'master.key');
    chmodSync(key, 0o644);
    try {
      expectRefused(await show('secret'), { code: 'STATE_KEY_FILE', exit: 65, says: [key, '644'] });
    } finally {
      chmodSync(key, 0o600);
    }
  });

  it('STATE_KEY_LOST a key that is gone', async () => {
    const key = join(folder, 'master.key');
    renameSync(key, `${key}.away`);
    try {
      expectRefused(await show('secret'), { code: 'STATE_KEY_LOST', exit: 65, says: ['secret'] });
      expectCode(await show(), 0);
    } finally {
      rmSync(key, { force: true });
      renameSync(`${key}.away`, key);
    }
    expectCode(await show('secret'), 0);
  });

  it('STATE_LOCKED an installation that is worked on', async () => {
    const running = world.start(['install', 'long', '--param=seconds=600'], { cwd });
    await running.said('only | waiting');
    expectRefused(await world.skycap(['install', 'long', '--force'], { cwd }), {
      code: 'STATE_LOCKED',
      exit: 61,
      says: ['long', 'install', String(running.process.pid), 'skycap run cancel'],
    });
    running.process.kill('SIGINT');
    expectCode(await running.ended, 130);
  });

  it('is followed and cancelled to the end that is known where its process died', async () => {
    const gate = makeGate();
    const install = ['install', 'dead', `--param=seconds=${gate.seconds}`];
    const running = world.start(install, { cwd });
    await running.said('only | waiting');
    const follower = world.start(['run', 'logs', '-i', 'dead', '-f']);
    await follower.said('only | waiting');
    running.process.kill('SIGKILL');
    const followed = expectCode(await follower.ended, 0);
    expect(followed.stderr).toMatch(/warning: \[run-abandoned\] the process of run \S+ is gone/);
    const again = expectCode(await world.skycap(['run', 'logs', '-i', 'dead', '-f']), 0);
    expect(again.stdout).toContain('only | waiting');

    const [run] = (await world.skycap(['run', 'list', 'dead', '-o', 'json'])).json<{ id: string }[]>();
    expectRefused(await world.skycap(['run', 'cancel', run?.id as string]), {
      code: 'USAGE',
      exit: 2,
      says: [run?.id as string, 'is gone', 'next action'],
    });
    // What was interrupted comes to its end by itself, and then there is nothing left to resume: a success.
    const resuming = world.skycap([...install, '--resume'], { cwd });
    await gate.open();
    const resumed = expectCode(await resuming, 0);
    expect(resumed.stderr).toContain('nothing left to resume');
    const shown = await world.skycap(['run', 'show', run?.id as string, '-o', 'json']);
    expect(shown.json()).toMatchObject({ state: 'succeeded', steps: [{ id: 'only', state: 'succeeded' }] });
    expect(shown.json()).not.toHaveProperty('message');
    expect((await world.skycap(['run', 'list', 'dead', '-o', 'json'])).json<unknown[]>()).toHaveLength(1);
    expectCode(await world.skycap(['output', 'show', 'open', '-i', 'dead']), 0);
  });

  it('STATE_BUSY a database that another program holds', async () => {
    expectRefused(await kept.running.ended, {
      code: 'STATE_BUSY',
      exit: 66,
      says: [kept.file, '30 seconds'],
    });
    kept.release();
  });
});
