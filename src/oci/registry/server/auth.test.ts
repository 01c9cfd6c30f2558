import { connect as connectPlain } from 'node:net';
import { connect } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  asking,
  codeOf,
  collect,
  LAYER,
  type ServedWorld,
  servedWorld,
  TEST_CA,
  TEST_CLIENT_KEY,
  TEST_SERVER_CERT,
  TEST_SERVER_KEY,
} from '../../../testkit/registry/index.ts';
import { digestOf, parseReference } from '../../names/index.ts';
import type { ServeAuth } from './types.ts';

const USERS = { alice: 'pass:word', bob: 'other' };
const tls = { cert: TEST_SERVER_CERT, key: TEST_SERVER_KEY };
const basic = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

let world: ServedWorld;
let now: number;
beforeEach(async () => {
  world = await servedWorld();
  now = Date.UTC(2026, 0, 1);
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

const statusOf = async (line: string, authorization?: string): Promise<number> =>
  (await world.ask(line, authorization === undefined ? {} : { headers: { authorization } })).status;

interface Given {
  readonly token: string;
  readonly access_token: string;
  readonly expires_in: number;
  readonly refresh_token?: string;
}

async function tokenFor(query: string, authorization = basic('alice', 'pass:word')): Promise<Given> {
  const answer = await world.ask(`GET /token?service=skycap&${query}`, { headers: { authorization } });
  expect([query, answer.status]).toEqual([query, 200]);
  return JSON.parse(answer.body.toString()) as Given;
}

describe('basic', () => {
  beforeEach(async () => {
    await world.image('docker.io/library/tool:1');
    await world.start({ auth: { kind: 'basic', users: USERS } });
  });

  it('lets in who knows a password, and nobody else', async () => {
    const refused = await world.ask('GET /v2/');
    expect(refused).toMatchObject({
      status: 401,
      code: 'UNAUTHORIZED',
      headers: { 'www-authenticate': 'Basic realm="skycap"' },
    });
    for (const line of ['GET /v2/', 'GET /v2/tool/manifests/1', 'GET /v2/_catalog', 'GET /v2/tool/tags/list'])
      expect([line, await statusOf(line, basic('alice', 'pass:word'))]).toEqual([line, 200]);
    for (const wrong of [
      basic('alice', 'other'),
      basic('carol', 'pass:word'),
      basic('__proto__', 'x'),
      basic('', ''),
      'Basic !!',
      'Bearer x',
    ])
      expect([wrong, await statusOf('GET /v2/tool/manifests/1', wrong)]).toEqual([wrong, 401]);
  });

  it('asks before it says what there is', async () => {
    for (const line of ['GET /v2/none/manifests/1', 'GET /elsewhere', 'GET /v2/A/manifests/1'])
      expect([line, await statusOf(line)]).toEqual([line, 401]);
  });

  it('tells a known user that it is read-only, and has no token service', async () => {
    expect(await statusOf('POST /v2/a/blobs/uploads/')).toBe(401);
    expect(await statusOf('POST /v2/a/blobs/uploads/', basic('bob', 'other'))).toBe(405);
    expect(await statusOf('GET /token', basic('bob', 'other'))).toBe(404);
  });
});

describe('token', () => {
  const auth = (more: Partial<ServeAuth> = {}): ServeAuth => ({
    kind: 'token',
    users: USERS,
    now: () => now,
    ...more,
  });
  const begin = async (more: Partial<ServeAuth> = {}): Promise<void> => {
    await world.image('docker.io/library/tool:1');
    await world.start({ writable: true, auth: auth(more) });
  };

  it('challenges with its own realm and the scope that is needed', async () => {
    await begin();
    const challenge = async (line: string): Promise<unknown> =>
      (await world.ask(line)).headers['www-authenticate'];
    const bearer = `Bearer realm="http://${world.served.host}/token",service="skycap"`;
    expect(await challenge('GET /v2/')).toBe(bearer);
    expect(await challenge('GET /v2/a/b/manifests/1')).toBe(`${bearer},scope="repository:a/b:pull"`);
    expect(await challenge('PUT /v2/a/manifests/1')).toBe(`${bearer},scope="repository:a:pull,push"`);
    expect(await challenge('POST /v2/a/blobs/uploads/')).toBe(`${bearer},scope="repository:a:pull,push"`);
    expect(await challenge(`DELETE /v2/a/blobs/${digestOf('')}`)).toBe(
      `${bearer},scope="repository:a:delete"`,
    );
    expect(await challenge('GET /v2/_catalog')).toBe(`${bearer},scope="registry:catalog:*"`);
  });

  it('gives a token for what was asked and no more, for a while', async () => {
    await begin();
    const { token, access_token, expires_in } = await tokenFor('scope=repository:tool:pull');
    expect([access_token, expires_in]).toEqual([token, 300]);
    const bearer = `Bearer ${token}`;
    expect(await statusOf('GET /v2/', bearer)).toBe(200);
    expect(await statusOf('GET /v2/tool/manifests/1', bearer)).toBe(200);
    expect(await statusOf('GET /v2/other/manifests/1', bearer)).toBe(401);
    expect(await statusOf('POST /v2/tool/blobs/uploads/', bearer)).toBe(401);
    expect(await statusOf('DELETE /v2/tool/manifests/1', bearer)).toBe(401);
    expect(await statusOf('GET /v2/_catalog', bearer)).toBe(401);
    now += 299_000;
    expect(await statusOf('GET /v2/tool/manifests/1', bearer)).toBe(200);
    now += 1_000;
    expect(await statusOf('GET /v2/tool/manifests/1', bearer)).toBe(401);
  });

  it('takes several scopes, also in one, and a name with a colon for none of its own', async () => {
    await begin();
    const { token } = await tokenFor(
      'scope=repository:a:pull,push&scope=repository:b:pull%20repository:c:*&scope=repository:A:pull&scope=x',
    );
    const bearer = `Bearer ${token}`;
    expect(await statusOf('POST /v2/a/blobs/uploads/', bearer)).toBe(202);
    expect(await statusOf('GET /v2/b/manifests/1', bearer)).toBe(404);
    expect(await statusOf('DELETE /v2/c/manifests/1', bearer)).toBe(404);
  });

  it('refuses tokens that are not its own, or were changed', async () => {
    await begin();
    const { token, refresh_token } = await tokenFor('scope=repository:tool:pull&offline_token=true');
    const [body = '', signature = ''] = token.split('.');
    const changed = Buffer.from(Buffer.from(body, 'base64url').toString().replace('tool', 'evil')).toString(
      'base64url',
    );
    for (const wrong of [`${changed}.${signature}`, `${body}.`, body, `${body}.AAAA`, '', refresh_token]) {
      expect(await statusOf('GET /v2/', `Bearer ${wrong}`)).toBe(401);
      expect(await statusOf('GET /v2/evil/manifests/1', `Bearer ${wrong}`)).toBe(401);
      expect(await statusOf('GET /v2/tool/manifests/1', `Bearer ${wrong}`)).toBe(401);
    }
    await world.start({ writable: true, auth: auth() });
    expect(await statusOf('GET /v2/tool/manifests/1', `Bearer ${token}`)).toBe(401);
  });

  it('gives no token for a wrong password', async () => {
    await begin();
    expect(await statusOf('GET /token?service=skycap', basic('alice', 'wrong'))).toBe(401);
    expect(await statusOf('DELETE /token')).toBe(405);
  });

  it('takes passwords and refresh tokens as OAuth2 has them', async () => {
    await begin();
    const post = async (form: Record<string, string>): Promise<{ status: number; given: Partial<Given> }> => {
      const answer = await world.ask('POST /token', { body: new URLSearchParams(form).toString() });
      return { status: answer.status, given: JSON.parse(answer.body.toString()) as Partial<Given> };
    };
    const scope = 'repository:tool:pull';
    const first = await post({
      grant_type: 'password',
      username: 'alice',
      password: 'pass:word',
      access_type: 'offline',
      service: 'skycap',
      scope,
    });
    expect(first.status).toBe(200);
    const refresh_token = first.given.refresh_token ?? '';
    const second = await post({ grant_type: 'refresh_token', refresh_token, scope });
    expect(await statusOf('GET /v2/tool/manifests/1', `Bearer ${second.given.access_token}`)).toBe(200);
    expect(
      (await post({ grant_type: 'refresh_token', refresh_token: second.given.token ?? '' })).status,
    ).toBe(401);
    expect((await post({ grant_type: 'password', username: 'alice', password: 'x' })).status).toBe(401);
    expect((await post({ grant_type: 'other' })).status).toBe(401);
    expect((await post({ grant_type: 'password', username: 'x'.repeat(20_000) })).status).toBe(413);
    now += 25 * 3_600_000;
    expect((await post({ grant_type: 'refresh_token', refresh_token, scope })).status).toBe(401);
  });

  it('reads no more of a form than a form may have, whatever length it announces', async () => {
    await begin();
    const socket = connectPlain(world.served.port, '127.0.0.1');
    const body = 'x'.repeat(20_000);
    const head = 'POST /token HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n';
    socket.write(`${head}${body.length.toString(16)}\r\n${body}\r\n`);
    expect((await collect(socket)).toString()).toMatch(/^HTTP\/1\.1 413 .*SIZE_INVALID/s);
  });

  it('lets anyone pull where that is allowed, and no more', async () => {
    await begin({ anonymousPull: true });
    const answer = await world.ask('GET /token?scope=repository:tool:pull,push,delete');
    const bearer = `Bearer ${(JSON.parse(answer.body.toString()) as Given).token}`;
    expect(await statusOf('GET /v2/tool/manifests/1', bearer)).toBe(200);
    expect(await statusOf('POST /v2/tool/blobs/uploads/', bearer)).toBe(401);
    expect(await statusOf('DELETE /v2/tool/manifests/1', bearer)).toBe(401);
  });

  it('mounts only from what may be read', async () => {
    await begin();
    const own = `Bearer ${(await tokenFor('scope=repository:a:pull,push')).token}`;
    const both = `Bearer ${(await tokenFor('scope=repository:a:pull,push&scope=repository:tool:pull')).token}`;
    const line = `POST /v2/a/blobs/uploads/?mount=${digestOf(LAYER)}&from=tool`;
    const refused = await world.ask(line, { headers: { authorization: own } });
    expect([refused.status, refused.headers['www-authenticate']]).toEqual([
      401,
      expect.stringContaining('scope="repository:a:pull,push repository:tool:pull"'),
    ]);
    expect(await statusOf(line, both)).toBe(201);
    expect(await statusOf(line.replace('=tool', '=../tool'), own)).toBe(202);
  });

  it('checks Host and Origin at the token service too', async () => {
    await begin();
    const authorization = basic('alice', 'pass:word');
    for (const headers of [{ host: 'evil.test' }, { origin: 'http://evil.test' }])
      expect(
        await world.ask('GET /token', { headers: { authorization, ...headers } as Record<string, string> }),
      ).toMatchObject({ status: 403, code: 'DENIED' });
  });

  it.each(['basic', 'token'] as const)('lets our client in with the right password: %s', async (kind) => {
    await world.start({ writable: true, auth: auth({ kind }) });
    const at = parseReference(`${world.served.host}/team/app:1`);
    const blob = { mediaType: 'x', digest: digestOf(LAYER), size: LAYER.length };
    const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
      yield LAYER.subarray(offset);
    };
    await using known = asking({
      credentials: async () => ({ kind: 'basic', username: 'alice', password: 'pass:word' }),
    });
    expect(await known.client.putBlob(at, blob, source, known.options)).toBe('uploaded');
    await using unknown = asking();
    expect(await codeOf(unknown.client.hasBlob(at, blob.digest, unknown.options))).toBe(
      'REGISTRY_UNAUTHORIZED',
    );
  });
});

describe('TLS', () => {
  it('serves over https alone, with a realm of the same kind', async () => {
    await world.image('docker.io/library/tool:1');
    const { url, host } = await world.start({ tls, auth: { kind: 'token', users: USERS } });
    expect(url).toBe(`https://${host}`);
    const refused = await world.ask('GET /v2/');
    expect(refused.headers['www-authenticate']).toBe(`Bearer realm="${url}/token",service="skycap"`);
    await expect(world.ask(`GET http://${host}/v2/`)).rejects.toThrow();
    const at = parseReference(`${host}/tool:1`);
    const credentials = async (): Promise<{ kind: 'basic'; username: string; password: string }> => ({
      kind: 'basic',
      username: 'bob',
      password: 'other',
    });
    await using trusting = asking({ credentials, tls: () => ({ ca: TEST_CA }) });
    expect((await trusting.client.getManifest(at, trusting.options)).descriptor.size).toBeGreaterThan(0);
    await using doubting = asking({ credentials });
    expect(await codeOf(doubting.client.getManifest(at, doubting.options))).toBe('REGISTRY_TLS');
  });

  it.each([
    ['a key that is not its own', { cert: TEST_SERVER_CERT, key: TEST_CLIENT_KEY }],
    ['no certificate', { cert: 'none', key: TEST_SERVER_KEY }],
  ])('says so when it has %s', async (_what, wrong) => {
    expect(await codeOf(world.start({ tls: wrong }))).toBe('REGISTRY_SERVE_FAILED');
  });

  it('checks Host and Origin as without', async () => {
    const { port } = await world.start({ tls, hostNames: ['registry.test'] });
    const first = async (header: string): Promise<string | undefined> => {
      const socket = connect({ port, host: '127.0.0.1', ca: TEST_CA, servername: 'localhost' });
      socket.write(`GET /v2/ HTTP/1.1\r\n${header}\r\nConnection: close\r\n\r\n`);
      return (await collect(socket)).toString().split('\r\n')[0];
    };
    expect(await first('Host: registry.test:5000')).toBe('HTTP/1.1 200 OK');
    expect(await first('Host: evil.test')).toBe('HTTP/1.1 403 Forbidden');
    expect(await first('Host: localhost\r\nOrigin: https://evil.test')).toBe('HTTP/1.1 403 Forbidden');
  });
});
