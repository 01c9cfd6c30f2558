import { chmod, chown, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isSkycapError, type SkycapError } from '../kernel/index.ts';
import { loadSettings, settingNames } from './load.ts';
import { ensureRuntimeDirectory } from './runtime.ts';
import type { SettingsInput } from './types.ts';

let root: string;
let machineFile: string;
const uid = process.getuid?.() ?? 0;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'skycap-settings-'));
  machineFile = join(root, 'etc', 'config.yaml');
  await mkdir(join(root, 'etc'));
  await mkdir(join(root, 'home', '.config', 'skycap'), { recursive: true });
});
afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

function input(more: Partial<SettingsInput> = {}): SettingsInput {
  return {
    env: { HOME: join(root, 'home'), ...more.env },
    uid,
    machineFile,
    containersFolder: join(root, 'containers'),
    ...withoutEnv(more),
  };
}

function withoutEnv({ env: _, ...rest }: Partial<SettingsInput>): Partial<SettingsInput> {
  return rest;
}

async function userFile(text: string): Promise<string> {
  const file = join(root, 'home', '.config', 'skycap', 'config.yaml');
  await writeFile(file, text);
  await chmod(file, 0o600);
  return file;
}

async function failure(promise: Promise<unknown>): Promise<SkycapError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!isSkycapError(error)) throw new Error(`expected a coded error, got ${String(error)}`);
  expect(error.exitCode).toBe(2);
  return error;
}

describe('precedence', () => {
  it('takes flags before variables before the user before the machine before defaults, and says from where', async () => {
    await writeFile(
      machineFile,
      'engine: machine\nnamespace: m\nstate: {directory: /m/state}\nstore: {directory: /m/store}\n',
    );
    const user = await userFile('engine: user\nnamespace: u\nstate: {directory: ~/s}\n');
    const loaded = await loadSettings(
      input({ env: { SKYCAP_ENGINE: 'variable', SKYCAP_NAMESPACE: 'v' }, flags: { engine: 'flag' } }),
    );
    expect(loaded.settings).toMatchObject({
      engine: 'flag',
      namespace: 'v',
      state: { directory: join(root, 'home', 's') },
      store: { directory: '/m/store' },
      cacheDirectory: join(root, 'home', '.cache', 'skycap'),
    });
    const from = Object.fromEntries(loaded.origins.map((origin) => [origin.key, origin.from]));
    expect(from).toMatchObject({
      engine: 'a flag',
      namespace: 'SKYCAP_NAMESPACE',
      'state.directory': user,
      'store.directory': machineFile,
      'cache.directory': 'default',
    });
  });

  it('keeps what the machine blocks, and lets the user replace other rules', async () => {
    await writeFile(
      machineFile,
      'registries:\n- {prefix: bad.example, blocked: true}\n- {prefix: ghcr.io, location: one.example}\n',
    );
    const user = await userFile(
      'registries:\n- {prefix: bad.example/mine, location: two.example}\n- {prefix: ghcr.io, location: "127.0.0.1:5000"}\n',
    );
    const { settings, origins } = await loadSettings(input());
    const plain = { mirrors: [], insecure: false, blocked: false };
    expect(settings.registries).toEqual([
      { ...plain, prefix: 'bad.example/mine', location: 'two.example' },
      { ...plain, prefix: 'ghcr.io', location: '127.0.0.1:5000' },
      { ...plain, prefix: 'bad.example', blocked: true, machine: true },
      { ...plain, prefix: 'ghcr.io', location: 'one.example', machine: true },
    ]);
    expect(origins.filter(({ key }) => key.startsWith('registries')).map(({ from }) => from)).toEqual([
      user,
      user,
      machineFile,
      machineFile,
    ]);
  });

  it('takes mirrors, authorities, client certificates and token servers of hosts, the user’s in place of the machine’s', async () => {
    await writeFile(
      machineFile,
      'hosts:\n  R.example:5000: {ca: /etc/ssl/corp.pem}\n  s.example: {ca: /etc/ssl/s.pem}\n',
    );
    await userFile(
      'registries:\n- prefix: ghcr.io\n  mirrors: [m.example, {location: n.example, insecure: true, pull-from-mirror: digest-only}]\n' +
        'hosts:\n  r.example:5000: {ca: ~/corp.pem, certificate: ~/me.cert, key: /k, realms: [Login.example]}\n',
    );
    const { settings } = await loadSettings(input());
    expect(settings.registries[0]?.mirrors).toEqual([
      { location: 'm.example', insecure: false },
      { location: 'n.example', insecure: true, pullFromMirror: 'digest-only' },
    ]);
    expect(settings.hosts).toEqual({
      'r.example:5000': {
        ca: join(root, 'home', 'corp.pem'),
        certificate: join(root, 'home', 'me.cert'),
        key: '/k',
        realms: ['login.example'],
      },
      's.example': { ca: '/etc/ssl/s.pem' },
    });
  });

  it('needs no home where variables name every folder', async () => {
    const folder = join(root, 'xdg');
    const env = { HOME: '', XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder, XDG_CACHE_HOME: folder };
    expect((await loadSettings(input({ env }))).settings.registries).toEqual([]);
  });

  it('never shows the value of a credential', async () => {
    await userFile(
      'credentials: {a: {value: hunter2}, b: {path: ~/.kube/config}, c: {env: TOKEN}, d: {command: pass x}}',
    );
    const { settings, origins } = await loadSettings(input());
    expect(settings.credentials).toEqual({
      a: { kind: 'value', value: 'hunter2' },
      b: { kind: 'path', path: join(root, 'home', '.kube', 'config') },
      c: { kind: 'env', name: 'TOKEN' },
      d: { kind: 'command', command: 'pass x' },
    });
    expect(JSON.stringify(origins)).not.toContain('hunter2');
  });

  it.each([
    ['a: {valeu: hunter2}', 'hunter2'],
    ['a: {value: [hunter2]}', 'hunter2'],
    ['a: hunter2', 'hunter2'],
    ['a: {value: "hunter2}', 'hunter2'],
  ])('does not repeat a credential in the message about it: %s', async (text, secret) => {
    await userFile(`credentials:\n  ${text}\n`);
    const error = await failure(loadSettings(input()));
    expect(JSON.stringify(error)).not.toContain(secret);
  });
});

describe('the working folder and the environment', () => {
  it('changes nothing, whatever files a hostile folder holds', async () => {
    const hostile = join(root, 'hostile');
    const text = 'engine: hostile\nconsents: [{kind: docker, bundle: /, step: "*"}]\n';
    for (const name of [
      'config.yaml',
      'skycap/config.yaml',
      '.config/skycap/config.yaml',
      '.skycap.yaml',
      '.skycap/config.yaml',
      'etc/skycap/config.yaml',
      'skycap.yaml',
      '.env',
      'porter.yaml',
      '.docker/config.json',
    ]) {
      await mkdir(join(hostile, name, '..'), { recursive: true });
      await writeFile(join(hostile, name), name === '.env' ? 'SKYCAP_ENGINE=hostile\n' : text);
    }
    const plain = await loadSettings(input());
    const before = process.cwd();
    process.chdir(hostile);
    try {
      expect(await loadSettings(input())).toEqual(plain);
      // Relative XDG folders would mean the working folder; the specification says to ignore them.
      const relative = {
        XDG_CONFIG_HOME: '.config',
        XDG_DATA_HOME: '.',
        XDG_CACHE_HOME: 'x',
        XDG_RUNTIME_DIR: '.',
      };
      expect(await loadSettings(input({ env: relative }))).toEqual(plain);
      expect(
        (await failure(loadSettings(input({ env: { SKYCAP_STATE_DIRECTORY: 'state' } })))).message,
      ).toContain('SKYCAP_STATE_DIRECTORY');
      expect((await failure(loadSettings(input({ env: { HOME: '.' } })))).code).toBe('SETTINGS_HOME');
    } finally {
      process.chdir(before);
    }
  });

  it('names every setting and variable once', () => {
    const names = Object.values(settingNames);
    expect(new Set(names.map(({ key }) => key)).size).toBe(names.length);
    expect(new Set(names.map(({ variable }) => variable)).size).toBe(names.length);
  });
});

describe('wrong files', () => {
  it.each([
    ['engin: docker', 1, 1, 'did you mean engine?'],
    ['registries:\n- {prefx: a.example}', 2, 4, 'did you mean prefix?'],
    ['registries:\n- {prefix: https://a.example}', 2, 12, 'write a.example'],
    ['registries: {}', 1, 13, undefined],
    ['registries:\n- {prefix: a.b, mirrors: [{location: c.d, pull-from-mirror: no}]}', 2, 61, undefined],
    ['hosts:\n  a.b/c: {ca: /x}', 2, 3, expect.stringContaining('host')],
    ['hosts:\n  a.b: {ca: x}', 2, 13, expect.stringContaining('/')],
    ['hosts:\n  a.b: {key: /x}', 2, 8, undefined],
    ['hosts:\n  a.b: {realms: [https://c.d]}', 2, 18, expect.stringContaining('https')],
    ['consents:\n- {kind: dokcer, bundle: a/b, step: x}', 2, 10, 'did you mean docker?'],
    ['consents:\n- {kind: host-commands, bundle: a/b, step: x}', 2, 10, undefined],
    ['consents:\n- {kind: docker, step: x}', 2, 3, expect.stringContaining('digest')],
    ['consents:\n- {kind: docker, bundle: app, step: x}', 2, 26, expect.stringContaining('repository')],
    ['consents:\n- {kind: docker, bundle: a/b}', 2, 3, expect.stringContaining('step')],
    ['consents:\n- {kind: docker, digest: abc, step: x}', 2, 3, expect.stringContaining('sha256')],
    ['credentials:\n  a: {env: X, path: /x}', 2, 6, undefined],
    ['credentials:\n  a: {path: x}', 2, 13, expect.stringContaining('/')],
    ['state: {directory: x}', 1, 20, expect.stringContaining('/')],
    ['namespace: A B', 1, 12, expect.any(String)],
    ['policy: {}', 1, 1, expect.any(String)],
    ['engine: a\nengine: b', 2, 1, expect.anything()],
  ])('points at the fault in %j', async (text, line, column, hint) => {
    const file = await userFile(text);
    const error = await failure(loadSettings(input()));
    expect(error.code).toBe('SETTINGS_INVALID');
    expect(error.place).toMatchObject({ file, line, column });
    expect(error.hint).toEqual(hint);
  });

  it('reports all faults in one go', async () => {
    await userFile('engin: a\nnamspace: b\nstate: [x]\n');
    const error = await failure(loadSettings(input()));
    expect(error.details?.problems).toHaveLength(3);
  });

  it('refuses a file that others can write, a folder and a FIFO-like path', async () => {
    const file = await userFile('engine: a');
    await chmod(file, 0o666);
    expect((await failure(loadSettings(input()))).code).toBe('SETTINGS_OWNER');
    await rm(file);
    await mkdir(file);
    expect((await failure(loadSettings(input()))).code).toBe('SETTINGS_UNREADABLE');
  });

  it.runIf(uid === 0)(
    "refuses a machine file that is not root's and a user file of a third person",
    async () => {
      await writeFile(machineFile, 'engine: a');
      await chown(machineFile, 1000, 1000);
      const error = await failure(loadSettings(input()));
      expect(error).toMatchObject({ code: 'SETTINGS_OWNER', hint: `run: chown root ${machineFile}` });
      await chown(machineFile, 0, 0);
      const file = await userFile('engine: b');
      await chown(file, 1001, 1001);
      expect((await failure(loadSettings(input({ uid: 1000 })))).code).toBe('SETTINGS_OWNER');
    },
  );
});

describe('runtime directory', () => {
  it('must be a private folder of this user on a tmpfs', async () => {
    const folder = `/dev/shm/skycap-test-${process.pid}`;
    try {
      expect(await ensureRuntimeDirectory(folder, uid)).toBe(folder);
      await chmod(folder, 0o755);
      expect((await failure(ensureRuntimeDirectory(folder, uid))).hint).toBe(`run: chmod 700 ${folder}`);
      await chmod(folder, 0o700);
      expect((await failure(ensureRuntimeDirectory(folder, uid + 1))).message).toContain('belongs to');
      await rm(folder, { recursive: true });
      // A link to a folder that would be good enough itself.
      await mkdir(`${folder}-target`, { mode: 0o700 });
      await symlink(`${folder}-target`, folder);
      expect((await failure(ensureRuntimeDirectory(folder, uid))).code).toBe('SETTINGS_RUNTIME_DIRECTORY');
    } finally {
      await rm(folder, { recursive: true, force: true });
      await rm(`${folder}-target`, { recursive: true, force: true });
    }
    expect((await failure(ensureRuntimeDirectory(join(root, 'disk'), uid))).message).toContain('tmpfs');
  });
});
