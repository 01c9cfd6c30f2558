import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeGate } from '../../src/testkit/gate.ts';
import { enginesToTest } from '../support/engines.ts';
import { expectCode, makeWorld, type Ran, type World } from '../support/world.ts';

describe.each(enginesToTest('oci-runtime'))('records on %s', (engine) => {
  let world: World;
  let cwd: string;
  let tools: string;
  let database: string;

  beforeAll(async () => {
    world = await makeWorld(engine);
    tools = await world.image('acme/tools:1');
    cwd = world.bundle({ 'porter.yaml': porterYaml('kept', tools) });
    expectCode(await world.skycap(['lock'], { cwd }), 0);
    expectCode(
      await world.skycap(['install', '--param', 'secret=@-'], { cwd, input: 'remembered-secret' }),
      0,
    );
    database = join(world.env.XDG_DATA_HOME as string, 'skycap/state/state.db');
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  const porterYaml = (name: string, image: string): string =>
    `name: ${name}
version: 1.0.0
invocationImages:
  - {name: tools, image: "${image}"}
parameters:
  - {name: secret, type: string, sensitive: true, default: ""}
  - {name: seconds, type: number, default: 0}
  - {name: bytes, type: integer, default: 1}
outputs:
  - {name: one, type: string, sensitive: true}
  - {name: two, type: string, sensitive: true}
  - {name: open, type: string}
install: &steps
  - id: only
    description: Only
    invoke:
      name: tools
      action:
        run: |
          echo "$$ begins"; sleep "$SECONDS_" || :
          echo kept-in-the-$(echo workspace) > state.txt
          head -c "$BYTES" /dev/urandom > random.bin
          cd outputs; for name in one two open; do printf value-of-%s $name > $name; done
upgrade: *steps
`.replace('name: seconds, type', 'name: seconds, env: SECONDS_, type');

  const show = (name: string, installation = 'kept'): Promise<Ran> =>
    world.skycap(['output', 'show', name, '-i', installation]);

  it('S45 encrypts sensitive values and all state, each bound to its place', async () => {
    const folder = join(world.env.XDG_DATA_HOME as string, 'skycap/state');
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    );
    const contents = files
      .map((file) => readFileSync(join(file.parentPath, file.name)).toString('latin1'))
      .join('\n');
    for (const secret of ['remembered-secret', 'value-of-one', 'value-of-two', 'kept-in-the-workspace'])
      expect([secret, contents.includes(secret)]).toEqual([secret, false]);
    expect(contents).toContain('value-of-open');

    const key = masterKey(folder);
    expect(statSync(key).mode & 0o777).toBe(0o600);
    expect(key).not.toBe(database);

    // A sealed value that is put in another one's place is refused.
    edit(
      database,
      "UPDATE outputs SET value = (SELECT value FROM outputs WHERE name = 'two'), key_id = (SELECT key_id FROM outputs WHERE name = 'two') WHERE name = 'one'",
    );
    const moved = await show('one');
    expect(moved.code).toBeGreaterThanOrEqual(60);
    expect(moved.stdout).not.toContain('value-of-two');
    expect(expectCode(await show('two'), 0).stdout.trim()).toBe('value-of-two');
  });

  it('S45 names what a lost key takes along and leaves the rest usable', async () => {
    const key = masterKey(join(world.env.XDG_DATA_HOME as string, 'skycap/state'));
    renameSync(key, `${key}.away`);
    try {
      const lost = await show('two');
      expectCode(lost, 65);
      expect(lost.stderr).toMatch(/STATE_KEY_LOST.*two/s);
      expect(expectCode(await show('open'), 0).stdout.trim()).toBe('value-of-open');
      const shown = expectCode(await world.skycap(['installation', 'show', 'kept', '-o', 'json']), 0);
      expect(shown.stdout).toMatch(/"name": "secret",[^}]*lost/);
      expect(expectCode(await world.skycap(['installation', 'show', 'kept']), 0).stdout).toMatch(
        /secret.*lost/,
      );
      expect(expectCode(await world.skycap(['output', 'list', '-i', 'kept']), 0).stdout).toContain(
        'value-of-open',
      );
      expectCode(await world.skycap(['install', 'after', '--param', 'secret=x'], { cwd }), 0);
      expect(expectCode(await show('two', 'after'), 0).stdout.trim()).toBe('value-of-two');
    } finally {
      rmSync(key, { force: true });
      renameSync(`${key}.away`, key);
    }
    expect(expectCode(await show('two'), 0).stdout.trim()).toBe('value-of-two');
  });

  it('S46 has the kernel release the lock of a killed holder', async () => {
    const gate = makeGate();
    const wait = ['--param', `seconds=${gate.seconds}`];
    const holder = world.start(['install', 'locked', ...wait, '--param', 'secret=x'], { cwd });
    await holder.said(/begins/);
    const refused = await world.skycap(['install', 'locked', '--force'], { cwd });
    expectCode(refused, 61);
    expect(refused.stderr).toContain('STATE_LOCKED');
    holder.process.kill('SIGKILL');
    await holder.ended;
    const going = world.skycap(['upgrade', 'locked', '--param', 'seconds=0'], { cwd });
    await gate.open();
    const next = expectCode(await going, 0);
    expect(next.stderr).not.toContain('STATE_LOCKED');
  });

  const strangers = [
    ['of a newer version', 63, 'STATE_FUTURE', (file: string) => edit(file, 'PRAGMA user_version = 99')],
    ['of another program', 64, 'STATE_FOREIGN', (file: string) => edit(file, 'PRAGMA application_id = 77')],
    [
      'that is damaged',
      64,
      'STATE_CORRUPT',
      (file: string) => writeFileSync(file, readFileSync(file).fill(0xff, 4096)),
    ],
    ['that is empty', 64, 'STATE_CORRUPT', (file: string) => writeFileSync(file, '')],
  ] as const;
  it.each(strangers)('S48 refuses a database %s as it is', async (_name, code, error, change) => {
    edit(database, 'PRAGMA wal_checkpoint(TRUNCATE)');
    const saved = readFileSync(database);
    try {
      change(database);
      const before = readFileSync(database);
      for (const args of [['list'], ['output', 'show', 'open', '-i', 'kept'], ['install', 'fresh']]) {
        const ran = await world.skycap(args, { cwd });
        expectCode(ran, code);
        expect(ran.stderr).toContain(`[${error}]`);
        expect(ran.stderr).toMatch(/hint: /);
      }
      expect(readFileSync(database).equals(before)).toBe(true);
    } finally {
      for (const rest of ['-wal', '-shm']) rmSync(`${database}${rest}`, { force: true });
      writeFileSync(database, saved);
    }
    expect(expectCode(await show('open'), 0).stdout.trim()).toBe('value-of-open');
  });

  describe('S49 a full disk', () => {
    /** Mounted in this very namespace: the folders are this test's own. */
    const mounted: string[] = [];
    afterAll(() => {
      for (const folder of mounted) spawnSync('umount', ['-l', folder]);
    });

    function small(name: string, size: string): string {
      const folder = join(world.directory, name);
      mkdirSync(folder, { recursive: true });
      expect(spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=700`, 'tmpfs', folder]).status).toBe(
        0,
      );
      mounted.push(folder);
      return folder;
    }

    function room(folder: string, size: string): void {
      expect(spawnSync('mount', ['-o', `remount,size=${size}`, folder]).status).toBe(0);
    }

    function isOneMessage(ran: Ran): void {
      expectCode(ran, 62);
      const errors = ran.stderr.split('\n').filter((line) => line.startsWith('error '));
      expect(errors).toEqual([expect.stringMatching(/^error \[DISK_FULL\] .*\S/)]);
      expect(ran.stderr).toMatch(/\n {2}hint: \S/);
      expect(ran.stderr).not.toMatch(/ENOSPC[^)]*\n\s+at /);
    }

    async function earlierIsThere(env: Record<string, string> = {}): Promise<void> {
      const ran = expectCode(await world.skycap(['output', 'show', 'two', '-i', 'kept'], { env }), 0);
      expect(ran.stdout.trim()).toBe('value-of-two');
    }

    it('S49 at pull ends in one message and nothing is lost', async () => {
      const store = small('store-pull', '200k');
      const env = { SKYCAP_STORE_DIRECTORY: store };
      isOneMessage(await world.skycap(['image', 'pull', tools], { env }));
      isOneMessage(await world.skycap(['install', 'pulling', '--param', 'secret=x'], { cwd, env }));
      await earlierIsThere(env);
      room(store, '100m');
      expectCode(await world.skycap(['install', 'pulling', '--param', 'secret=x'], { cwd, env }), 0);
      expectCode(await world.skycap(['image', 'fsck'], { env }), 0);
    });

    it('S49 at unpack ends in one message and nothing is lost', async () => {
      const store = small('store-unpack', '100m');
      const env = { SKYCAP_STORE_DIRECTORY: store };
      expectCode(await world.skycap(['image', 'pull', tools], { env }), 0);
      room(store, `${Math.ceil(usedKiB(store) + 300)}k`);
      isOneMessage(await world.skycap(['install', 'unpacking', '--param', 'secret=x'], { cwd, env }));
      await earlierIsThere(env);
      room(store, '100m');
      expectCode(
        await world.skycap(['install', 'unpacking', '--param', 'secret=x', '--force'], { cwd, env }),
        0,
      );
    });

    it.each([
      ['workspace', '--param=bytes=1'],
      ['state', '--param=bytes=6000000'],
    ])('S49 at %s ends in one message and nothing is lost', async (what, bytes) => {
      const state = small(`state-${what}`, '100m');
      const env = { SKYCAP_STATE_DIRECTORY: state };
      expectCode(await world.skycap(['install', 'kept', '--param', 'secret=x'], { cwd, env }), 0);
      const big = world.bundle({
        'porter.yaml': porterYaml('big', tools),
        ...(what === 'workspace' ? { 'big.bin': Buffer.alloc(6_000_000, 'x') } : {}),
      });
      expectCode(await world.skycap(['lock'], { cwd: big }), 0);
      room(state, `${Math.ceil(usedKiB(state) + (what === 'workspace' ? 3000 : 9000))}k`);
      const full = await world.skycap(['install', 'big', '--param', 'secret=x', bytes], { cwd: big, env });
      isOneMessage(full);
      await earlierIsThere(env);
      room(state, '200m');
      const retry = await world.skycap(['install', 'big', '--param', 'secret=x', bytes, '--force'], {
        cwd: big,
        env,
      });
      expectCode(retry, 0);
      const shown = await world.skycap(['output', 'show', 'two', '-i', 'big'], { env });
      expect(expectCode(shown, 0).stdout.trim()).toBe('value-of-two');
    });
  });
});

function usedKiB(folder: string): number {
  const [, line = ''] = spawnSync('df', ['--output=used', '-k', folder]).stdout.toString().split('\n');
  return Number(line);
}

/** The file of mode 0600 beside the database that is no part of it. */
function masterKey(folder: string): string {
  const found = readdirSync(folder).find((name) => /key/.test(name) && statSync(join(folder, name)).isFile());
  if (found === undefined) throw new Error(`no key file in ${readdirSync(folder).join(', ')}`);
  return join(folder, found);
}

function edit(file: string, statement: string): void {
  const db = new DatabaseSync(file);
  try {
    db.exec(statement);
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } finally {
    db.close();
  }
}
