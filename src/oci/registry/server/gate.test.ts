import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Answer, type ServedWorld, servedWorld } from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import type { ServeAuth, ServeOptions } from './types.ts';

const NOW = Date.UTC(2026, 0, 1);
const USERS = { alice: 'secret', '': 'nobody' };
const encoded = (text: string): string => Buffer.from(text).toString('base64');
const ALICE = `Basic ${encoded('alice:secret')}`;
const NEEDED = 'authentication is needed here';

let world: ServedWorld;
let now: number;
beforeEach(async () => {
  world = await servedWorld();
  await world.image('docker.io/library/tool:1');
  now = NOW;
});
afterEach(() => world[Symbol.asyncDispose]());

const start = (kind: ServeAuth['kind'], auth: Partial<ServeAuth> = {}, options: Partial<ServeOptions> = {}) =>
  world.start({ writable: true, ...options, auth: { kind, users: USERS, now: () => now, ...auth } });
const ask = (line: string, authorization?: string): Promise<Answer> =>
  world.ask(line, authorization === undefined ? {} : { headers: { authorization } });
const status = async (line: string, authorization?: string): Promise<number> =>
  (await ask(line, authorization)).status;

interface Given {
  readonly token: string;
  readonly refresh_token?: string;
  readonly issued_at: string;
}
const given = async (query: string, authorization?: string): Promise<Given> =>
  JSON.parse((await ask(`GET /token?${query}`, authorization)).body.toString()) as Given;
const access = ({ token }: Given): readonly string[] =>
  (
    JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()) as {
      access: { type: string; name: string; actions: string[] }[];
    }
  ).access.map(({ type, name, actions }) => `${type}:${name}:${actions.join(',')}`);
const post = (form: Record<string, string>): Promise<Answer> =>
  world.ask('POST /token', { body: new URLSearchParams(form).toString() });

describe('without users', () => {
  it('there is no token service', async () => {
    await world.start();
    expect(await ask('GET /token')).toMatchObject({
      status: 404,
      code: 'NAME_UNKNOWN',
      message: 'no such address',
    });
  });
});

describe('with passwords', () => {
  it('says that one is needed', async () => {
    await start('basic');
    expect(await ask('GET /v2/')).toMatchObject({ code: 'UNAUTHORIZED', message: NEEDED });
    expect(await ask('GET /token', ALICE)).toMatchObject({ status: 404, code: 'NAME_UNKNOWN' });
  });

  it.each([
    [200, ALICE],
    [200, ALICE.toLowerCase().replace(/ .*/, ` ${encoded('alice:secret')}`)],
    [200, ALICE.replace(' ', '  ')],
    [401, `x${ALICE}`],
    [401, `${ALICE} x`],
    [401, `Basic ${encoded('alice')}`],
    [401, `Basic ${encoded('alice:')}`],
    [401, `Basic ${encoded('carol:')}`],
    [401, `Basic ${encoded(':nobody')}`],
  ])('%i for %s', async (expected, authorization) => {
    await start('basic');
    expect(await status('GET /v2/', authorization)).toBe(expected);
  });

  it('lets anyone pull where that is allowed, but nobody with a wrong password', async () => {
    await start('basic', { anonymousPull: true });
    expect(await status('GET /v2/tool/manifests/1')).toBe(200);
    expect(await status('HEAD /v2/tool/manifests/1')).toBe(200);
    expect(await status('POST /v2/tool/blobs/uploads/')).toBe(401);
    expect(await status('GET /v2/_catalog')).toBe(401);
    expect(await status('GET /v2/tool/manifests/1', `Basic ${encoded('alice:x')}`)).toBe(401);
    expect(await status('GET /v2/_catalog', ALICE)).toBe(200);
    await start('basic');
    expect(await status('GET /v2/tool/manifests/1')).toBe(401);
  });
});

describe('what a token is for', () => {
  it.each([
    ['registry:catalog:*', 'registry:catalog:*'],
    ['registry:other:*', 'registry:other:'],
    ['other:a:pull', 'other:a:'],
    ['repository:a:*', 'repository:a:pull,push,delete'],
    ['repository:a:pull,fly', 'repository:a:pull'],
    ['repository:host:5000/a:pull', 'repository:host:5000/a:'],
    ['repository:A:*', 'repository:A:'],
    ['1repository:a:pull', undefined],
    ['repository:a:pull!', undefined],
    ['repository:a:', undefined],
    ['repository::pull', undefined],
    ['', undefined],
  ])('a user who asks for %j gets %s', async (scope, granted) => {
    await start('token');
    const got = await given(`scope=${encodeURIComponent(scope)}`, ALICE);
    expect(access(got)).toEqual(granted === undefined ? [] : [granted]);
  });

  it('is what the server does at all', async () => {
    const all = async (options: Partial<ServeOptions>): Promise<readonly string[]> => {
      await start('token', {}, options);
      return access(await given('scope=repository:a:*', ALICE));
    };
    expect(await all({ writable: false })).toEqual(['repository:a:pull']);
    expect(await all({ deletable: false })).toEqual(['repository:a:pull,push']);
    expect(await all({ writable: false, deletable: true })).toEqual(['repository:a:pull']);
  });

  it('is nothing for anyone, or to pull where that is allowed', async () => {
    const query = 'scope=repository:a:*&scope=registry:catalog:*&scope=repository:b:push';
    await start('token');
    expect(access(await given(query))).toEqual(['repository:a:', 'registry:catalog:', 'repository:b:']);
    await start('token', { anonymousPull: true });
    expect(access(await given(query))).toEqual(['repository:a:pull', 'registry:catalog:', 'repository:b:']);
  });

  it('is at most 32 things', async () => {
    await start('token');
    const scopes = Array.from({ length: 33 }, (_, index) => `repository:r${index}:pull`);
    expect(access(await given(`scope=${scopes.join('%20')}`, ALICE))).toEqual(scopes.slice(0, 32));
  });

  it('is looked at by kind, name and action, also for HEAD', async () => {
    await start('token');
    const bearer = async (scope: string): Promise<string> =>
      `Bearer ${(await given(`scope=${scope}`, ALICE)).token}`;
    const line = 'HEAD /v2/tool/manifests/1';
    expect(await status(line, await bearer('repository:tool:pull'))).toBe(200);
    expect(await status(line, await bearer('repository:tool:push'))).toBe(401);
    expect(await status(line, await bearer('repository:tools:pull'))).toBe(401);
    const catalog = await bearer('registry:catalog:*,pull');
    expect(await status('GET /v2/_catalog', catalog)).toBe(200);
    expect(await status('GET /v2/catalog/manifests/1', catalog)).toBe(401);
    const push = await bearer('repository:tool:push');
    expect(await status('POST /v2/tool/blobs/uploads/', push)).toBe(401);
    const both = await bearer('repository:tool:pull,push');
    const begun = await ask('POST /v2/tool/blobs/uploads/', both);
    expect(begun.status).toBe(202);
    const upload = String(begun.headers.location);
    expect(await status(`GET ${upload}`, await bearer('repository:tool:pull'))).toBe(401);
    expect(await status(`GET ${upload}`, both)).toBe(204);
    expect(await status(`DELETE ${upload}`, await bearer('repository:tool:delete'))).toBe(401);
    expect(await status(`DELETE ${upload}`, both)).toBe(204);
    expect(await status(`PUT /v2/tool/manifests/2`, await bearer('repository:tool:pull'))).toBe(401);
    expect(await status(`PUT /v2/tool/manifests/2`, both)).toBe(400);
    const mount = `POST /v2/tool/blobs/uploads/?mount=${digestOf('none')}`;
    expect(await status(`${mount}&from=other`, both)).toBe(401);
    expect(await status(mount, both)).toBe(202);
  });

  it('what nobody may do here needs no right, so that it can be told apart', async () => {
    await start('token', {}, { writable: false });
    const bearer = `Bearer ${(await given('', ALICE)).token}`;
    expect(await status('DELETE /v2/tool/manifests/1', bearer)).toBe(405);
    expect(await status('DELETE /v2/tool/manifests/1')).toBe(401);
  });
});

describe('a token', () => {
  it('is sent as the Authorization header of its kind, whole', async () => {
    await start('token');
    const { token } = await given('', ALICE);
    const [body = '', signature = ''] = token.split('.');
    expect(token).toMatch(/^[\w-]+\.[\w-]{43}$/);
    for (const right of [`Bearer ${token}`, `bearer ${token}`, `BEARER   ${token}`])
      expect([right, await status('GET /v2/', right)]).toEqual([right, 200]);
    for (const wrong of [
      `xBearer ${token}`,
      `Bearer ${token} x`,
      `Bearer !${token}`,
      `Bearer ${token}!`,
      `Bearer ${token}.x`,
      `Bearer ${body}!.${signature}`,
      `Bearer ${body}`,
      `Bearer .${signature}`,
      token,
      ALICE,
    ])
      expect([wrong, (await ask('GET /v2/', wrong)).message]).toEqual([wrong, NEEDED]);
  });

  it('comes as JSON that is not to be kept, with the time that it was made at', async () => {
    await start('token');
    const answer = await ask('GET /token?scope=repository:a:pull', ALICE);
    expect(answer.headers).toMatchObject({ 'content-type': 'application/json', 'cache-control': 'no-store' });
    expect(JSON.parse(answer.body.toString())).toEqual({
      token: expect.any(String),
      access_token: expect.any(String),
      expires_in: 300,
      issued_at: '2026-01-01T00:00:00.000Z',
    });
  });

  it('comes with one to renew it where a user asks for that, in either way', async () => {
    await start('token', { anonymousPull: true });
    const renewable = async (query: string, authorization?: string): Promise<boolean> =>
      (await given(query, authorization)).refresh_token !== undefined;
    expect(await renewable('offline_token=true', ALICE)).toBe(true);
    expect(await renewable('access_type=offline', ALICE)).toBe(true);
    expect(await renewable('offline_token=false&access_type=online', ALICE)).toBe(false);
    expect(await renewable('', ALICE)).toBe(false);
    expect(await renewable('offline_token=true')).toBe(false);
  });

  it('to renew with lasts a day, names a user and opens nothing by itself', async () => {
    await start('token');
    const { refresh_token = '' } = await given('offline_token=true&scope=repository:a:pull', ALICE);
    const claims = JSON.parse(Buffer.from(refresh_token.split('.')[0] ?? '', 'base64url').toString());
    expect(claims).toEqual({ use: 'refresh', user: 'alice', expires: NOW + 86_400_000, access: [] });
    const renew = (): Promise<Answer> => post({ grant_type: 'refresh_token', refresh_token });
    now += 86_399_999;
    expect((await renew()).status).toBe(200);
    now += 1;
    expect(await renew()).toMatchObject({ status: 401, message: 'wrong user name or password' });
  });

  it('is for who says so in the header before what a form says', async () => {
    await start('token');
    const form = new URLSearchParams({ grant_type: 'password', username: 'alice', password: 'secret' });
    const wrong = { authorization: `Basic ${encoded('alice:x')}` };
    expect(await world.ask('POST /token', { headers: wrong, body: form.toString() })).toMatchObject({
      status: 401,
      code: 'UNAUTHORIZED',
      message: 'wrong user name or password',
    });
    expect((await post({ grant_type: 'password', username: 'alice', password: 'secret' })).status).toBe(200);
  });

  it('is for nobody whose form says too little', async () => {
    await start('token', { anonymousPull: true });
    for (const form of [
      {},
      { username: 'alice', password: 'secret' },
      { grant_type: 'password' },
      { grant_type: 'password', username: 'alice' },
      { grant_type: 'password', password: 'secret' },
      { grant_type: 'refresh_token' },
      { grant_type: 'refresh_token', refresh_token: 'x' },
    ] as Record<string, string>[])
      expect([form, (await post(form)).status]).toEqual([form, 401]);
  });

  it('is asked for by GET and POST alone, with a form of 16 KiB at most', async () => {
    await start('token');
    expect(await ask('PUT /token', ALICE)).toMatchObject({
      status: 405,
      code: 'UNSUPPORTED',
      message: 'no such operation',
    });
    const ofSize = async (size: number): Promise<Answer> =>
      await world.ask('POST /token', { body: 'x'.repeat(size) });
    expect((await ofSize(16_384)).status).toBe(401);
    expect(await ofSize(16_385)).toMatchObject({
      status: 413,
      code: 'SIZE_INVALID',
      message: 'at most 16384 bytes are taken here',
    });
  });
});
