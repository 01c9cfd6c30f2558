import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Answer,
  asking,
  codeOf,
  collect,
  IMAGE,
  LAYER,
  type ServedWorld,
  servedWorld,
} from '../../../testkit/registry/index.ts';
import { digestOf, parseReference } from '../../names/index.ts';
import { serveRegistry } from './index.ts';
import { parseRoute } from './route.ts';

let world: ServedWorld;

beforeEach(async () => {
  world = await servedWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

describe('reading', () => {
  it('offers images under the names people write', async () => {
    const { manifest } = await world.image('docker.io/library/tool:1');
    await world.store.tag('ghcr.io/a/b:2', manifest);
    await world.start();
    expect((await world.ask('GET /v2/')).status).toBe(200);
    for (const path of [
      'tool/manifests/1',
      'docker.io/library/tool/manifests/1',
      'ghcr.io/a/b/manifests/2',
      `tool/manifests/${manifest.digest}`,
    ]) {
      expect([path, (await world.ask(`GET /v2/${path}`)).status]).toEqual([path, 200]);
    }
    expect(await world.ask('GET /v2/tool/manifests/2')).toMatchObject({
      status: 404,
      code: 'MANIFEST_UNKNOWN',
    });
    expect(JSON.parse((await world.ask('GET /v2/_catalog')).body.toString())).toEqual({
      repositories: ['docker.io/library/tool', 'ghcr.io/a/b'],
    });
  });

  it('gives manifests with their type, digest and length, also for HEAD, and nothing when unchanged', async () => {
    const { manifest, text } = await world.image('docker.io/library/tool:1');
    await world.start();
    const headers = {
      'content-type': IMAGE,
      'docker-content-digest': manifest.digest,
      'content-length': String(text.length),
    };
    expect(await world.ask('GET /v2/tool/manifests/1')).toMatchObject({
      status: 200,
      headers,
      body: Buffer.from(text),
    });
    expect(await world.ask('HEAD /v2/tool/manifests/1')).toMatchObject({
      status: 200,
      headers,
      body: Buffer.alloc(0),
    });
    expect(
      (await world.ask('GET /v2/tool/manifests/1', { headers: { 'if-none-match': `"${manifest.digest}"` } }))
        .status,
    ).toBe(304);
  });

  it('gives blobs whole and in ranges', async () => {
    const { layer } = await world.image('docker.io/library/tool:1');
    await world.start();
    const path = `/v2/tool/blobs/${layer.digest}`;
    const get = (range: string, more: Record<string, string> = {}): Promise<Answer> =>
      world.ask(`GET ${path}`, { headers: { range, ...more } });
    expect((await world.ask(`GET ${path}`)).body.equals(LAYER)).toBe(true);
    expect(await world.ask(`HEAD ${path}`)).toMatchObject({
      status: 200,
      headers: { 'content-length': '200000', 'accept-ranges': 'bytes' },
    });
    for (const [range, from, to] of [
      ['bytes=100-', 100, 200_000],
      ['bytes=0-0', 0, 1],
      ['bytes=70000-140000', 70_000, 140_001],
      ['bytes=-5', 199_995, 200_000],
      ['bytes=199999-999999', 199_999, 200_000],
    ] as const) {
      const answer = await get(range);
      expect([answer.status, answer.headers['content-range']]).toEqual([
        206,
        `bytes ${from}-${to - 1}/200000`,
      ]);
      expect(answer.body.equals(LAYER.subarray(from, to))).toBe(true);
    }
    expect(await get('bytes=200000-')).toMatchObject({
      status: 416,
      headers: { 'content-range': 'bytes */200000' },
    });
    expect((await get('bytes=5-', { 'if-range': '"other"' })).status).toBe(200);
    expect(
      (await world.ask(`GET ${path}`, { headers: { 'if-none-match': `"${layer.digest}"` } })).status,
    ).toBe(304);
    expect(await world.ask(`GET /v2/tool/blobs/${digestOf('none')}`)).toMatchObject({
      status: 404,
      code: 'BLOB_UNKNOWN',
    });
  });

  it('answers on conditions', async () => {
    const { manifest, layer } = await world.image('docker.io/library/tool:1');
    await world.start();
    const status = async (path: string, headers: Record<string, string>): Promise<number> =>
      (await world.ask(`GET /v2/tool/${path}`, { headers })).status;
    const paths = { 'manifests/1': manifest.digest, [`blobs/${layer.digest}`]: layer.digest };
    for (const [path, digest] of Object.entries(paths)) {
      expect(await status(path, { 'if-none-match': `"x", W/"${digest}"` })).toBe(304);
      expect(await status(path, { 'if-none-match': '*' })).toBe(304);
      expect(await status(path, { 'if-none-match': '"x"' })).toBe(200);
      expect(await status(path, { 'if-match': `"${digest}"` })).toBe(200);
      expect(await status(path, { 'if-match': '"x"' })).toBe(412);
    }
    for (const path of ['tags/list', `referrers/${manifest.digest}`]) {
      const etag = String((await world.ask(`GET /v2/tool/${path}`)).headers.etag);
      expect(await status(path, { 'if-none-match': etag })).toBe(304);
      await world.store.tag('docker.io/library/tool:2', manifest);
      expect(await status(path, { 'if-none-match': etag })).toBe(path === 'tags/list' ? 200 : 304);
    }
  });

  it('never gives a blob as a manifest', async () => {
    const { layer } = await world.image('docker.io/library/tool:1');
    await world.start();
    expect((await world.ask(`GET /v2/tool/manifests/${layer.digest}`)).status).toBe(404);
  });

  it('breaks the connection where stored bytes turn out to be wrong', async () => {
    const { layer } = await world.image('docker.io/library/tool:1');
    const broken = {
      ...world.store,
      readBlob: async function* (): AsyncGenerator<Uint8Array> {
        yield LAYER.subarray(0, 10);
        throw new Error('corrupt');
      },
    };
    await world.start({ store: broken });
    await expect(world.ask(`GET /v2/tool/blobs/${layer.digest}`)).rejects.toThrow('connection lost');
  });

  it('lists tags in pages', async () => {
    const { manifest } = await world.image('docker.io/library/tool:b');
    for (const tag of ['a', 'c', 'B']) await world.store.tag(`docker.io/library/tool:${tag}`, manifest);
    await world.start();
    const tags = async (query: string): Promise<unknown> => {
      const answer = await world.ask(`GET /v2/tool/tags/list${query}`);
      return [(JSON.parse(answer.body.toString()) as { tags: unknown }).tags, answer.headers.link];
    };
    expect(await tags('')).toEqual([['B', 'a', 'b', 'c'], undefined]);
    expect(await tags('?n=2')).toEqual([['B', 'a'], '</v2/tool/tags/list?n=2&last=a>; rel="next"']);
    expect(await tags('?n=2&last=a')).toEqual([['b', 'c'], undefined]);
    expect(await tags('?n=0')).toEqual([[], undefined]);
    expect(await world.ask('GET /v2/tool/tags/list?n=x')).toMatchObject({
      status: 400,
      code: 'PAGINATION_NUMBER_INVALID',
    });
    expect(await world.ask('GET /v2/none/tags/list')).toMatchObject({ status: 404, code: 'NAME_UNKNOWN' });
    await using asked = asking();
    expect(await asked.client.listTags(parseReference(`${world.served.host}/tool`), asked.options)).toEqual([
      'B',
      'a',
      'b',
      'c',
    ]);
  });
});

describe('who may ask', () => {
  beforeEach(() => world.start({ writable: true }));

  it.each([
    ['another name (DNS rebinding)', { host: 'evil.test' }],
    ['another name with a port', { host: 'evil.test:5000' }],
    ['a page', { origin: 'http://evil.test' }],
    ['a page of null origin', { origin: 'null' }],
    ['a page without origin', { 'sec-fetch-site': 'cross-site' }],
  ])('refuses %s', async (_, headers) => {
    expect(
      await world.ask('GET /v2/', { headers: headers as unknown as Record<string, string> }),
    ).toMatchObject({
      status: 403,
      code: 'DENIED',
    });
  });

  it.each(['localhost:1', '127.0.0.1', '[::1]:5000'])('answers to %s', async (host) => {
    expect((await world.ask('GET /v2/', { headers: { host } })).status).toBe(200);
  });

  it('listens on loopback only, says when it cannot, and closes at the signal', async () => {
    for (const address of ['0.0.0.0', '::', '192.168.0.1', 'example.test']) {
      expect(await codeOf(serveRegistry({ store: world.store, address }))).toBe('REGISTRY_SERVE_FAILED');
    }
    expect(await codeOf(serveRegistry({ store: world.store, port: world.served.port }))).toBe(
      'REGISTRY_SERVE_FAILED',
    );
    const tls = { cert: '', key: '' };
    expect(await codeOf(serveRegistry({ store: world.store, port: 0, tls }))).toBe('REGISTRY_SERVE_FAILED');
    const stop = new AbortController();
    const second = await serveRegistry({ store: world.store, signal: stop.signal });
    stop.abort();
    await second.close();
    const socket = connect(second.port, second.address);
    const [error] = (await once(socket, 'error').catch((cause: unknown) => [cause])) as [{ code?: string }];
    expect(error.code).toBe('ECONNREFUSED');
  });

  it.each([
    '/v2/../etc/passwd',
    '/v2/a/blobs/sha256:..%2f..%2fetc',
    '/v2/a/../b/manifests/1',
    '/v2/a%2f..%2fb/manifests/1',
    '/v2/A/manifests/1',
    '/v2/a/manifests/..',
    '/v2/a/manifests/%00',
    '/v2/a/manifests/%ff',
    `/v2/a/manifests/${'x'.repeat(129)}`,
    `/v2/${'a/'.repeat(200)}manifests/1`,
    `/v2/a/blobs/sha256:${'A'.repeat(64)}`,
    '/v2/a/blobs/uploads/../../x',
    '/v2//manifests/1',
  ])('refuses %s', async (path) => {
    expect(parseRoute(path).kind).toMatch(/^(unknown|invalid)$/);
    // As it is, without a client that tidies it up.
    const socket = connect(world.served.port, '127.0.0.1');
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    const answer = (await collect(socket)).toString();
    expect(answer).toMatch(/^HTTP\/1\.1 40[04] /);
  });
});
