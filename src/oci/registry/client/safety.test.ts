import { describe, expect, it } from 'vitest';
import {
  allowAddresses,
  type HttpClient,
  type HttpRequest,
  type HttpResponse,
} from '../../../kernel/http/index.ts';
import type { RegistryRule } from '../../../settings/index.ts';
import { asking, codeOf, type Reply, scriptedRegistry, TEST_CA } from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import { makeHost } from './host.ts';

const BODY = JSON.stringify({ schemaVersion: 2, config: {}, layers: [] });
const TYPE = 'application/vnd.oci.image.manifest.v1+json';
const DIGEST = digestOf(BODY);
const good: Reply = { headers: { 'content-type': TYPE, 'docker-content-digest': DIGEST }, body: BODY };
const KEY = 'GET /v2/team/app/manifests/1';
const at = (path: string): string => `GET /v2/team/app/${path}`;

describe('credentials', () => {
  const credentials = async () => ({ kind: 'basic', username: 'u', password: 'p' }) as const;
  const challenge: Reply = { status: 401, headers: { 'www-authenticate': 'Basic realm="x"' } };

  it('R28 stay behind when a redirect leaves the origin', async () => {
    await using storage = await scriptedRegistry({ 'GET /signed': good });
    await using registry = await scriptedRegistry({
      'GET /v2/': challenge,
      [KEY]: { status: 307, headers: { location: `http://${storage.host}/signed?sig=1` } },
      [at('manifests/2')]: { status: 307, headers: { location: '/v2/team/app/manifests/3' } },
      [at('manifests/3')]: good,
    });
    await using asked = asking({ credentials });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(registry.asked.at(-1)?.headers.authorization).toMatch(/^Basic /);
    expect(storage.asked).toHaveLength(1);
    expect(storage.asked[0]?.headers.authorization).toBeUndefined();
    await asked.client.getManifest(asked.at(registry.host, 'team/app:2'), asked.options);
    expect(registry.asked.at(-1)).toMatchObject({
      path: '/v2/team/app/manifests/3',
      headers: { authorization: expect.stringMatching(/^Basic/) as string },
    });
  });

  it('R29 are not asked for by what a redirect led to', async () => {
    await using storage = await scriptedRegistry({ 'GET /signed': challenge });
    await using registry = await scriptedRegistry({
      [KEY]: { status: 307, headers: { location: `http://${storage.host}/signed` } },
    });
    await using asked = asking({ credentials });
    expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(
      'REGISTRY_UNAUTHORIZED',
    );
    expect(storage.asked.every((entry) => entry.headers.authorization === undefined)).toBe(true);
  });

  it('R30 of the registry never go to its mirror', async () => {
    await using mirror = await scriptedRegistry({ 'GET /v2/': challenge, [KEY]: challenge });
    await using registry = await scriptedRegistry({ 'GET /v2/': challenge, [KEY]: good });
    const rules: RegistryRule[] = [
      {
        prefix: registry.host,
        mirrors: [{ location: mirror.host, insecure: false }],
        insecure: false,
        blocked: false,
      },
    ];
    await using asked = asking({
      rules,
      credentials: async ({ host }) => (host === registry.host ? await credentials() : undefined),
    });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(mirror.lines()).toHaveLength(1);
    expect(mirror.asked.every((entry) => entry.headers.authorization === undefined)).toBe(true);
    expect(registry.asked.at(-1)?.headers.authorization).toMatch(/^Basic/);
  });
});

describe('addresses and TLS', () => {
  it('take https where it is spoken, with the authority handed in', async () => {
    await using registry = await scriptedRegistry({ [KEY]: good }, { tls: true });
    await using stranger = asking();
    expect(await codeOf(stranger.client.getManifest(stranger.at(registry.host), stranger.options))).toBe(
      'REGISTRY_TLS',
    );
    await using asked = asking({ tls: (host) => (host === registry.host ? { ca: TEST_CA } : undefined) });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    const rules: RegistryRule[] = [{ prefix: registry.host, mirrors: [], insecure: true, blocked: false }];
    await using insecure = asking({ rules });
    await insecure.client.getManifest(insecure.at(registry.host), insecure.options);
  });

  it('R33 never leave https', async () => {
    await using plain = await scriptedRegistry({ 'GET /x': good });
    await using registry = await scriptedRegistry(
      { [KEY]: { status: 307, headers: { location: `http://${plain.host}/x` } } },
      { tls: true },
    );
    await using asked = asking({ tls: () => ({ ca: TEST_CA }) });
    expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(
      'REGISTRY_ADDRESS_REFUSED',
    );
    expect(plain.asked).toEqual([]);
  });

  /** An HTTP client that pretends to have reached `address`, and shows what it was asked to check. */
  function pretending(address: string, replies: (request: HttpRequest) => Partial<HttpResponse> | Error) {
    const requests: HttpRequest[] = [];
    const http: HttpClient = {
      request: async (request) => {
        requests.push(request);
        const reply = replies(request);
        if (reply instanceof Error) throw reply;
        return {
          status: 200,
          headers: {},
          values: () => [],
          remoteAddress: address,
          body: (async function* () {})(),
          bytes: async () => Buffer.alloc(0),
          text: async () => '',
          discard: async () => {},
          ...reply,
        };
      },
      upgrade: async () => {
        throw new Error('not here');
      },
      [Symbol.asyncDispose]: async () => {},
    };
    return { http, requests };
  }
  const signal = new AbortController().signal;
  const settings = { insecure: false, tls: () => undefined };

  it.each([
    [
      '8.8.8.8',
      {
        '8.8.4.4': true,
        '10.0.0.1': false,
        '127.0.0.1': false,
        '169.254.169.254': false,
        'fd00::1': false,
        '::1': false,
      },
    ],
    ['10.0.0.1', { '8.8.4.4': true, '10.9.9.9': true, '127.0.0.1': false, '169.254.169.254': false }],
    [
      '127.0.0.1',
      { '8.8.4.4': true, '10.9.9.9': true, '127.0.0.1': true, '169.254.169.254': false, 'fe80::1': false },
    ],
  ])('R34 a registry at %s leads no closer than itself', async (address, expected) => {
    const { http, requests } = pretending(address, () => ({}));
    const host = makeHost(http, 'registry.test', settings);
    await host.origin(signal);
    await host.send(new URL('https://elsewhere.test/x'), { signal });
    const check = requests.at(-1)?.checkAddress;
    for (const [target, allowed] of Object.entries(expected))
      expect([target, check?.(target) === undefined]).toEqual([target, allowed]);
  });

  it('R35 a public registry that suddenly resolves to a near address is not followed', async () => {
    const { http, requests } = pretending('8.8.8.8', () => ({}));
    const host = makeHost(http, 'registry.test', settings);
    const origin = await host.origin(signal);
    expect(requests[0]?.checkAddress?.('10.0.0.1')).toBe('10.0.0.1 is a private address');
    await host.send(new URL('/v2/x', origin), { signal });
    expect(requests.at(-1)?.checkAddress?.('127.0.0.1')).toBe('127.0.0.1 is a loopback address');
    expect(requests.at(-1)?.checkAddress?.('8.8.4.4')).toBeUndefined();
  });

  it('R40 plain http is tried on loopback only, past any proxy', async () => {
    const { HttpFailure } = await import('../../../kernel/http/index.ts');
    const refused = new HttpFailure('connect', 'refused', { code: 'ECONNREFUSED' });
    const { http, requests } = pretending('127.0.0.1', (request) =>
      String(request.url).startsWith('https') ? refused : {},
    );
    const host = makeHost(http, 'registry.test', settings);
    expect((await host.origin(signal)).href).toBe('http://registry.test/');
    const second = requests[1];
    expect([
      second?.direct,
      second?.checkAddress?.('127.0.0.1'),
      second?.checkAddress?.('8.8.8.8'),
      second?.checkAddress?.('10.0.0.1'),
    ]).toEqual([true, undefined, '8.8.8.8 is a public address', '10.0.0.1 is a private address']);
    const elsewhere = pretending('8.8.8.8', (request) =>
      String(request.url).startsWith('https') ? refused : new HttpFailure('address', 'no'),
    );
    await expect(makeHost(elsewhere.http, 'registry.test', settings).origin(signal)).rejects.toBe(refused);
    const badCertificate = new HttpFailure('tls', 'bad', { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
    const tls = pretending('127.0.0.1', () => badCertificate);
    await expect(makeHost(tls.http, 'registry.test', settings).origin(signal)).rejects.toBe(badCertificate);
    expect(tls.requests).toHaveLength(1);
    const insecure = pretending('8.8.8.8', (request) =>
      String(request.url).startsWith('https') ? refused : {},
    );
    expect(
      (await makeHost(insecure.http, 'registry.test', { ...settings, insecure: true }).origin(signal))
        .protocol,
    ).toBe('http:');
    expect(allowAddresses(['loopback'])('127.0.0.1')).toBeUndefined();
  });
});
