import { describe, expect, it } from 'vitest';
import {
  asking,
  codeOf,
  type Reply,
  type Script,
  type ScriptedRegistry,
  scriptedRegistry,
} from '../../../testkit/registry/index.ts';
import type { Credential, CredentialsProvider } from './types.ts';

const MANIFEST = JSON.stringify({ schemaVersion: 2, config: {}, layers: [] });
const TYPE = 'application/vnd.oci.image.manifest.v1+json';
const manifest: Reply = { headers: { 'content-type': TYPE }, body: MANIFEST };
const basic = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
const always =
  (credential: Credential): CredentialsProvider =>
  async () =>
    credential;
const alice: Credential = { kind: 'basic', username: 'alice', password: 'pass:word' };

/** Takes bearer tokens that its token server gave; both on one address unless `realm` says otherwise. */
function guarded(
  more: {
    readonly token?: Script;
    readonly challenge?: (host: string) => string | readonly string[];
    readonly accepts?: (authorization: string) => boolean;
  } = {},
) {
  let host = '';
  const challenge = (): Reply => ({
    status: 401,
    headers: {
      'www-authenticate': more.challenge?.(host) ?? `Bearer realm="http://${host}/token",service="reg"`,
    },
  });
  const accepts = more.accepts ?? ((authorization) => authorization.startsWith('Bearer t'));
  let issued = 0;
  const guard: Script = (asked) => (accepts(asked.headers.authorization ?? '') ? manifest : challenge());
  const start = async (): Promise<ScriptedRegistry> => {
    const registry = await scriptedRegistry({
      'GET /v2/': () => challenge(),
      'GET /v2/team/app/manifests/1': guard,
      'GET /v2/team/app/manifests/2': guard,
      '* /token':
        more.token ?? (() => ({ body: JSON.stringify({ token: `t${++issued}`, expires_in: 300 }) })),
    });
    host = registry.host;
    return registry;
  };
  return start();
}

const tokenLines = (registry: ScriptedRegistry): readonly string[] =>
  registry.lines().filter((line) => line.includes('/token'));

describe('Basic', () => {
  const basicRegistry = (): Promise<ScriptedRegistry> =>
    guarded({
      challenge: () => ['Negotiate', 'Basic realm="reg", charset="UTF-8"'],
      accepts: (value) => value === basic('alice', 'pass:word'),
    });

  it('R25 sends user and password, colons included', async () => {
    await using registry = await basicRegistry();
    await using asked = asking({ credentials: always(alice) });
    expect(
      (await asked.client.getManifest(asked.at(registry.host), asked.options)).descriptor.mediaType,
    ).toBe(TYPE);
  });

  it('R26 R27 without credentials, or with wrong ones, ends in a code that says so', async () => {
    await using registry = await basicRegistry();
    await using nobody = asking();
    await expect(nobody.client.getManifest(nobody.at(registry.host), nobody.options)).rejects.toMatchObject({
      code: 'REGISTRY_UNAUTHORIZED',
      hint: `log in with: skycap login ${registry.host}`,
    });
    await using wrong = asking({ credentials: always({ ...alice, password: 'hunter2' }) });
    const failure = wrong.client.getManifest(wrong.at(registry.host), wrong.options);
    await expect(failure).rejects.toMatchObject({
      code: 'REGISTRY_UNAUTHORIZED',
      hint: expect.stringContaining('check the credentials') as string,
    });
    await expect(failure).rejects.not.toThrow('hunter2');
    expect(registry.lines()).toHaveLength(2);
    expect([nobody.clock.slept, wrong.clock.slept]).toEqual([[], []]);
    await using token = asking({ credentials: always({ kind: 'identity-token', token: 'x' }) });
    expect(await codeOf(token.client.getManifest(token.at(registry.host), token.options))).toBe(
      'REGISTRY_AUTH_INVALID',
    );
  });

  it('asks for credentials by exactly the host and port', async () => {
    await using registry = await basicRegistry();
    const wanted: unknown[] = [];
    await using asked = asking({
      credentials: async (target) => {
        wanted.push(target);
        return alice;
      },
    });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(wanted[0]).toEqual({ host: registry.host, repository: 'team/app' });
  });
});

describe('Bearer', () => {
  it('R6 R7 asks with GET, scope and service, and takes either name of the token', async () => {
    for (const field of ['token', 'access_token']) {
      await using registry = await guarded({ token: () => ({ body: JSON.stringify({ [field]: 't1' }) }) });
      await using asked = asking();
      await asked.client.getManifest(asked.at(registry.host), asked.options);
      expect(tokenLines(registry)).toEqual(['GET /token?service=reg&scope=repository:team/app:pull']);
      expect(registry.asked.find((entry) => entry.path === '/token')?.headers.authorization).toBeUndefined();
    }
  });

  it('R1 R2 reads the right one of several challenges in one header or many', async () => {
    for (const challenge of [
      (host: string) => `Negotiate, Basic realm="b", Bearer realm="http://${host}/token",service="a, b"`,
      (host: string) => [
        'Digest realm="d"',
        'Basic realm="b"',
        `Bearer service="a, b",realm="http://${host}/token"`,
      ],
    ]) {
      await using registry = await guarded({ challenge });
      await using asked = asking({ credentials: always(alice) });
      await asked.client.getManifest(asked.at(registry.host), asked.options);
      const token = registry.asked.find((entry) => entry.path === '/token');
      expect(token?.query.get('service')).toBe('a, b');
      expect(token?.headers.authorization).toBe(basic('alice', 'pass:word'));
    }
  });

  it('R9 keeps the token for what it covers, asks once for many at a time', async () => {
    await using registry = await guarded();
    await using asked = asking();
    await Promise.all(
      Array.from({ length: 8 }, () => asked.client.getManifest(asked.at(registry.host), asked.options)),
    );
    await asked.client.getManifest(asked.at(registry.host, 'team/app:2'), asked.options);
    expect(tokenLines(registry)).toHaveLength(1);
  });

  it('R9 shares a refusal: one wrong password counts once, however many wait for the token', async () => {
    let isWrong = false;
    await using registry = await guarded({
      token: () => (isWrong ? { status: 401 } : { body: '{"token":"t1"}' }),
    });
    await using asked = asking({ credentials: always(alice) });
    const get = (): Promise<unknown> => asked.client.getManifest(asked.at(registry.host), asked.options);
    await get();
    asked.clock.advance(60_000);
    isWrong = true;
    const codes = await Promise.all(Array.from({ length: 8 }, () => codeOf(get())));
    expect(codes).toEqual(codes.map(() => 'REGISTRY_UNAUTHORIZED'));
    expect(tokenLines(registry)).toHaveLength(2);
    // Asked again later it may be another password.
    await codeOf(get());
    expect(tokenLines(registry)).toHaveLength(3);
  });

  it('R9 goes on with one of those who wait where the one who asks for them is cancelled', async () => {
    const stop = new AbortController();
    let count = 0;
    await using registry = await guarded({
      token: () => {
        count += 1;
        if (count === 2) stop.abort(new Error('enough'));
        return count === 2 ? { silent: true } : { body: '{"token":"t1"}' };
      },
    });
    await using asked = asking();
    const get = (signal = asked.options.signal): Promise<unknown> =>
      asked.client.getManifest(asked.at(registry.host), { ...asked.options, signal });
    await get();
    asked.clock.advance(60_000);
    const cancelled = expect(get(stop.signal)).rejects.toThrow('enough');
    await Promise.all(Array.from({ length: 4 }, () => get()));
    await cancelled;
    expect(tokenLines(registry)).toHaveLength(3);
  });

  it('R5 R11 puts what it needs before what the refusal of this request wants besides', async () => {
    let asked401 = 0;
    await using registry = await guarded({
      // What GitHub's registry says at /v2/ is an example; what it says of a request is meant.
      challenge: (host) =>
        `Bearer realm="http://${host}/token",service="reg",scope="${asked401++ === 0 ? 'repository:user/image:pull' : 'repository:other/x:pull repository:team/app:pull'}"`,
      accepts: (authorization) => authorization === 'Bearer t2',
    });
    await using asked = asking();
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(
      registry.asked.filter(({ path }) => path === '/token').map(({ query }) => query.getAll('scope')),
    ).toEqual([['repository:team/app:pull'], ['repository:team/app:pull', 'repository:other/x:pull']]);
  });

  it('R8 renews before the end, treats short lives as a minute, and after a refusal', async () => {
    let valid = 't1';
    let issued = 0;
    await using registry = await guarded({
      token: () => ({
        body: JSON.stringify({ token: `t${++issued}`, expires_in: 1, issued_at: '2020-01-01T00:00:00Z' }),
      }),
      accepts: (authorization) => authorization === `Bearer ${valid}`,
    });
    await using asked = asking();
    const get = async (): Promise<unknown> =>
      await asked.client.getManifest(asked.at(registry.host), asked.options);
    await get();
    asked.clock.advance(50_000);
    await get();
    expect(issued).toBe(1);
    asked.clock.advance(10_000);
    valid = 't2';
    await get();
    expect(issued).toBe(2);
    // The old one was not even tried.
    expect(registry.asked.filter(({ path }) => path.endsWith('/manifests/1'))).toHaveLength(3);
    valid = 't3';
    await get();
    expect(issued).toBe(3);
    expect(
      registry.asked
        .filter((entry) => entry.path === '/token')
        .every((entry) => entry.headers.authorization === undefined),
    ).toBe(true);
  });

  it('R13 gives up when a fresh token is refused too', async () => {
    await using registry = await guarded({ accepts: () => false });
    await using asked = asking();
    expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(
      'REGISTRY_UNAUTHORIZED',
    );
    expect(tokenLines(registry).length).toBeLessThanOrEqual(2);
    expect(asked.clock.slept).toEqual([]);
  });

  it('R20 takes a registry token as it is', async () => {
    await using registry = await guarded({ accepts: (value) => value === 'Bearer ready-made' });
    await using asked = asking({ credentials: always({ kind: 'registry-token', token: 'ready-made' }) });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(tokenLines(registry)).toEqual([]);
  });

  it('R16 R17 trades an identity token by POST, or as a password where POST is unknown', async () => {
    const credential: Credential = { kind: 'identity-token', token: 'refresh&me' };
    await using registry = await guarded();
    await using asked = asking({ credentials: always(credential) });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    const post = registry.asked.find((entry) => entry.path === '/token');
    expect(post?.headers.authorization).toBeUndefined();
    expect(Object.fromEntries(new URLSearchParams(post?.body.toString()))).toEqual({
      grant_type: 'refresh_token',
      refresh_token: 'refresh&me',
      client_id: 'skycap',
      service: 'reg',
      scope: 'repository:team/app:pull',
    });
    await using older = await guarded({
      token: (entry) => (entry.method === 'POST' ? { status: 404 } : { body: '{"token":"t1"}' }),
    });
    await asked.client.getManifest(asked.at(older.host), asked.options);
    expect(older.asked.filter((entry) => entry.path === '/token').at(-1)?.headers.authorization).toBe(
      basic('00000000-0000-0000-0000-000000000000', 'refresh&me'),
    );
  });

  it('R18 logs in with a password by POST where GET is unknown', async () => {
    await using registry = await guarded({
      token: (entry) => (entry.method === 'GET' ? { status: 405 } : { body: '{"access_token":"t1"}' }),
    });
    await using asked = asking({ credentials: always(alice) });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    const form = new URLSearchParams(
      registry.asked
        .filter((entry) => entry.path === '/token')
        .at(-1)
        ?.body.toString(),
    );
    expect([form.get('grant_type'), form.get('username'), form.get('password')]).toEqual([
      'password',
      'alice',
      'pass:word',
    ]);
  });

  const ANSWERS = [
    [
      'an error',
      { status: 401, body: '{"error":"invalid_grant","error_description":"no"}' },
      'REGISTRY_UNAUTHORIZED',
    ],
    ['a web page', { body: '<html>' }, 'REGISTRY_ANSWER_INVALID'],
    ['nothing', { body: '{}' }, 'REGISTRY_AUTH_INVALID'],
    ['a token that would split the header', { body: '{"token":"a\\r\\nx: y"}' }, 'REGISTRY_AUTH_INVALID'],
    ['an endless answer', { endless: true }, 'REGISTRY_ANSWER_TOO_LARGE'],
    [
      'a token in more than a mebibyte',
      { body: JSON.stringify({ token: 't1', pad: 'x'.repeat(2 ** 20) }) },
      'REGISTRY_ANSWER_TOO_LARGE',
    ],
    ['a redirect', { status: 302, headers: { location: 'http://127.0.0.1:1/' } }, 'REGISTRY_ANSWER_INVALID'],
  ] as const;
  it.each(ANSWERS)(
    'R7 R21 R22 R24 ends at a token server that answers with %s',
    async (_, reply: Reply, code) => {
      await using registry = await guarded({ token: () => reply });
      await using asked = asking({ credentials: always(alice) });
      expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(code);
    },
  );

  it('R23 waits for a token server that is busy', async () => {
    let count = 0;
    await using registry = await guarded({
      token: () =>
        ++count === 1 ? { status: 429, headers: { 'retry-after': '3' } } : { body: '{"token":"t1"}' },
    });
    await using asked = asking();
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(asked.clock.slept).toEqual([3000]);
  });
});

describe('realms', () => {
  const REALMS = [
    ['ftp://127.0.0.1/token', 'REGISTRY_ADDRESS_REFUSED'],
    ['not an address', 'REGISTRY_AUTH_INVALID'],
    ['', 'REGISTRY_AUTH_INVALID'],
    ['http://user:pw@127.0.0.1/token', 'REGISTRY_ADDRESS_REFUSED'],
    ['https://login.evil.test/token', 'REGISTRY_AUTH_INVALID'],
    ['http://169.254.169.254/latest', 'REGISTRY_AUTH_INVALID'],
  ] as const;
  it.each(REALMS)('R31 R32 %j get no credentials', async (realm, code) => {
    await using registry = await guarded({ challenge: () => `Bearer realm="${realm}"` });
    await using asked = asking({ credentials: always(alice) });
    expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(code);
  });

  it('R34 may not lead a visitor without credentials to the metadata address or to plain http elsewhere', async () => {
    for (const realm of [
      'http://169.254.169.254/token',
      'http://10.0.0.1/token',
      'https://169.254.169.254/token',
    ]) {
      await using registry = await guarded({ challenge: () => `Bearer realm="${realm}"` });
      await using asked = asking();
      expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(
        'REGISTRY_ADDRESS_REFUSED',
      );
    }
  });

  it('R31 on another port of the same machine get them', async () => {
    await using tokens = await scriptedRegistry({ 'GET /token': { body: '{"token":"t1"}' } });
    await using registry = await guarded({ challenge: () => `Bearer realm="http://${tokens.host}/token"` });
    await using asked = asking({ credentials: always(alice) });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(tokens.asked[0]?.headers.authorization).toBe(basic('alice', 'pass:word'));
  });
});
