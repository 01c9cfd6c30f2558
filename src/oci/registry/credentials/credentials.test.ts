import { chmod, lstat, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ignoreEvents } from '../../../kernel/index.ts';
import { codeOf, scriptedRegistry } from '../../../testkit/registry/index.ts';
import { checkLogin } from '../client/index.ts';
import { lookUp, parseAuthFile } from './auth-file.ts';
import { helperGet } from './helper.ts';
import { createCredentialsProvider, eraseCredential, storeCredential } from './index.ts';
import { type AuthLocation, authLocations, loginLocation } from './locations.ts';
import type { CredentialsEnvironment } from './types.ts';

const b64 = (text: string): string => Buffer.from(text).toString('base64');
const location: AuthLocation = { path: '/x/config.json', kind: 'docker' };
const signal = new AbortController().signal;

describe('a file', () => {
  const found = (file: object, host: string, repository = 'a/b'): unknown =>
    lookUp(parseAuthFile(Buffer.from(JSON.stringify(file)), location), { host, repository }, location.path);
  const basic = (username: string, password: string) => ({
    kind: 'credential',
    credential: { kind: 'basic', username, password },
  });
  const helper = (name: string, server: string) => ({ kind: 'helper', helper: name, server });

  const ENTRIES = [
    ['auth', { auth: b64('u:p:q') }, { kind: 'basic', username: 'u', password: 'p:q' }],
    ['empty password', { auth: b64('u:') }, { kind: 'basic', username: 'u', password: '' }],
    ['plain', { username: 'u', password: 'p' }, { kind: 'basic', username: 'u', password: 'p' }],
    [
      'identity token',
      { auth: b64('u:'), identitytoken: 'i' },
      { kind: 'identity-token', token: 'i', username: 'u' },
    ],
    ['registry token', { registrytoken: 'r', identitytoken: 'i' }, { kind: 'registry-token', token: 'r' }],
  ] as const;
  it.each(ENTRIES)('R41 gives %s', (_, entry, credential) => {
    expect(found({ auths: { 'ghcr.io': entry } }, 'ghcr.io')).toEqual([{ kind: 'credential', credential }]);
  });

  it.each(['ghcr.io', 'https://ghcr.io', 'https://ghcr.io/', 'http://GHCR.io/v1/', 'https://ghcr.io/v2/'])(
    'R43 is found under the key %s',
    (key) => {
      expect(found({ auths: { [key]: { auth: b64('u:p') } } }, 'ghcr.io')).toEqual([basic('u', 'p')]);
    },
  );

  it.each(['ghcr.io.evil.test', 'evil-ghcr.io', 'hcr.io', 'io', 'ghcr.io:443', 'ghcr.i', 'x.ghcr.io', ''])(
    'R43 never answers %s with what is ghcr.io’s',
    (host) => {
      expect(
        found({ auths: { 'ghcr.io': { auth: b64('u:p') } }, credHelpers: { 'ghcr.io': 'h' } }, host),
      ).toEqual([]);
    },
  );

  it('R46 knows the names of Docker Hub', () => {
    for (const key of [
      'https://index.docker.io/v1/',
      'docker.io',
      'index.docker.io',
      'registry-1.docker.io',
    ]) {
      expect(found({ auths: { [key]: { auth: b64('u:p') } } }, 'registry-1.docker.io')).toEqual([
        basic('u', 'p'),
      ]);
      expect(found({ credHelpers: { [key]: 'h' } }, 'registry-1.docker.io')).toEqual([
        helper('h', 'https://index.docker.io/v1/'),
      ]);
    }
    expect(found({ auths: { 'docker.io': { auth: b64('u:p') } } }, 'docker.io.evil.test')).toEqual([]);
  });

  it('R44 prefers the longest path, on whole components', () => {
    const auths = {
      'r.test': { auth: b64('host:1') },
      'r.test/a': { auth: b64('a:1') },
      'r.test/a/b': { auth: b64('ab:1') },
    };
    expect(found({ auths }, 'r.test', 'a/b')).toEqual([basic('ab', '1')]);
    expect(found({ auths }, 'r.test', 'a/bc')).toEqual([basic('a', '1')]);
    expect(found({ auths }, 'r.test', 'ab')).toEqual([basic('host', '1')]);
  });

  it('R42 names helpers before entries, the exact one first', () => {
    const file = {
      credHelpers: { 'r.test:5000': 'exact', '*.test': 'wild' },
      credsStore: 'all',
      auths: { 'r.test:5000': { auth: b64('u:p') } },
    };
    expect(found(file, 'r.test:5000')).toEqual([
      helper('exact', 'r.test:5000'),
      helper('all', 'r.test:5000'),
      basic('u', 'p'),
    ]);
    expect(found(file, 'r.test')).toEqual([helper('all', 'r.test')]);
  });

  it('that is broken is refused without showing what is in it', async () => {
    for (const text of ['{', '[]', '{"auths":{},"auths":{}}', 'secret']) {
      await expect((async () => parseAuthFile(Buffer.from(text), location))()).rejects.toMatchObject({
        code: 'CREDENTIALS_FILE_INVALID',
        message: expect.not.stringContaining('secret') as string,
      });
    }
    await expect(
      (async () => found({ auths: { 'r.test': { auth: b64('secret') } } }, 'r.test'))(),
    ).rejects.toMatchObject({ code: 'CREDENTIALS_FILE_INVALID' });
    for (const name of ['../evil', 'a/b', '', '-x', 7]) {
      await expect(
        (async () => found({ credHelpers: { 'r.test': name } }, 'r.test'))(),
      ).rejects.toMatchObject({ code: 'CREDENTIALS_FILE_INVALID' });
    }
  });
});

describe('locations', () => {
  it('R45 come from variables first', () => {
    const env = {
      REGISTRY_AUTH_FILE: '/r',
      DOCKER_CONFIG: '/d',
      XDG_RUNTIME_DIR: '/run/u',
      XDG_CONFIG_HOME: '/c',
    };
    expect(authLocations({ env, home: '/h' }).map((entry) => entry.path)).toEqual([
      '/r',
      '/d/config.json',
      '/run/u/containers/auth.json',
      '/c/containers/auth.json',
      '/h/.dockercfg',
    ]);
    expect(
      authLocations({
        env: { REGISTRY_AUTH_FILE: '/c/containers/auth.json', XDG_CONFIG_HOME: '/c' },
        home: '/h',
      }).map((entry) => entry.path),
    ).toEqual(['/c/containers/auth.json', '/h/.docker/config.json', '/h/.dockercfg']);
    expect(loginLocation({ env, home: '/h' }).path).toBe('/r');
    expect(loginLocation({ env: { XDG_RUNTIME_DIR: '/run/u' }, home: '/h' }).path).toBe(
      '/h/.docker/config.json',
    );
  });
});

describe('on disk', () => {
  let home: string;
  let environment: CredentialsEnvironment;
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'home-'));
    environment = { env: { PATH: `${home}/bin:${process.env.PATH ?? ''}` }, home };
  });
  afterEach(() => rm(home, { recursive: true }));

  const put = async (path: string, content: unknown): Promise<void> => {
    await mkdir(dirname(join(home, path)), { recursive: true });
    await writeFile(join(home, path), typeof content === 'string' ? content : JSON.stringify(content));
  };
  const json = async (path: string): Promise<unknown> => JSON.parse(await readFile(join(home, path), 'utf8'));
  /** A helper in shell that keeps one credential in a file. */
  const install = async (name: string, script: string): Promise<void> => {
    await put(`bin/docker-credential-${name}`, `#!/bin/sh\n${script}`);
    await chmod(join(home, 'bin', `docker-credential-${name}`), 0o755);
  };
  const KEEPER = `S="$(dirname "$0")/../kept"; case "$1" in
get) read -r server; echo "get $server" >> "$S.log"; [ -f "$S" ] && cat "$S" || { echo "credentials not found in native keychain"; exit 1; };;
store) cat > "$S";;
erase) read -r server; [ -f "$S" ] && rm "$S" || { echo "credentials not found in native keychain"; exit 1; };;
esac`;
  const ask = (host: string): Promise<unknown> =>
    createCredentialsProvider(environment)({ host, repository: 'a' }, { signal });

  it('R45 the first file that knows the host answers; none means anonymous', async () => {
    expect(await ask('r.test')).toBeUndefined();
    await put('.docker/config.json', { auths: { 'r.test': { auth: b64('docker:1') } } });
    await put('.dockercfg', { 'old.test': { auth: b64('old:1') } });
    expect(await ask('r.test')).toMatchObject({ username: 'docker' });
    expect(await ask('old.test')).toMatchObject({ username: 'old' });
    await put('.config/containers/auth.json', { auths: { 'r.test': { auth: b64('podman:1') } } });
    expect(await ask('r.test')).toMatchObject({ username: 'podman' });
    expect(await ask('other.test')).toBeUndefined();
  });

  it('R47 helpers are asked once each, and what they do not know the file may', async () => {
    await install('keeper', KEEPER);
    await put('.docker/config.json', { credsStore: 'keeper', auths: { 'r.test': { auth: b64('file:1') } } });
    expect(await ask('r.test')).toMatchObject({ username: 'file' });
    await put('kept', { ServerURL: 'x', Username: '<token>', Secret: 'identity' });
    const provider = createCredentialsProvider(environment);
    for (const _ of [1, 2])
      expect(await provider({ host: 'r.test', repository: 'a' }, { signal })).toEqual({
        kind: 'identity-token',
        token: 'identity',
      });
    expect(await readFile(join(home, 'kept.log'), 'utf8')).toBe('get r.test\nget r.test\n');
  });

  const BROKEN = [
    ['fails', 'echo "secret on stdout"; echo "locked" >&2; exit 1', 'locked'],
    ['talks nonsense', 'echo secret', 'not JSON'],
    ['leaves out the secret', 'echo \'{"Username":"u"}\'', 'lacks'],
    ['hangs, and a child of it too', 'sleep 60', 'within 100 ms'],
  ] as const;
  it.each(BROKEN)('R48 a helper that %s is an error that tells no secret', async (_, script, message) => {
    await install('bad', script);
    // Only the one that hangs has to be cut off: starting a shell may take longer on a busy machine.
    const failure = helperGet('bad', 'r.test', {
      env: environment.env,
      signal,
      ...(message.startsWith('within') ? { timeoutMs: 100 } : {}),
    });
    await expect(failure).rejects.toMatchObject({
      code: 'CREDENTIALS_HELPER_FAILED',
      message: expect.stringContaining(message) as string,
    });
    await expect(failure).rejects.not.toThrow('secret');
    expect(await codeOf(helperGet('missing', 'r.test', { env: environment.env, signal }))).toBe(
      'CREDENTIALS_HELPER_FAILED',
    );
  });

  it('login writes a private file and keeps what else is in it; logout removes every trace', async () => {
    await put('.docker/config.json', {
      psFormat: 'x',
      auths: { 'other.test': { auth: 'b' }, 'https://r.test/v1/': { auth: 'old' } },
      proxies: { default: {} },
    });
    await chmod(join(home, '.docker/config.json'), 0o644);
    const entry = { username: 'me', secret: 'p:w' };
    expect(await storeCredential('https://R.test/', entry, { environment, signal })).toEqual({
      kind: 'file',
      where: join(home, '.docker/config.json'),
    });
    expect(await json('.docker/config.json')).toEqual({
      psFormat: 'x',
      auths: { 'other.test': { auth: 'b' }, 'r.test': { auth: b64('me:p:w') } },
      proxies: { default: {} },
    });
    expect((await stat(join(home, '.docker/config.json'))).mode & 0o777).toBe(0o600);
    expect(await ask('r.test')).toEqual({ kind: 'basic', username: 'me', password: 'p:w' });
    await put('.config/containers/auth.json', { auths: { 'r.test': { auth: 'x' } } });
    expect(await eraseCredential('r.test', { environment, signal })).toHaveLength(2);
    expect(await json('.docker/config.json')).toMatchObject({ auths: { 'other.test': { auth: 'b' } } });
    expect(await ask('r.test')).toBeUndefined();
    expect(await eraseCredential('r.test', { environment, signal })).toEqual([]);
  });

  it('login makes the folder, uses Docker’s key for its hub, and keeps a link a link', async () => {
    await mkdir(join(home, 'dotfiles'));
    await put('dotfiles/config.json', {});
    await mkdir(join(home, '.docker'));
    await symlink(join(home, 'dotfiles/config.json'), join(home, '.docker/config.json'));
    await storeCredential('docker.io', { username: 'u', secret: 's' }, { environment, signal });
    expect((await lstat(join(home, '.docker/config.json'))).isSymbolicLink()).toBe(true);
    expect(await json('dotfiles/config.json')).toEqual({
      auths: { 'https://index.docker.io/v1/': { auth: b64('u:s') } },
    });
    const fresh = { env: { REGISTRY_AUTH_FILE: join(home, 'new/auth.json') }, home };
    await storeCredential('r.test', { username: 'u', secret: 's' }, { environment: fresh, signal });
    expect((await stat(join(home, 'new'))).mode & 0o777).toBe(0o700);
    expect(
      await codeOf(storeCredential('not a host', { username: 'u', secret: 's' }, { environment, signal })),
    ).toBe('REFERENCE_INVALID');
    expect(
      await codeOf(storeCredential('r.test', { username: 'u:v', secret: 's' }, { environment, signal })),
    ).toBe('CREDENTIALS_FILE_INVALID');
  });

  it('login and logout go through the helper that is configured, and leave no secret in the file', async () => {
    await install('keeper', KEEPER);
    await put('.docker/config.json', {
      credHelpers: { 'r.test': 'keeper' },
      auths: { 'r.test': { auth: b64('old:secret') } },
    });
    expect(
      await storeCredential('r.test', { username: 'me', secret: 'pw' }, { environment, signal }),
    ).toEqual({ kind: 'helper', where: 'docker-credential-keeper' });
    expect(await json('kept')).toEqual({ ServerURL: 'r.test', Username: 'me', Secret: 'pw' });
    expect(await json('.docker/config.json')).toEqual({
      credHelpers: { 'r.test': 'keeper' },
      auths: { 'r.test': {} },
    });
    expect(await ask('r.test')).toEqual({ kind: 'basic', username: 'me', password: 'pw' });
    expect((await eraseCredential('r.test', { environment, signal })).map((entry) => entry.kind)).toEqual([
      'helper',
      'file',
    ]);
    expect(await ask('r.test')).toBeUndefined();
    expect(await eraseCredential('r.test', { environment, signal })).toEqual([]);
  });

  it('a broken file is never overwritten', async () => {
    await put('.docker/config.json', '{ "auths": ');
    expect(
      await codeOf(storeCredential('r.test', { username: 'u', secret: 's' }, { environment, signal })),
    ).toBe('CREDENTIALS_FILE_INVALID');
    expect(await readFile(join(home, '.docker/config.json'), 'utf8')).toBe('{ "auths": ');
  });
});

describe('checkLogin', () => {
  it('asks the registry, by Basic or by a token without scope', async () => {
    const transfer = { signal, emit: ignoreEvents };
    const good = `Basic ${b64('u:p')}`;
    await using registry = await scriptedRegistry({
      'GET /v2/': (asked) =>
        asked.headers.authorization === good
          ? {}
          : { status: 401, headers: { 'www-authenticate': 'Basic realm="x"' } },
    });
    const check = (host: string, password: string): Promise<void> =>
      checkLogin(host, { kind: 'basic', username: 'u', password }, { client: {}, transfer });
    await check(registry.host, 'p');
    expect(await codeOf(check(registry.host, 'wrong'))).toBe('REGISTRY_UNAUTHORIZED');
    await using tokens = await scriptedRegistry({
      'GET /v2/': (asked) =>
        asked.headers.authorization === 'Bearer t'
          ? {}
          : {
              status: 401,
              headers: {
                'www-authenticate': `Bearer realm="http://${asked.headers.host}/token",service="s"`,
              },
            },
      'GET /token': (asked) =>
        asked.headers.authorization === good ? { body: '{"token":"t"}' } : { status: 401 },
    });
    await check(tokens.host, 'p');
    expect(await codeOf(check(tokens.host, 'wrong'))).toBe('REGISTRY_UNAUTHORIZED');
  });
});
