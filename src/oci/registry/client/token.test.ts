import { describe, expect, it } from 'vitest';
import { Turns } from '../../../kernel/http/index.ts';
import { type Canned, cannedResponse, jumpingClock } from '../../../testkit/registry/index.ts';
import type { Host, HostRequest } from './host.ts';
import { fetchToken, type Token } from './token.ts';
import type { Credential } from './types.ts';

interface Sent extends HostRequest {
  readonly url: string;
}

const alice: Credential = { kind: 'basic', username: 'alice', password: 'p:w' };
const identity: Credential = { kind: 'identity-token', token: 'refresh-0' };
const GOOD: Canned = { body: '{"token":"t"}' };
const JSON_ONLY = { accept: 'application/json' };

interface Input {
  readonly credential?: Credential;
  readonly realm?: string;
  readonly service?: string;
  readonly scopes?: readonly string[];
  readonly refreshed?: Map<string, string>;
}

/** Asks `auth.r.test` of the registry `r.test`, which answers as told, in turn, the last answer for good. */
function ask(replies: readonly Canned[], input: Input = {}) {
  const sent: Sent[] = [];
  const host: Host = {
    name: 'r.test',
    challenges: [],
    learn: () => {},
    checkTarget: () => {},
    origin: async () => new URL('https://r.test'),
    send: async (url, request) => {
      sent.push({ url: url.href, ...request });
      return cannedResponse(replies[Math.min(sent.length, replies.length) - 1] as Canned);
    },
  };
  const { signal } = new AbortController();
  const exchanges = new Turns(1);
  const params = {
    realm: input.realm ?? 'https://auth.r.test/token?a=b',
    ...(input.service === undefined ? {} : { service: input.service }),
  };
  const token = (credential = input.credential): Promise<Token> =>
    fetchToken(
      { scheme: 'bearer', params },
      {
        host,
        scopes: input.scopes ?? ['one', 'two'],
        signal,
        clock: jumpingClock(),
        credential,
        realms: { 'r.test': ['auth.r.test'] },
        refreshed: input.refreshed ?? new Map(),
        exchanges,
      },
    );
  return { token, sent, signal };
}

const form = (sent: Sent | undefined): object => Object.fromEntries(new URLSearchParams(String(sent?.body)));
const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;

describe('a token is asked for', () => {
  it('with the query of the realm, the service and each scope, in its own lane', async () => {
    const { token, sent, signal } = ask([GOOD], { service: 'r' });
    await token();
    expect(sent).toEqual([
      {
        url: 'https://auth.r.test/token?a=b&service=r&scope=one&scope=two',
        headers: JSON_ONLY,
        signal,
        lane: 'control',
      },
    ]);
  });

  it('without a service where none is named, and without scopes where none are wanted', async () => {
    const { token, sent } = ask([GOOD], { scopes: [] });
    await token();
    expect(sent[0]?.url).toBe('https://auth.r.test/token?a=b');
  });

  it('with user and password, and the name once more', async () => {
    const { token, sent } = ask([GOOD], { credential: alice });
    await token();
    expect(sent[0]?.url).toBe('https://auth.r.test/token?a=b&scope=one&scope=two&account=alice');
    expect(sent[0]?.headers).toEqual({ ...JSON_ONLY, authorization: basic('alice:p:w') });
    expect(sent).toHaveLength(1);
  });

  it.each([404, 405])('by POST with the password where GET is answered with %i', async (status) => {
    const { token, sent, signal } = ask([{ status }, GOOD], { credential: alice, service: 'r' });
    expect((await token()).token).toBe('t');
    expect(sent[1]).toEqual({
      url: 'https://auth.r.test/token?a=b',
      method: 'POST',
      headers: { ...JSON_ONLY, 'content-type': 'application/x-www-form-urlencoded' },
      body: expect.any(String) as string,
      signal,
      lane: 'control',
    });
    expect(form(sent[1])).toEqual({
      grant_type: 'password',
      username: 'alice',
      password: 'p:w',
      client_id: 'skycap',
      scope: 'one two',
      service: 'r',
    });
  });

  it('once only where nobody has logged in', async () => {
    const { token, sent } = ask([{ status: 404 }]);
    await expect(token()).rejects.toMatchObject({
      code: 'REGISTRY_AUTH_INVALID',
      message: 'r.test: "auth.r.test/token" gives no token',
      hint: 'check the credentials with: skycap login r.test',
    });
    expect(sent).toHaveLength(1);
  });

  it('with a refresh token by POST, and by GET in the place of a password where that is not known', async () => {
    const { token, sent } = ask([{ status: 405 }, GOOD], { credential: identity });
    await token();
    expect(form(sent[0])).toEqual({
      grant_type: 'refresh_token',
      refresh_token: 'refresh-0',
      client_id: 'skycap',
      scope: 'one two',
    });
    expect(sent.map(({ method }) => method)).toEqual(['POST', undefined]);
    expect(sent[1]?.headers?.authorization).toBe(basic('00000000-0000-0000-0000-000000000000:refresh-0'));
    const named = ask([{ status: 404 }, GOOD], { credential: { ...identity, username: 'bob' } });
    await named.token();
    expect(named.sent[1]?.headers?.authorization).toBe(basic('bob:refresh-0'));
  });

  it('with the refresh token that came last for what was kept, of this registry and realm', async () => {
    const refreshed = new Map<string, string>();
    const replies = [
      { body: '{"token":"t","refresh_token":"refresh-1"}' },
      { body: '{"token":"t","refresh_token":"not one"}' },
      { status: 404 },
      GOOD,
    ];
    const { token, sent } = ask(replies, { credential: identity, refreshed });
    await token();
    await token();
    await token();
    expect(form(sent[1])).toMatchObject({ refresh_token: 'refresh-1' });
    expect(form(sent[2])).toMatchObject({ refresh_token: 'refresh-1' });
    expect(sent[3]?.headers?.authorization).toBe(basic('00000000-0000-0000-0000-000000000000:refresh-1'));
    const other = ask([GOOD], { credential: identity, refreshed, realm: 'https://auth.r.test/other' });
    await other.token();
    expect(form(other.sent[0])).toMatchObject({ refresh_token: 'refresh-0' });
    await token({ kind: 'identity-token', token: 'mine' });
    expect(form(sent[4])).toMatchObject({ refresh_token: 'mine' });
  });

  it('again after an exchange that failed', async () => {
    const { token } = ask([{ status: 400 }, GOOD], { credential: identity });
    await expect(token()).rejects.toMatchObject({ code: 'REGISTRY_UNAUTHORIZED' });
    expect((await token()).token).toBe('t');
  });

  it('elsewhere by a stranger, with credentials only where that is known', async () => {
    const realm = 'https://other.test/token';
    const stranger = ask([GOOD], { realm });
    expect((await stranger.token()).token).toBe('t');
    const known = ask([GOOD], { realm, credential: alice });
    await expect(known.token()).rejects.toMatchObject({ code: 'REGISTRY_AUTH_INVALID' });
    expect(known.sent).toEqual([]);
  });

  it('of no address at all where the challenge names none', async () => {
    const { token, sent } = ask([GOOD], { realm: '' });
    await expect(token()).rejects.toMatchObject({
      code: 'REGISTRY_AUTH_INVALID',
      message: 'r.test names "" as its token server, which is no address',
      hint: 'ask who runs the registry',
    });
    expect(sent).toEqual([]);
  });
});

describe('an answer', () => {
  it.each<[unknown, Token]>([
    [{ token: 't' }, { token: 't', expiresInMs: 0 }],
    [{ access_token: 'a' }, { token: 'a', expiresInMs: 0 }],
    [
      { token: 't', access_token: 'a', expires_in: 90 },
      { token: 't', expiresInMs: 90_000 },
    ],
    [
      { token: '', access_token: 'a', expires_in: '90' },
      { token: 'a', expiresInMs: 90_000 },
    ],
    [
      { token: 'a b', access_token: '!~', expires_in: 'soon' },
      { token: '!~', expiresInMs: 0 },
    ],
    [
      { token: 't', expires_in: null },
      { token: 't', expiresInMs: 0 },
    ],
    [
      { token: 't', refresh_token: 'r' },
      { token: 't', expiresInMs: 0, refreshToken: 'r' },
    ],
    [
      { token: 't', refresh_token: 'r\n' },
      { token: 't', expiresInMs: 0 },
    ],
    [
      { token: 't', refresh_token: 7 },
      { token: 't', expiresInMs: 0 },
    ],
  ])('of %j is %j', async (body, token) => {
    expect(await ask([{ body: JSON.stringify(body) }]).token()).toEqual(token);
  });

  it.each<unknown>([{}, null, [], { token: 7 }, { token: ' t' }, { token: 't\u007f' }, { token: 't\u0000' }])(
    'of %j gives no token',
    async (body) => {
      await expect(ask([{ body: JSON.stringify(body) }]).token()).rejects.toMatchObject({
        code: 'REGISTRY_AUTH_INVALID',
        message: 'r.test: "auth.r.test/token" gives no token',
        hint: 'check the credentials with: skycap login r.test',
      });
    },
  );

  it('that is no JSON is refused, one longer than a mebibyte is not read', async () => {
    await expect(ask([{ body: '<html>' }]).token()).rejects.toMatchObject({
      code: 'REGISTRY_ANSWER_INVALID',
      message: 'token for r.test from auth.r.test: the answer is not JSON',
      hint: 'check whether a proxy or login page answers in its place',
    });
    const padded = (length: number): Canned => ({ body: JSON.stringify({ token: 't' }).padEnd(length) });
    expect((await ask([padded(2 ** 20)]).token()).token).toBe('t');
    await expect(ask([padded(2 ** 20 + 1)]).token()).rejects.toThrow('more than 1048576 bytes');
  });

  const body = '{"errors":[{"code":"DENIED","message":"no"}]}';
  it.each([
    [400, 'REGISTRY_UNAUTHORIZED'],
    [401, 'REGISTRY_UNAUTHORIZED'],
    [403, 'REGISTRY_FORBIDDEN'],
  ])('with %i refuses the credentials: %s', async (status, code) => {
    for (const [credential, hint] of [
      [alice, 'check the credentials with: skycap login r.test'],
      [undefined, 'log in with: skycap login r.test'],
    ] as const) {
      const asked = ask([{ status, body }], credential === undefined ? {} : { credential });
      await expect(asked.token()).rejects.toMatchObject({
        code,
        message: `token for r.test from auth.r.test: auth.r.test answered with status ${status}, "DENIED: no"`,
        hint,
        details: { status, registry: 'auth.r.test', registryCodes: ['DENIED'] },
      });
    }
  });

  it.each<[Canned, string, string]>([
    [{ status: 503, headers: { 'retry-after': '7' } }, 'REGISTRY_BUSY', 'try again later'],
    [{ status: 429, headers: { 'retry-after': '7' } }, 'REGISTRY_BUSY', 'wait, or log in'],
    [{ status: 403, body: 'toomanyrequests: retry-after: 7s' }, 'REGISTRY_BUSY', 'wait, or log in'],
    [{ status: 402, headers: { 'retry-after': '7' } }, 'REGISTRY_REFUSED', 'read what the registry says'],
    [
      { status: 302, headers: { 'retry-after': '7' } },
      'REGISTRY_ANSWER_INVALID',
      'check the registry address',
    ],
  ])('of %j says whose it is and how long to wait', async (reply, code, hint) => {
    await expect(ask([reply]).token()).rejects.toMatchObject({
      code,
      message: expect.stringMatching(
        /^token for r\.test from auth\.r\.test: auth\.r\.test answered with status/,
      ) as string,
      hint: expect.stringContaining(hint) as string,
      details: { registry: 'auth.r.test', retryAfterMs: 7000 },
    });
  });
});
