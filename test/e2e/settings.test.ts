import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Reply,
  type ScriptedRegistry,
  scriptedRegistry,
  TEST_CA,
} from '../../src/testkit/registry/index.ts';
import { type Home, makeHome, type Ran } from '../support/skycap.ts';

describe('what the configuration says of registries', () => {
  let home: Home;
  let tokens: ScriptedRegistry;
  let registry: ScriptedRegistry;
  const put = async (path: string, text: string): Promise<void> => {
    await mkdir(join(home.folder, path, '..'), { recursive: true });
    await writeFile(join(home.folder, path), text, { mode: 0o600 });
  };
  const login = (name: string): Promise<Ran> =>
    home.run(['login', name, '-u', 'acme', '--password-stdin'], { input: 'pw\n' });

  beforeAll(async () => {
    home = await makeHome();
    tokens = await scriptedRegistry({ 'GET /token': { body: '{"token":"t"}' } }, { tls: true });
    const challenge = (): Reply => ({
      status: 401,
      headers: { 'www-authenticate': `Bearer realm="https://${tokens.host}/token"` },
    });
    registry = await scriptedRegistry(
      { 'GET /v2/': ({ headers }) => (headers.authorization === 'Bearer t' ? {} : challenge()) },
      { tls: true },
    );
    await put('ca.pem', TEST_CA);
  });
  afterAll(async () => {
    await registry[Symbol.asyncDispose]();
    await tokens[Symbol.asyncDispose]();
    await home[Symbol.asyncDispose]();
  });

  it('reaches the client: authorities of a host and of its token server', async () => {
    const stranger = await login(registry.host);
    expect([stranger.exitCode, stranger.stderr]).toEqual([26, expect.stringContaining('REGISTRY_TLS')]);
    expect(stranger.stderr).toContain('hosts:');

    const ca = `{ca: ${join(home.folder, 'ca.pem')}}`;
    await put('config/skycap/config.yaml', `hosts:\n  ${registry.host}: ${ca}\n  ${tokens.host}: ${ca}\n`);
    expect(await login(registry.host)).toMatchObject({ exitCode: 0 });
    expect(tokens.asked.length).toBeGreaterThan(0);
    const shown = await home.run(['config', 'show', '-o', 'json']);
    expect(JSON.parse(shown.stdout)).toContainEqual({
      key: `hosts.${registry.host}`,
      value: { ca: join(home.folder, 'ca.pem') },
      from: join(home.folder, 'config/skycap/config.yaml'),
    });
  });

  it('may stand in registries.conf and certs.d', async () => {
    await put('config/skycap/config.yaml', '');
    for (const { host } of [registry, tokens])
      await put(`.config/containers/certs.d/${host}/ca.crt`, TEST_CA);
    expect(await login(registry.host)).toMatchObject({ exitCode: 0 });

    await put(
      '.config/containers/registries.conf',
      `[[registry]]\nlocation = "${registry.host}"\nblocked = true\n`,
    );
    const refused = await login(registry.host);
    expect([refused.exitCode, refused.stderr]).toEqual([26, expect.stringContaining('REGISTRY_BLOCKED')]);
    await put('.config/containers/registries.conf', 'blocked = \n');
    const broken = await home.run(['config', 'show']);
    expect([broken.exitCode, broken.stderr]).toEqual([2, expect.stringContaining('registries.conf:1')]);
  });
});
