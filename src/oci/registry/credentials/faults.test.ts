import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  TEST_CA,
  TEST_CLIENT_CERT,
  TEST_CLIENT_KEY,
  TEST_SERVER_CERT,
} from '../../../testkit/registry/index.ts';
import { createTlsLookup } from './certificates.ts';
import { helperErase, helperGet, helperStore } from './helper.ts';
import { createCredentialsProvider, eraseCredential, storeCredential } from './index.ts';
import { readAuthFile } from './provider.ts';
import type { CredentialsEnvironment } from './types.ts';

const LARGEST = 4 * 1024 * 1024;
const { signal } = new AbortController();
let home: string;
let environment: CredentialsEnvironment;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'faults-'));
  const env = { PATH: `${home}/bin:${process.env.PATH ?? ''}`, HOME: home, UNSET: undefined };
  environment = { env, home };
});
afterEach(() => rm(home, { recursive: true }));

async function put(path: string, content: string): Promise<string> {
  await mkdir(dirname(join(home, path)), { recursive: true });
  await writeFile(join(home, path), content);
  return join(home, path);
}

async function helper(name: string, script: string): Promise<void> {
  await chmod(
    await put(`bin/docker-credential-${name}`, `#!/bin/sh\necho "$1" >> "$HOME/asked"\n${script}\n`),
    0o755,
  );
}
const asked = async (): Promise<string> => (await readFile(join(home, 'asked'), 'utf8')).trim();
const basic = (text: string): string => JSON.stringify({ auth: Buffer.from(text).toString('base64') });

describe('a file of credentials', () => {
  const read = (path: string) => readAuthFile({ path: join(home, path), kind: 'docker' });
  const refused = (path: string, problem: string): object => ({
    code: 'CREDENTIALS_FILE_INVALID',
    message: `the credentials file ${join(home, path)} is refused: ${problem}`,
    hint: 'correct or remove the file, then log in again',
  });

  it('may be missing, or be below what is no folder', async () => {
    await put('file', '');
    expect([await read('none'), await read('file/below'), await read('file')]).toEqual([
      undefined,
      undefined,
      {},
    ]);
  });

  it('that cannot be read is an error with its reason', async () => {
    await mkdir(join(home, 'folder'));
    await expect(read('folder')).rejects.toMatchObject(refused('folder', 'it cannot be read (EISDIR)'));
    await symlink('loop', join(home, 'loop'));
    await expect(read('loop')).rejects.toMatchObject(refused('loop', 'it cannot be read (ELOOP)'));
  });

  it('may have 4 MiB and not a byte more', async () => {
    await put('large', '{"a":1}'.padEnd(LARGEST));
    expect(await read('large')).toEqual({ a: 1 });
    await put('larger', '{"a":1}'.padEnd(LARGEST + 1));
    await expect(read('larger')).rejects.toMatchObject(refused('larger', 'it is too large'));
  });

  it('that cannot be written is an error with its reason', async () => {
    await put('.docker', 'a file in place of the folder');
    const storing = storeCredential('r.test', { username: 'u', secret: 'p' }, { environment, signal });
    await expect(storing).rejects.toMatchObject({
      code: 'CREDENTIALS_FILE_INVALID',
      message: expect.stringMatching(/config\.json is refused: it cannot be written \(E[A-Z]+\)$/) as string,
    });
  });

  it('of the old kind is written as it was read', async () => {
    await put('.dockercfg', `{"r.test":${basic('u:p')},"s.test":${basic('s:p')}}`);
    const removed = await eraseCredential('https://R.test/v1/', { environment, signal });
    expect(removed).toEqual([{ kind: 'file', where: join(home, '.dockercfg') }]);
    expect(await readFile(join(home, '.dockercfg'), 'utf8')).toBe(
      `${JSON.stringify({ 's.test': JSON.parse(basic('s:p')) as object }, undefined, '\t')}\n`,
    );
  });
});

describe('a login', () => {
  const login = (host: string, username = 'u', more: Partial<CredentialsEnvironment> = {}) =>
    storeCredential(host, { username, secret: 'p' }, { environment: { ...environment, ...more }, signal });

  it('with a name that cannot be kept, or for what is no registry, is refused', async () => {
    await expect(login('r.test', 'u:v')).rejects.toMatchObject({
      code: 'CREDENTIALS_FILE_INVALID',
      message: 'a user name cannot hold a colon',
      hint: 'check the user name',
    });
    for (const host of ['r.test/a', '', 'a b']) {
      const error = {
        code: 'REFERENCE_INVALID',
        message: `${JSON.stringify(host)} is not a registry`,
        hint: 'write host[:port], e.g. ghcr.io',
      };
      await expect(login(host)).rejects.toMatchObject(error);
      await expect(eraseCredential(host, { environment, signal })).rejects.toMatchObject(error);
    }
  });

  it('ends at the signal before another helper is asked', async () => {
    const stop = new AbortController();
    stop.abort(new Error('enough'));
    const environmentOf = { ...environment, helpers: ['missing', 'containers-auth.json'] };
    const options = { environment: environmentOf, signal: stop.signal };
    await expect(storeCredential('r.test', { username: 'u', secret: 'p' }, options)).rejects.toThrow(
      'enough',
    );
    await expect(eraseCredential('r.test', options)).rejects.toThrow('enough');
    await expect(readFile(join(home, '.docker/config.json'))).rejects.toThrow('ENOENT');
  });

  it('goes to the hub by whatever name, and to its file under Docker’s', async () => {
    for (const host of ['docker.io', 'index.docker.io', 'https://index.docker.io/v1/']) {
      await login(host);
      const kept = JSON.parse(await readFile(join(home, '.docker/config.json'), 'utf8')) as { auths: object };
      expect(Object.keys(kept.auths)).toEqual(['https://index.docker.io/v1/']);
    }
    expect(await eraseCredential('registry-1.docker.io', { environment, signal })).toHaveLength(1);
  });
});

describe('a helper', () => {
  const failed = (problem: string): object => ({
    code: 'CREDENTIALS_HELPER_FAILED',
    message: `the credential helper docker-credential-h failed: ${problem}`,
    hint: 'run it by hand: echo SERVER | docker-credential-h get',
  });
  const options = () => ({ env: environment.env, signal });
  const entry = { username: 'u', secret: 's' };

  it.each<[string, unknown]>([
    [`echo '{"Username":"u","Secret":"s"}'`, { kind: 'basic', username: 'u', password: 's' }],
    [`echo '{"Username":"<token>","Secret":"s"}'`, { kind: 'identity-token', token: 's' }],
    [`echo '{"Username":"u","Secret":""}'`, undefined],
    ['echo "Credentials not found in keychain" >&2; exit 1', undefined],
    ['echo "CREDENTIALS NOT FOUND"; exit 3', undefined],
  ])('that does %s answers %j', async (script, credential) => {
    await helper('h', script);
    expect(await helperGet('h', 'r.test', options())).toEqual(credential);
    expect(await asked()).toBe('get');
  });

  it.each([
    ['exit 3', 'get ended with exit code 3'],
    ['printf "\\nfirst\\nsecond\\n" >&2; exit 1', 'get ended with exit code 1, "first"'],
    ['echo "not found"; exit 1', 'get ended with exit code 1'],
    ['echo "credentials not found"', 'its answer is not JSON'],
    ['echo null', 'its answer lacks Username or Secret'],
    [`echo '{"Username":"u"}'`, 'its answer lacks Username or Secret'],
    [`echo '{"Secret":"s"}'`, 'its answer lacks Username or Secret'],
    [`echo '{"Username":"u","Secret":1}'`, 'its answer lacks Username or Secret'],
  ])('that does %s fails: %s', async (script, problem) => {
    await helper('h', script);
    await expect(helperGet('h', 'r.test', options())).rejects.toMatchObject(failed(problem));
  });

  it('is handed the server, or the entry as JSON', async () => {
    await helper('h', 'cat > "$HOME/given"');
    const given = () => readFile(join(home, 'given'), 'utf8');
    await expect(helperGet('h', 'r.test', options())).rejects.toThrow('not JSON');
    expect(await given()).toBe('r.test');
    await helperStore('h', 'r.test', { ...options(), entry });
    expect(await given()).toBe('{"ServerURL":"r.test","Username":"u","Secret":"s"}');
    expect(await helperErase('h', 's.test', options())).toBe(true);
    expect(await given()).toBe('s.test');
    expect(await asked()).toBe('get\nstore\nerase');
  });

  it('that fails to store or to erase says at what; nothing to erase is no failure', async () => {
    await helper('h', 'exit 4');
    await expect(helperStore('h', 'r.test', { ...options(), entry })).rejects.toMatchObject(
      failed('store ended with exit code 4'),
    );
    await expect(helperErase('h', 'r.test', options())).rejects.toMatchObject(
      failed('erase ended with exit code 4'),
    );
    await helper('h', 'echo credentials not found; exit 1');
    expect(await helperErase('h', 'r.test', options())).toBe(false);
    await expect(helperStore('h', 'r.test', { ...options(), entry })).rejects.toMatchObject(
      failed('store ended with exit code 1'),
    );
  });

  it('that is not installed is named, with what to do', async () => {
    await expect(helperGet('missing', 'r.test', options())).rejects.toMatchObject({
      code: 'CREDENTIALS_HELPER_FAILED',
      message: 'the credential helper docker-credential-missing is not installed',
      hint: 'install docker-credential-missing, or remove it from the credentials file',
    });
  });

  it('is stopped by the signal', async () => {
    await helper('h', 'sleep 60');
    const stopped = helperGet('h', 'r.test', {
      ...options(),
      signal: AbortSignal.abort(new Error('enough')),
    });
    await expect(stopped).rejects.toThrow('enough');
  });

  it('is asked once for each server, and again where it failed', async () => {
    await helper('h', `[ -f "$HOME/open" ] || exit 1; echo '{"Username":"u","Secret":"s"}'`);
    const provider = createCredentialsProvider({ ...environment, helpers: ['h'] });
    const ask = (host: string) => provider({ host, repository: 'a' }, { signal });
    await expect(ask('r.test')).rejects.toMatchObject({ code: 'CREDENTIALS_HELPER_FAILED' });
    await put('open', '');
    const credential = { kind: 'basic', username: 'u', password: 's' };
    expect([await ask('r.test'), await ask('r.test'), await ask('s.test')]).toEqual(
      Array.from({ length: 3 }, () => credential),
    );
    expect(await asked()).toBe('get\nget\nget');
    const stop = AbortSignal.abort(new Error('enough'));
    const stopped = createCredentialsProvider({ ...environment, helpers: ['missing', 'h'] });
    await expect(stopped({ host: 'r.test', repository: 'a' }, { signal: stop })).rejects.toThrow('enough');
  });
});

describe('certificates', () => {
  const lookup = (hosts = {}) =>
    createTlsLookup({ hosts, environment, machineFolders: [join(home, 'one'), join(home, 'two')] });
  const refused = (problem: string, host = 'r.test'): object =>
    expect.objectContaining({
      code: 'REGISTRY_TLS',
      message: `the certificates for ${host} are refused: ${problem}`,
      hint: 'correct the files, or what the configuration says under hosts',
    });
  const pair = { cert: TEST_CLIENT_CERT, key: TEST_CLIENT_KEY };
  const lastOf = (tls: ReturnType<ReturnType<typeof lookup>>): unknown => [tls?.ca].flat().at(-1);

  it('may be a pair without authorities, or nothing at all', async () => {
    await put('one/r.test/b.cert', TEST_CLIENT_CERT);
    await put('one/r.test/b.key', TEST_CLIENT_KEY);
    await put('one/r.test/c.cert', 'never read');
    await put('one/r.test/c.key', 'never read');
    expect(lookup()('r.test')).toEqual(pair);
    await put('one/empty.test/readme.txt', '');
    await put('two/empty.test/ca.crt', 'never read');
    expect(lookup()('empty.test')).toBeUndefined();
    expect(lookup()('none.test')).toBeUndefined();
    await put('one/file.test', '');
    await put('two/file.test/x.cert', TEST_CLIENT_CERT);
    await put('two/file.test/x.key', TEST_CLIENT_KEY);
    expect(lookup()('file.test')).toEqual(pair);
  });

  it('are read once', async () => {
    await put('one/r.test/b.cert', TEST_CLIENT_CERT);
    await put('one/r.test/b.key', TEST_CLIENT_KEY);
    const of = lookup();
    const first = of('r.test');
    await rm(join(home, 'one'), { recursive: true });
    expect([of('r.test') === first, of('none.test'), lookup()('r.test')]).toEqual([
      true,
      undefined,
      undefined,
    ]);
  });

  it('of the configuration stand in place of any folder, each by itself', async () => {
    const ca = await put('ca.pem', TEST_CA);
    const certificate = await put('me.pem', TEST_CLIENT_CERT);
    const key = await put('me.key', TEST_CLIENT_KEY);
    await put('one/r.test/b.cert', 'never read');
    expect(lookup({ 'r.test': { certificate, key } })('r.test')).toEqual(pair);
    const both = lookup({ 'r.test': { ca } })('r.test');
    expect(Object.keys(both ?? {})).toEqual(['ca']);
    expect(lastOf(both)).toBe(TEST_CA);
    expect(lookup({ 'docker.io': { certificate, key } })('registry-1.docker.io')).toEqual(pair);
    expect(() => lookup({ 'r.test': { realms: ['x.test'] } })('r.test')).toThrow('has no b.key beside it');
    expect(lookup({ 's.test': { certificate, key } })('t.test')).toBeUndefined();
  });

  it.each<[Readonly<Record<string, string>>, string]>([
    [{ 'a.cert': TEST_CLIENT_CERT }, 'ROOT/a.cert has no a.key beside it; authorities end in .crt'],
    [{ 'a.key': TEST_CLIENT_KEY }, 'ROOT/a.key has no certificate beside it'],
    [
      { 'a.cert': TEST_SERVER_CERT, 'a.key': TEST_CLIENT_KEY },
      'ROOT/a.cert and ROOT/a.key are not a PEM certificate and its key',
    ],
    [{ 'a.crt': 'nothing' }, 'ROOT/a.crt holds no certificate in PEM form'],
    [
      { 'a.crt': `${TEST_CA}-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n` },
      'ROOT/a.crt holds no certificate in PEM form',
    ],
    [{ 'a.crt': TEST_CA.padEnd(LARGEST + 1) }, 'ROOT/a.crt is too large'],
  ])('that do not fit are refused with their path: %#', async (files, problem) => {
    for (const [name, text] of Object.entries(files)) await put(`one/r.test/${name}`, text);
    const message = problem.replaceAll('ROOT', join(home, 'one/r.test'));
    expect(() => lookup()('r.test')).toThrow(refused(message));
  });

  it('may be several in one file of up to 4 MiB', async () => {
    for (const text of [`${TEST_CA}${TEST_SERVER_CERT}`, TEST_CA.padEnd(LARGEST)]) {
      await put('one/r.test/a.crt', text);
      expect(lastOf(lookup()('r.test'))).toBe(text);
    }
  });

  it('that cannot be read are refused with the reason', async () => {
    await mkdir(join(home, 'one/r.test/a.crt'), { recursive: true });
    expect(() => lookup()('r.test')).toThrow(
      refused(`${join(home, 'one/r.test/a.crt')} cannot be read (EISDIR)`),
    );
    await symlink('loop.test', join(home, 'one/loop.test'));
    expect(() => lookup()('loop.test')).toThrow(
      refused(`${join(home, 'one/loop.test')} cannot be read (ELOOP)`, 'loop.test'),
    );
  });
});
