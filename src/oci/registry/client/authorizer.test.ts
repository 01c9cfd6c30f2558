import { describe, expect, it } from 'vitest';
import { type Canned, cannedResponse, jumpingClock } from '../../../testkit/registry/index.ts';
import { type AuthorizeRequest, createAuthorizer } from './auth.ts';
import type { Challenge } from './challenge.ts';
import type { Host } from './host.ts';
import type { Credential } from './types.ts';

const bearer = (params: Readonly<Record<string, string>> = {}): Challenge => ({
  scheme: 'bearer',
  params: { realm: 'https://r.test/token', ...params },
});
const basicScheme: Challenge = { scheme: 'basic', params: { realm: 'x' } };

/** Its token server gives `t1`, `t2` … unless told otherwise. */
function world(more: { readonly credential?: Credential; readonly reply?: (count: number) => Canned } = {}) {
  const asked: string[] = [];
  const looked: unknown[] = [];
  const clock = jumpingClock();
  const { signal } = new AbortController();
  const hostNamed = (name: string, challenges: readonly Challenge[] = []): Host => ({
    name,
    challenges,
    learn: () => {},
    checkTarget: () => {},
    origin: async () => new URL('https://r.test'),
    send: async (url) => {
      asked.push(url.search);
      const count = asked.length;
      return cannedResponse(
        more.reply?.(count) ?? { body: JSON.stringify({ token: `t${count}`, expires_in: 300 }) },
      );
    },
  });
  const host = hostNamed('r.test');
  const authorizer = createAuthorizer({
    credentials: async (target, options) => {
      looked.push([target, options]);
      return more.credential;
    },
    realms: {},
    clock,
  });
  const get = (request: Partial<AuthorizeRequest> = {}) =>
    authorizer.authorize({
      host,
      repository: 'a',
      scopes: ['repository:a:pull'],
      signal,
      challenges: [bearer()],
      ...request,
    });
  const header = async (request: Partial<AuthorizeRequest> = {}) => (await get(request))?.header;
  return { authorizer, get, header, asked, looked, clock, host, hostNamed, signal };
}

describe('a token', () => {
  it('is used until five seconds before its end and not after', async () => {
    const { header, clock } = world();
    expect(await header()).toBe('Bearer t1');
    clock.advance(294_999);
    expect(await header()).toBe('Bearer t1');
    clock.advance(1);
    expect(await header()).toBe('Bearer t2');
  });

  it.each([undefined, 0, 1, 60])(
    'that is said to live for %s seconds lives for a minute',
    async (seconds) => {
      const { header, clock } = world({
        reply: (count) => ({ body: JSON.stringify({ token: `t${count}`, expires_in: seconds }) }),
      });
      await header();
      clock.advance(54_999);
      expect(await header()).toBe('Bearer t1');
      clock.advance(1);
      expect(await header()).toBe('Bearer t2');
    },
  );

  it('is got anew once it was forgotten, and no other with it', async () => {
    const { authorizer, get, header } = world();
    const first = await get();
    const other = { scopes: ['repository:b:pull'] };
    await get(other);
    if (first !== undefined) authorizer.forget(first);
    expect(await header()).toBe('Bearer t3');
    expect(await header(other)).toBe('Bearer t2');
  });

  it('is used for what its scopes cover, of the same registry and realm alone', async () => {
    const { header, hostNamed, asked } = world();
    const wide = { scopes: ['repository:a:pull,push', 'repository:b:pull'] };
    await header(wide);
    expect(await header({ scopes: ['repository:a:pull'] })).toBe('Bearer t1');
    expect(await header({ scopes: ['repository:b:pull', 'repository:a:push'] })).toBe('Bearer t1');
    expect(await header({ scopes: ['repository:b:pull', 'repository:c:pull'] })).toBe('Bearer t2');
    expect(await header({ ...wide, host: hostNamed('r.test') })).toBe('Bearer t3');
    expect(await header({ ...wide, challenges: [bearer({ realm: 'https://r.test/other' })] })).toBe(
      'Bearer t4',
    );
    expect(asked).toHaveLength(4);
  });

  it('is asked for with the scopes of the request, then those of its challenge', async () => {
    const { header, asked } = world();
    await header({ challenges: [bearer({ scope: 'repository:z:pull repository:a:pull', service: 's' })] });
    expect(asked).toEqual(['?service=s&scope=repository%3Aa%3Apull&scope=repository%3Az%3Apull']);
  });

  it('is asked for once by many, and again by the next after a refusal', async () => {
    const { get, asked } = world({
      reply: (count) => (count === 1 ? { status: 401 } : { body: '{"token":"t"}' }),
    });
    const failed = await Promise.allSettled([get(), get(), get()]);
    expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(asked).toHaveLength(1);
    expect((await get())?.header).toBe('Bearer t');
    await Promise.all([get({ scopes: ['x'] }), get({ scopes: ['y'] }), get({ scopes: ['x'] })]);
    expect(asked).toHaveLength(4);
  });

  it('of one registry is not waited for by another that asks at the same time', async () => {
    const { header, hostNamed, asked } = world();
    const headers = [header(), header({ host: hostNamed('s.test') }), header({ repository: 'b' })];
    expect(new Set(await Promise.all(headers)).size).toBe(3);
    expect(asked).toHaveLength(3);
  });

  it('waited for in vain ends by one’s own signal where that is the one that stops', async () => {
    const { get } = world({ reply: () => ({ status: 401 }) });
    const stop = new AbortController();
    const first = get();
    const second = get({ signal: stop.signal });
    stop.abort(new Error('enough'));
    await expect(first).rejects.toMatchObject({ code: 'REGISTRY_UNAUTHORIZED' });
    await expect(second).rejects.toThrow('enough');
  });

  it('is authenticated where there are credentials', async () => {
    expect(await world().get()).toEqual({ header: 'Bearer t1', authenticated: false });
    const credential: Credential = { kind: 'basic', username: 'u', password: 'p' };
    const known = world({ credential });
    expect(await known.get()).toEqual({ header: 'Bearer t1', authenticated: true });
    expect(known.looked).toEqual([[{ host: 'r.test', repository: 'a' }, { signal: known.signal }]]);
  });

  it('of the kind that is sent as it stands is not asked for', async () => {
    const ready = world({ credential: { kind: 'registry-token', token: 'ready' } });
    expect(await ready.get()).toEqual({ header: 'Bearer ready', authenticated: true });
    expect(ready.asked).toEqual([]);
  });
});

describe('a challenge', () => {
  const credential: Credential = { kind: 'basic', username: 'u', password: 'p:q' };
  const U = `Basic ${Buffer.from('u:p:q').toString('base64')}`;

  it('for user and password is answered with them, or with nothing', async () => {
    const known = world({ credential });
    expect(await known.get({ challenges: [basicScheme] })).toEqual({ header: U, authenticated: true });
    expect(known.looked).toEqual([[{ host: 'r.test', repository: 'a' }, { signal: known.signal }]]);
    expect(await world().get({ challenges: [basicScheme] })).toBeUndefined();
  });

  it.each<Credential>([
    { kind: 'identity-token', token: 'x' },
    { kind: 'registry-token', token: 'x' },
  ])('for user and password is not answered with %j', async (token) => {
    await expect(world({ credential: token }).get({ challenges: [basicScheme] })).rejects.toMatchObject({
      code: 'REGISTRY_AUTH_INVALID',
      message: 'r.test wants a user and password, but a token is stored for it',
      hint: 'log in again with: skycap login r.test',
    });
  });

  it('for a token comes first, unless it says not where', async () => {
    const noRealm: Challenge = { scheme: 'bearer', params: { service: 's' } };
    const { header } = world({ credential });
    expect(await header({ challenges: [basicScheme, bearer()] })).toBe('Bearer t1');
    expect(await header({ challenges: [noRealm, basicScheme] })).toBe(U);
    const strange = [noRealm, ...['a', 'b', 'c', 'd', 'e'].map((scheme) => ({ scheme, params: {} }))];
    await expect(header({ challenges: strange })).rejects.toMatchObject({
      code: 'REGISTRY_AUTH_INVALID',
      message:
        'r.test asks for authentication by "bearer without a realm, a, b, c, d", which is not known here',
      hint: 'ask who runs the registry for basic or bearer authentication',
    });
  });

  it('of before counts where this request has none of its own, and only an own one is an error', async () => {
    const { authorizer, hostNamed, signal, header } = world({ credential });
    const ask = (host: Host, challenges?: readonly Challenge[]) =>
      authorizer.authorize({
        host,
        repository: 'a',
        scopes: [],
        signal,
        ...(challenges === undefined ? {} : { challenges }),
      });
    expect((await ask(hostNamed('r.test', [basicScheme])))?.header).toBe(U);
    expect(await ask(hostNamed('r.test', [{ scheme: 'ntlm', params: {} }]))).toBeUndefined();
    expect(await ask(hostNamed('r.test'))).toBeUndefined();
    expect(await header({ challenges: [] })).toBeUndefined();
  });
});
