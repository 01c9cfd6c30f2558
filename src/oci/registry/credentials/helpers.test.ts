import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadSettings } from '../../../settings/load.ts';
import { codeOf } from '../../../testkit/registry/index.ts';
import { createCredentialsProvider, eraseCredential, storeCredential } from './index.ts';
import type { CredentialsEnvironment } from './types.ts';

const signal = new AbortController().signal;
const FILES = 'containers-auth.json';
let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'helpers-'));
});
afterEach(() => rm(root, { recursive: true }));

async function put(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(root, path)), { recursive: true });
  await writeFile(join(root, path), text);
}

/** A helper that notes what it is asked, and then does as told. */
async function helper(name: string, script: string): Promise<void> {
  const path = `bin/docker-credential-${name}`;
  await put(path, `#!/bin/sh\necho "${name} $1" >> "$HOME/asked"\n${script}\n`);
  await chmod(join(root, path), 0o755);
}

function environment(helpers?: readonly string[]): CredentialsEnvironment {
  const env = { HOME: root, PATH: `${join(root, 'bin')}:${process.env.PATH ?? ''}` };
  return { env, home: root, ...(helpers === undefined ? {} : { helpers }) };
}

async function asked(): Promise<readonly string[]> {
  const text = await readFile(join(root, 'asked'), 'utf8').catch(() => '');
  await rm(join(root, 'asked'), { force: true });
  return text.split('\n').filter((line) => line !== '');
}

const found = async (helpers: readonly string[] | undefined, host = 'r.test'): Promise<string> => {
  const credential = await createCredentialsProvider(environment(helpers))(
    { host, repository: 'a' },
    { signal },
  );
  return credential?.kind === 'basic' ? credential.username : (credential?.kind ?? 'nobody');
};

const knows = (user: string): string => `echo '{"Username":"${user}","Secret":"s"}'`;
const KNOWS_NOT = 'echo "credentials not found in native keychain"; exit 1';

describe('credential-helpers', () => {
  beforeEach(async () => {
    const auth = Buffer.from('of-file:p').toString('base64');
    await put('.docker/config.json', JSON.stringify({ auths: { 'r.test': { auth } } }));
    await helper('empty', KNOWS_NOT);
    await helper('first', knows('of-first'));
    await helper('broken', 'echo secret; echo no dbus >&2; exit 2');
  });

  it('R157 are asked in their order, the files among them where they are named and not otherwise', async () => {
    expect(await found(undefined)).toBe('of-file');
    expect(await found(['first', FILES])).toBe('of-first');
    expect(await found([FILES, 'first'])).toBe('of-file');
    expect(await asked()).toEqual(['first get']);
    expect(await found(['empty', FILES, 'first'])).toBe('of-file');
    expect(await asked()).toEqual(['empty get']);
    expect(await found(['empty'])).toBe('nobody');
    expect(await found([FILES, 'first'], 'other.test')).toBe('of-first');
  });

  it('R157 are passed over where they fail, which is an error only where nobody else knows the host', async () => {
    expect(await found(['broken', 'missing', FILES])).toBe('of-file');
    const failure = found(['broken', 'missing', 'empty']);
    expect(await codeOf(failure)).toBe('CREDENTIALS_HELPER_FAILED');
    await expect(failure).rejects.toThrow(/docker-credential-broken.*no dbus/);
    await expect(failure).rejects.not.toThrow('secret');
  });

  it('R157 keep a login with the first that takes it, and forget it all', async () => {
    await helper('keeper', 'cat > "$HOME/kept-$1"');
    const login = (helpers: readonly string[]) =>
      storeCredential(
        'r.test',
        { username: 'u', secret: 'p' },
        { environment: environment(helpers), signal },
      );
    expect(await login(['broken', 'keeper', FILES])).toEqual({
      kind: 'helper',
      where: 'docker-credential-keeper',
    });
    expect(JSON.parse(await readFile(join(root, 'kept-store'), 'utf8'))).toEqual({
      ServerURL: 'r.test',
      Username: 'u',
      Secret: 'p',
    });
    expect(await found([FILES])).toBe('of-file');
    expect(await login(['broken', FILES])).toMatchObject({ kind: 'file' });
    expect(await found([FILES])).toBe('u');
    expect(await codeOf(login(['broken', 'missing']))).toBe('CREDENTIALS_HELPER_FAILED');
    await asked();
    const gone = await eraseCredential('r.test', { environment: environment(['keeper', FILES]), signal });
    expect(gone.map(({ kind }) => kind)).toEqual(['helper', 'file']);
    expect(await asked()).toEqual(['keeper erase']);
    expect(await found([FILES])).toBe('nobody');
  });

  it('R157 that fail keep no secret from being forgotten elsewhere', async () => {
    await helper('keeper', 'cat > /dev/null');
    const erase = (helpers: readonly string[]) =>
      eraseCredential('r.test', { environment: environment(helpers), signal });
    const failure = erase(['broken', 'keeper', FILES]);
    await expect(failure).rejects.toThrow(/docker-credential-broken.*no dbus/);
    expect(await asked()).toEqual(['broken erase', 'keeper erase']);
    expect(await found([FILES])).toBe('nobody');
    const auth = Buffer.from('u:p').toString('base64');
    const kept = { auths: { 'r.test': { auth } }, credHelpers: { 'r.test': 'broken' } };
    await put('.config/containers/auth.json', '{');
    await put('.docker/config.json', JSON.stringify(kept));
    expect(await codeOf(erase([FILES]))).toBe('CREDENTIALS_FILE_INVALID');
    expect(await asked()).toEqual(['broken erase']);
    expect(await readFile(join(root, '.docker/config.json'), 'utf8')).not.toContain(auth);
  });

  it('R157 are the files where none is named', async () => {
    expect(await found([])).toBe('of-file');
    const entry = { username: 'u', secret: 'p' };
    expect(await storeCredential('r.test', entry, { environment: environment([]), signal })).toMatchObject({
      kind: 'file',
    });
    expect(await found([])).toBe('u');
  });

  it('R157 come from the last file that names any: drop-in files after the main one, the user’s after the machine’s', async () => {
    const names = async (env: Readonly<Record<string, string>> = {}): Promise<unknown> => {
      const { settings, origins } = await loadSettings({
        env: { HOME: root, ...env },
        uid: process.getuid?.() ?? 0,
        machineFile: join(root, 'etc/skycap/config.yaml'),
        containersFolder: join(root, 'etc/containers'),
      });
      const from = origins.find(({ key }) => key === 'credential-helpers')?.from ?? '';
      return [settings.credentialHelpers, from.replace(`${root}/`, '')];
    };
    const list = (...helpers: readonly string[]): string =>
      `credential-helpers = ${JSON.stringify(helpers)}\n`;
    expect(await names()).toEqual([undefined, '']);
    // An empty list says nothing.
    await put('etc/containers/registries.conf', list());
    expect(await names()).toEqual([undefined, '']);
    await put('etc/containers/registries.conf', list('machine', FILES));
    expect(await names()).toEqual([['machine', FILES], 'etc/containers/registries.conf']);
    await put('.config/containers/registries.conf.d/a.conf', list('mine'));
    await put('etc/containers/registries.conf.d/z.conf', list('dropped'));
    expect(await names()).toEqual([['mine'], '.config/containers/registries.conf.d/a.conf']);
    await rm(join(root, '.config/containers/registries.conf.d/a.conf'));
    expect(await names()).toEqual([['dropped'], 'etc/containers/registries.conf.d/z.conf']);
    await put('.config/containers/registries.conf', '');
    expect(await names()).toEqual([undefined, '']);
    await put('.config/containers/registries.conf', list('user'));
    expect(await names()).toEqual([['user'], '.config/containers/registries.conf']);
    await put('named.conf', list('named'));
    await rm(join(root, 'etc/containers/registries.conf.d/z.conf'));
    expect(await names({ CONTAINERS_REGISTRIES_CONF: join(root, 'named.conf') })).toEqual([
      ['named'],
      'named.conf',
    ]);
  });

  it.each(['"../evil"', '"a/b"', '""', '1', '{}'])(
    'R157 that would name another program are refused: %s',
    async (name) => {
      await put('etc/containers/registries.conf', `credential-helpers = [${name}]\n`);
      const loading = loadSettings({
        env: { HOME: root },
        uid: process.getuid?.() ?? 0,
        containersFolder: join(root, 'etc/containers'),
      });
      expect(await codeOf(loading)).toBe('SETTINGS_INVALID');
    },
  );
});
