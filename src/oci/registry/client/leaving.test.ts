import { describe, expect, it } from 'vitest';
import type { HttpClient, HttpResponse } from '../../../kernel/http/index.ts';
import type { RegistryRule } from '../../../settings/index.ts';
import {
  asking,
  codeOf,
  collect,
  type Reply,
  scriptedRegistry,
  TEST_CA,
} from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import { makeHost } from './host.ts';
import { checkRealm } from './realm.ts';

const manifest: Reply = {
  headers: { 'content-type': 'application/vnd.oci.image.manifest.v1+json' },
  body: JSON.stringify({ schemaVersion: 2, config: {}, layers: [] }),
};
const KEY = 'GET /v2/team/app/manifests/1';
const basicChallenge: Reply = { status: 401, headers: { 'www-authenticate': 'Basic realm="x"' } };
const alice = { kind: 'basic', username: 'alice', password: 'secret' } as const;
const ALICE = `Basic ${Buffer.from('alice:secret').toString('base64')}`;
const content = Buffer.from('a layer');
const blob = { mediaType: 'application/octet-stream', digest: digestOf(content), size: content.length };
const source = async function* (): AsyncGenerator<Uint8Array> {
  yield content;
};

describe('what a redirect led to', () => {
  it('R29 is not taken for the registry, whatever it asks for', async () => {
    await using storage = await scriptedRegistry({
      'GET /signed': {
        status: 401,
        headers: { 'www-authenticate': 'Bearer realm="http://127.0.0.1:1/steal"' },
      },
    });
    await using registry = await scriptedRegistry({
      'GET /v2/': basicChallenge,
      [KEY]: { status: 307, headers: { location: `http://${storage.host}/signed` } },
      'GET /v2/team/app/manifests/2': ({ headers }) =>
        headers.authorization === ALICE ? manifest : basicChallenge,
    });
    await using asked = asking({ credentials: async () => alice });
    expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(
      'REGISTRY_UNAUTHORIZED',
    );
    await asked.client.getManifest(asked.at(registry.host, 'team/app:2'), asked.options);
    expect(storage.asked.map(({ headers }) => headers.authorization)).toEqual([undefined]);
  });
});

describe('mirrors', () => {
  it('R30 get credentials of their own host, and those alone', async () => {
    await using mirror = await scriptedRegistry({
      'GET /v2/': basicChallenge,
      [KEY]: ({ headers }) => (headers.authorization === undefined ? basicChallenge : manifest),
    });
    await using registry = await scriptedRegistry({});
    const rules: RegistryRule[] = [
      {
        prefix: registry.host,
        mirrors: [{ location: mirror.host, insecure: false }],
        insecure: false,
        blocked: false,
      },
    ];
    const known: Record<string, { kind: 'basic'; username: string; password: string }> = {
      [registry.host]: alice,
      [mirror.host]: { kind: 'basic', username: 'm', password: 'm' },
    };
    await using asked = asking({ rules, credentials: async ({ host }) => known[host] });
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(registry.asked).toEqual([]);
    expect(mirror.asked.at(-1)?.headers.authorization).toBe(`Basic ${Buffer.from('m:m').toString('base64')}`);
    expect(JSON.stringify(mirror.asked.map(({ headers }) => headers))).not.toContain(ALICE);
  });
});

describe('token servers', () => {
  const host = (name: string) => ({ name }) as Parameters<typeof checkRealm>[1]['host'];
  const check = (registry: string, realm: string, known: Record<string, string[]> = {}): string => {
    try {
      const origin = new URL(`https://${registry}`);
      return checkRealm(realm, { host: host(registry), origin, withCredentials: true, known }).href;
    } catch (error) {
      return (error as { code: string }).code;
    }
  };

  it('R31 on other hosts get credentials where they are known or configured for exactly this registry', () => {
    const known = { 'r.test': ['login.test', 'x.test:8443'] };
    expect(check('r.test', 'https://login.test/t', known)).toBe('https://login.test/t');
    expect(check('r.test', 'https://x.test:8443/t', known)).toBe('https://x.test:8443/t');
    for (const realm of [
      'https://x.test/t',
      'https://login.test.evil.test/t',
      'https://evil-login.test/t',
      'https://sub.login.test/t',
      'https://r.test.evil.test/t',
    ])
      expect([realm, check('r.test', realm, known)]).toEqual([realm, 'REGISTRY_AUTH_INVALID']);
    expect(check('s.test', 'https://login.test/t', known)).toBe('REGISTRY_AUTH_INVALID');
    expect(check('registry-1.docker.io', 'https://auth.docker.io/token')).toBe(
      'https://auth.docker.io/token',
    );
    expect(check('r.test', 'https://auth.docker.io/token')).toBe('REGISTRY_AUTH_INVALID');
  });

  it('R33 of a registry on https are asked on https, also without credentials', async () => {
    await using tokens = await scriptedRegistry({ 'GET /token': { body: '{"token":"t"}' } });
    for (const name of ['127.0.0.1', 'localhost']) {
      const realm = `http://${name}:${tokens.host.split(':')[1]}/token`;
      const challenge: Reply = { status: 401, headers: { 'www-authenticate': `Bearer realm="${realm}"` } };
      await using registry = await scriptedRegistry(
        { 'GET /v2/': challenge, [KEY]: challenge },
        { tls: true },
      );
      for (const credential of [alice, undefined]) {
        await using asked = asking({ credentials: async () => credential, tls: () => ({ ca: TEST_CA }) });
        expect(await codeOf(asked.client.getManifest(asked.at(registry.host), asked.options))).toBe(
          'REGISTRY_ADDRESS_REFUSED',
        );
      }
    }
    expect(tokens.asked).toEqual([]);
  });
});

describe('through a proxy', () => {
  it('R36 a registry counts as public, for the address seen is the proxy’s', async () => {
    const requests: { checkAddress?: (address: string) => string | undefined }[] = [];
    const http: HttpClient = {
      request: async (request) => {
        requests.push(request as (typeof requests)[number]);
        return {
          status: 200,
          headers: {},
          values: () => [],
          remoteAddress: '127.0.0.1',
          proxied: true,
          body: (async function* () {})(),
          bytes: async () => Buffer.alloc(0),
          text: async () => '',
          discard: async () => {},
        } satisfies HttpResponse;
      },
      upgrade: async () => {
        throw new Error('not here');
      },
      [Symbol.asyncDispose]: async () => {},
    };
    const { signal } = new AbortController();
    const nearest = async (name: string): Promise<readonly boolean[]> => {
      const found = makeHost(http, name, { insecure: false, tls: () => undefined });
      await found.origin(signal);
      await found.send(new URL('https://elsewhere.test/x'), { signal });
      const address = requests.at(-1)?.checkAddress;
      return ['8.8.4.4', '10.0.0.1', '127.0.0.1'].map((to) => address?.(to) === undefined);
    };
    expect(await nearest('registry.test')).toEqual([true, false, false]);
    expect(await nearest('10.9.9.9:5000')).toEqual([true, true, false]);
  });
});

describe('an address in an answer', () => {
  it('R37 to upload to gets the bytes, under the rules for such addresses, but no credentials', async () => {
    await using storage = await scriptedRegistry({ 'PUT /up': { status: 201 } });
    const registryTo = (location: string, options = {}) =>
      scriptedRegistry(
        {
          'GET /v2/': basicChallenge,
          [`HEAD /v2/team/app/blobs/${blob.digest}`]: { status: 404 },
          'POST /v2/team/app/blobs/uploads/': { status: 202, headers: { location } },
        },
        options,
      );
    await using registry = await registryTo(`http://${storage.host}/up?sig=1`);
    await using asked = asking({ credentials: async () => alice, tls: () => ({ ca: TEST_CA }) });
    await asked.client.putBlob(asked.at(registry.host), blob, source, asked.options);
    expect(storage.asked.map(({ headers, body }) => [headers.authorization, body.toString()])).toEqual([
      [undefined, 'a layer'],
    ]);
    for (const location of [
      'http://169.254.169.254/up',
      'http://10.0.0.1/up',
      'file:///etc/passwd',
      `http://u:p@${storage.host}/up`,
    ]) {
      await using bad = await registryTo(location);
      expect([
        location,
        await codeOf(asked.client.putBlob(asked.at(bad.host), blob, source, asked.options)),
      ]).toEqual([location, 'REGISTRY_ADDRESS_REFUSED']);
    }
    await using secure = await registryTo(`http://localhost:${storage.host.split(':')[1]}/up`, { tls: true });
    expect(await codeOf(asked.client.putBlob(asked.at(secure.host), blob, source, asked.options))).toBe(
      'REGISTRY_ADDRESS_REFUSED',
    );
    expect(storage.asked).toHaveLength(1);
  });

  it('R38 of the next page is refused where it is another origin, and never asked', async () => {
    await using other = await scriptedRegistry({ '*': { body: '{"tags":[]}' } });
    for (const link of [`http://${other.host}/v2/team/app/tags/list?last=a`, `//${other.host}/x`]) {
      await using registry = await scriptedRegistry({
        'GET /v2/': basicChallenge,
        'GET /v2/team/app/tags/list': { headers: { link: `<${link}>; rel="next"` }, body: '{"tags":["a"]}' },
      });
      await using asked = asking({ credentials: async () => alice });
      expect(await codeOf(asked.client.listTags(asked.at(registry.host), asked.options))).toBe(
        'REGISTRY_ANSWER_INVALID',
      );
    }
    expect(other.asked).toEqual([]);
  });

  it('R39 that a layer names under urls is never asked', async () => {
    await using other = await scriptedRegistry({ '*': { body: content } });
    await using registry = await scriptedRegistry({});
    await using asked = asking();
    const foreign = { ...blob, urls: [`http://${other.host}/layer`] };
    const get = async (): Promise<Buffer> =>
      await collect(await asked.client.getBlob(asked.at(registry.host), foreign, 0, asked.options));
    expect(await codeOf(get())).toBe('REGISTRY_NOT_FOUND');
    expect(registry.lines()).toEqual([`GET /v2/team/app/blobs/${blob.digest}`]);
    expect(other.asked).toEqual([]);
  });
});
