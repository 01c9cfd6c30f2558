import { execFile } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lacking } from '../../src/testkit/programs.ts';
import { TEST_CA, TEST_SERVER_CERT, TEST_SERVER_KEY } from '../../src/testkit/registry/index.ts';
import { expectCode, makeWorld, type Running, type World } from '../support/world.ts';

const PASSWORD = 'pass:of-alice';

const lacks = lacking('registry serve', { curl: 'curl' });

describe('registry serve', () => {
  let world: World;
  beforeAll(async () => {
    world = await makeWorld('oci-runtime');
    const tree = world.bundle({ 'etc/motd': 'hello\n' });
    expectCode(await world.skycap(['image', 'import', tree, 'localhost/one:1']), 0);
    put('ca.pem', TEST_CA);
    put('cert.pem', TEST_SERVER_CERT);
    put('key.pem', TEST_SERVER_KEY);
    put('users', `# of the tests\nalice:${PASSWORD}\n`, 0o600);
  });
  afterAll(() => world?.[Symbol.asyncDispose]());

  function put(name: string, content: string, mode = 0o644): void {
    writeFileSync(join(world.directory, name), content);
    chmodSync(join(world.directory, name), mode);
  }

  async function serve(...flags: readonly string[]): Promise<Running & { readonly url: string }> {
    const running = world.start(['registry', 'serve', '--port', '0', '-o', 'json', ...flags], {
      cwd: world.directory,
    });
    let printed = '';
    running.process.stdout?.on('data', (part: string) => {
      printed += part;
    });
    await running.said(/127\.0\.0\.1:\d+/);
    const url = /https?:\/\/127\.0\.0\.1:\d+/.exec(printed)?.[0];
    return { ...running, url: url ?? printed };
  }

  async function stop(running: Running): Promise<void> {
    running.process.kill('SIGTERM');
    await running.ended;
  }

  /** Status and body by curl, whose headers are its own. */
  async function curl(...words: readonly string[]): Promise<readonly [number, string]> {
    const { stdout } = await promisify(execFile)('curl', ['-s', '-w', '\n%{http_code}', ...words], {
      cwd: world.directory,
    });
    const lines = stdout.split('\n');
    return [Number(lines.at(-1)), lines.slice(0, -1).join('\n')];
  }

  it.skipIf(lacks)(
    'speaks https and asks for users, each request checked for Host and Origin first',
    async () => {
      const running = await serve(
        ...['--tls-cert', 'cert.pem', '--tls-key', 'key.pem', '--auth', 'token', '--users', 'users'],
        ...['--server-name', 'registry.test'],
      );
      try {
        const ask = (path: string, ...words: readonly string[]) =>
          curl('--cacert', 'ca.pem', ...words, `${running.url}${path}`);
        expect(running.url).toMatch(/^https:/);
        await expect(curl(`${running.url}/v2/`)).rejects.toThrow();
        expect((await ask('/v2/one/manifests/1'))[0]).toBe(401);
        const token = async (user: string): Promise<readonly [number, string]> =>
          await ask('/token?service=skycap&scope=repository:one:pull', '-u', user);
        expect((await token('alice:wrong'))[0]).toBe(401);
        const given = JSON.parse((await token(`alice:${PASSWORD}`))[1]) as { token: string };
        const bearer = ['-H', `Authorization: Bearer ${given.token}`];
        expect((await ask('/v2/one/manifests/1', ...bearer))[0]).toBe(200);
        expect((await ask('/v2/one/manifests/1', ...bearer, '-X', 'DELETE'))[0]).toBe(405);
        expect((await ask('/v2/', ...bearer, '-H', 'Host: registry.test'))[0]).toBe(200);
        for (const header of [
          'Host: rebound.test',
          'Origin: https://evil.test',
          'Sec-Fetch-Site: cross-site',
        ])
          for (const path of ['/v2/', '/token'])
            expect([header, path, (await ask(path, ...bearer, '-H', header))[0]]).toEqual([
              header,
              path,
              403,
            ]);
      } finally {
        await stop(running);
      }
    },
  );

  it.skipIf(lacks)('takes pushes and deletions only as it was told to', async () => {
    const running = await serve('--writable', '--no-delete', '--sparse');
    try {
      const gone = { mediaType: 'l', digest: `sha256:${'0'.repeat(64)}`, size: 1 };
      put('sparse.json', JSON.stringify({ schemaVersion: 2, config: gone, layers: [gone] }));
      const type = 'Content-Type: application/vnd.oci.image.manifest.v1+json';
      const path = `${running.url}/v2/two/manifests/1`;
      expect((await curl('-X', 'PUT', '-H', type, '--data-binary', '@sparse.json', path))[0]).toBe(201);
      expect((await curl('-X', 'DELETE', path))[0]).toBe(405);
      expect((await curl(path))[0]).toBe(200);
    } finally {
      await stop(running);
    }
  });

  it.each([
    ['a key without a certificate', ['--tls-key', 'key.pem'], 2, '--tls-cert'],
    ['a certificate that is none', ['--tls-cert', 'users', '--tls-key', 'key.pem'], 28, 'PEM'],
    ['users without --auth', ['--users', 'users'], 2, '--auth'],
    ['--auth without users', ['--auth', 'basic'], 2, '--users'],
    ['a file of passwords that others can read', ['--auth', 'basic', '--users', 'open'], 2, 'chmod 600'],
    ['a line that is no user', ['--auth', 'basic', '--users', 'bad'], 2, 'bad:2'],
    ['a hash in place of a password', ['--auth', 'basic', '--users', 'hashed'], 2, 'hashed:1'],
    ['--sparse where nothing is written', ['--sparse'], 2, '--writable'],
    ['another address than loopback', ['--address', '0.0.0.0'], 28, '0.0.0.0'],
  ] as const)('refuses %s', async (_what, flags, code, said) => {
    put('open', `alice:${PASSWORD}\n`, 0o644);
    put('bad', `alice:${PASSWORD}\nbob\n`, 0o600);
    // As `htpasswd -B` writes it.
    put('hashed', 'alice:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n', 0o600);
    const ran = await world.skycap(['registry', 'serve', '--port', '0', ...flags], {
      cwd: world.directory,
    });
    expectCode(ran, code);
    expect(ran.stderr).toContain(said);
    expect(ran.stdout + ran.stderr).not.toContain(PASSWORD);
  });
});
