import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createHttpClient, type HttpClient } from '../../../kernel/http/index.ts';
import { asking, codeOf, collect, type MemoryStore, memoryStore } from '../../../testkit/registry/index.ts';
import { digestOf, parseReference } from '../../names/index.ts';
import type { Descriptor, Digest } from '../../types.ts';
import { serveRegistry } from './index.ts';
import { parseRange, parseRoute } from './route.ts';
import type { ServedRegistry } from './types.ts';

const IMAGE = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const LAYER = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 253));

let directory: string;
let store: MemoryStore;
let served: ServedRegistry;
let http: HttpClient;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'served-'));
  store = memoryStore(directory);
  http = createHttpClient();
});

afterEach(async () => {
  await served?.close();
  await http[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

async function start(writable: boolean): Promise<void> {
  served = await serveRegistry({ store, writable });
}

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  readonly code: string | undefined;
}

async function ask(
  line: string,
  more: { readonly headers?: Record<string, string>; readonly body?: Uint8Array | string } = {},
): Promise<Answer> {
  const [method = '', path = ''] = line.split(' ');
  const url = path.startsWith('http') ? path : `http://${served.host}${path}`;
  const response = await http.request({ method, url, ...more });
  const body = Buffer.from(await response.bytes(1e7));
  let code: string | undefined;
  try {
    code = (JSON.parse(body.toString()) as { errors?: { code: string }[] }).errors?.[0]?.code;
  } catch {}
  return { status: response.status, headers: response.headers, body, code };
}

const manifestOf = (config: Descriptor, layers: readonly Descriptor[], more: object = {}): string =>
  JSON.stringify({ schemaVersion: 2, mediaType: IMAGE, config, layers, ...more });

async function image(
  reference: string,
): Promise<{ readonly manifest: Descriptor; readonly layer: Descriptor; readonly text: string }> {
  const config = await store.add('{}', 'application/vnd.oci.image.config.v1+json');
  const layer = await store.add(LAYER, 'application/vnd.oci.image.layer.v1.tar');
  const text = manifestOf(config, [layer]);
  const manifest = await store.add(text, IMAGE);
  await store.tag(reference, manifest);
  return { manifest, layer, text };
}

describe('reading', () => {
  it('offers images under the names people write', async () => {
    const { manifest } = await image('docker.io/library/tool:1');
    await store.tag('ghcr.io/a/b:2', manifest);
    await start(false);
    expect((await ask('GET /v2/')).status).toBe(200);
    for (const path of [
      'tool/manifests/1',
      'docker.io/library/tool/manifests/1',
      'ghcr.io/a/b/manifests/2',
      `tool/manifests/${manifest.digest}`,
    ]) {
      expect([path, (await ask(`GET /v2/${path}`)).status]).toEqual([path, 200]);
    }
    expect(await ask('GET /v2/tool/manifests/2')).toMatchObject({ status: 404, code: 'MANIFEST_UNKNOWN' });
    expect(JSON.parse((await ask('GET /v2/_catalog')).body.toString())).toEqual({
      repositories: ['docker.io/library/tool', 'ghcr.io/a/b'],
    });
  });

  it('gives manifests with their type, digest and length, also for HEAD, and nothing when unchanged', async () => {
    const { manifest, text } = await image('docker.io/library/tool:1');
    await start(false);
    const headers = {
      'content-type': IMAGE,
      'docker-content-digest': manifest.digest,
      'content-length': String(text.length),
    };
    expect(await ask('GET /v2/tool/manifests/1')).toMatchObject({
      status: 200,
      headers,
      body: Buffer.from(text),
    });
    expect(await ask('HEAD /v2/tool/manifests/1')).toMatchObject({
      status: 200,
      headers,
      body: Buffer.alloc(0),
    });
    expect(
      (await ask('GET /v2/tool/manifests/1', { headers: { 'if-none-match': `"${manifest.digest}"` } }))
        .status,
    ).toBe(304);
  });

  it('gives blobs whole and in ranges', async () => {
    const { layer } = await image('docker.io/library/tool:1');
    await start(false);
    const path = `/v2/tool/blobs/${layer.digest}`;
    const get = (range: string, more: Record<string, string> = {}): Promise<Answer> =>
      ask(`GET ${path}`, { headers: { range, ...more } });
    expect((await ask(`GET ${path}`)).body.equals(LAYER)).toBe(true);
    expect(await ask(`HEAD ${path}`)).toMatchObject({
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
    expect((await ask(`GET ${path}`, { headers: { 'if-none-match': `"${layer.digest}"` } })).status).toBe(
      304,
    );
    expect(await ask(`GET /v2/tool/blobs/${digestOf('none')}`)).toMatchObject({
      status: 404,
      code: 'BLOB_UNKNOWN',
    });
  });

  it('never gives a blob as a manifest', async () => {
    const { layer } = await image('docker.io/library/tool:1');
    await start(false);
    expect((await ask(`GET /v2/tool/manifests/${layer.digest}`)).status).toBe(404);
  });

  it('breaks the connection where stored bytes turn out to be wrong', async () => {
    const { layer } = await image('docker.io/library/tool:1');
    const broken = {
      ...store,
      readBlob: async function* (): AsyncGenerator<Uint8Array> {
        yield LAYER.subarray(0, 10);
        throw new Error('corrupt');
      },
    };
    served = await serveRegistry({ store: broken });
    await expect(ask(`GET /v2/tool/blobs/${layer.digest}`)).rejects.toThrow('connection lost');
  });

  it('lists tags in pages', async () => {
    const { manifest } = await image('docker.io/library/tool:b');
    for (const tag of ['a', 'c', 'B']) await store.tag(`docker.io/library/tool:${tag}`, manifest);
    await start(false);
    const tags = async (query: string): Promise<unknown> => {
      const answer = await ask(`GET /v2/tool/tags/list${query}`);
      return [(JSON.parse(answer.body.toString()) as { tags: unknown }).tags, answer.headers.link];
    };
    expect(await tags('')).toEqual([['B', 'a', 'b', 'c'], undefined]);
    expect(await tags('?n=2')).toEqual([['B', 'a'], '</v2/tool/tags/list?n=2&last=a>; rel="next"']);
    expect(await tags('?n=2&last=a')).toEqual([['b', 'c'], undefined]);
    expect(await tags('?n=0')).toEqual([[], undefined]);
    expect(await ask('GET /v2/tool/tags/list?n=x')).toMatchObject({
      status: 400,
      code: 'PAGINATION_NUMBER_INVALID',
    });
    expect(await ask('GET /v2/none/tags/list')).toMatchObject({ status: 404, code: 'NAME_UNKNOWN' });
    await using asked = asking();
    expect(await asked.client.listTags(parseReference(`${served.host}/tool`), asked.options)).toEqual([
      'B',
      'a',
      'b',
      'c',
    ]);
  });
});

describe('who may ask', () => {
  beforeEach(() => start(true));

  it.each([
    ['another name (DNS rebinding)', { host: 'evil.test' }],
    ['another name with a port', { host: 'evil.test:5000' }],
    ['a page', { origin: 'http://evil.test' }],
    ['a page of null origin', { origin: 'null' }],
    ['a page without origin', { 'sec-fetch-site': 'cross-site' }],
  ])('refuses %s', async (_, headers) => {
    expect(await ask('GET /v2/', { headers: headers as unknown as Record<string, string> })).toMatchObject({
      status: 403,
      code: 'DENIED',
    });
  });

  it.each(['localhost:1', '127.0.0.1', '[::1]:5000'])('answers to %s', async (host) => {
    expect((await ask('GET /v2/', { headers: { host } })).status).toBe(200);
  });

  it('listens on loopback only, says when it cannot, and closes at the signal', async () => {
    for (const address of ['0.0.0.0', '::', '192.168.0.1', 'example.test']) {
      expect(await codeOf(serveRegistry({ store, address }))).toBe('REGISTRY_SERVE_FAILED');
    }
    expect(await codeOf(serveRegistry({ store, port: served.port }))).toBe('REGISTRY_SERVE_FAILED');
    const stop = new AbortController();
    const second = await serveRegistry({ store, signal: stop.signal });
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
    const socket = connect(served.port, '127.0.0.1');
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    const answer = (await collect(socket)).toString();
    expect(answer).toMatch(/^HTTP\/1\.1 40[04] /);
  });
});

describe('writing', () => {
  const start201 = { status: 201 };

  it('is refused unless asked for', async () => {
    const { manifest, text, layer } = await image('docker.io/library/tool:1');
    await start(false);
    for (const line of [
      'POST /v2/a/blobs/uploads/',
      'PUT /v2/a/manifests/1',
      'DELETE /v2/tool/manifests/1',
      `DELETE /v2/tool/blobs/${layer.digest}`,
    ]) {
      expect(await ask(line, { body: text })).toMatchObject({ status: 405, code: 'UNSUPPORTED' });
    }
    expect(await store.resolve('docker.io/library/tool:1')).toEqual(manifest);
  });

  async function upload(bytes: Uint8Array, digest: Digest = digestOf(bytes)): Promise<Answer> {
    const begun = await ask('POST /v2/a/blobs/uploads/');
    return await ask(`PUT ${begun.headers.location}?digest=${digest}`, { body: bytes });
  }

  it('takes blobs in one piece, in one request, or in chunks', async () => {
    await start(true);
    expect(await upload(LAYER)).toMatchObject({
      ...start201,
      headers: { 'docker-content-digest': digestOf(LAYER) },
    });
    expect((await ask(`GET /v2/a/blobs/${digestOf(LAYER)}`)).body.equals(LAYER)).toBe(true);
    expect((await ask(`POST /v2/a/blobs/uploads/?digest=${digestOf('one')}`, { body: 'one' })).status).toBe(
      201,
    );
    expect((await upload(Buffer.alloc(0))).status).toBe(201);
    const begun = await ask('POST /v2/a/blobs/uploads/');
    const path = String(begun.headers.location);
    const chunk = (body: string, range?: string): Promise<Answer> =>
      ask(`PATCH ${path}`, { body, headers: range === undefined ? {} : { 'content-range': range } });
    expect(await chunk('abc', '0-2')).toMatchObject({ status: 202, headers: { range: '0-2' } });
    expect(await chunk('x', '7-7')).toMatchObject({ status: 416, headers: { range: '0-2' } });
    expect(await chunk('xy', '3-3')).toMatchObject({ status: 400, code: 'SIZE_INVALID' });
    expect(await ask(`GET ${path}`)).toMatchObject({ status: 204, headers: { range: '0-2' } });
    expect((await chunk('de')).headers.range).toBe('0-4');
    expect(
      (
        await ask(`PUT ${path}?digest=${digestOf('abcdef')}`, {
          body: 'f',
          headers: { 'content-range': '5-5' },
        })
      ).status,
    ).toBe(201);
    expect(await ask(`GET ${path}`)).toMatchObject({ status: 404, code: 'BLOB_UPLOAD_UNKNOWN' });
    expect(store.blobs.has(digestOf('abcdef'))).toBe(true);
  });

  it('refuses bytes that are not what they are called, and keeps none of them', async () => {
    await start(true);
    expect(await upload(LAYER, digestOf('other'))).toMatchObject({ status: 400, code: 'DIGEST_INVALID' });
    const begun = await ask('POST /v2/a/blobs/uploads/');
    expect(await ask(`PUT ${begun.headers.location}?digest=sha256:../../x`, { body: 'x' })).toMatchObject({
      status: 400,
      code: 'DIGEST_INVALID',
    });
    expect(
      await ask(`PUT ${String(begun.headers.location).replace('/a/', '/b/')}?digest=${digestOf('x')}`, {
        body: 'x',
      }),
    ).toMatchObject({ status: 404 });
    expect((await ask(`DELETE ${begun.headers.location}`)).status).toBe(204);
    expect(store.blobs.size).toBe(0);
  });

  it('keeps nothing of a chunk that broke off, and nothing at all when closed', async () => {
    await start(true);
    const begun = await ask('POST /v2/a/blobs/uploads/');
    const path = String(begun.headers.location);
    await ask(`PATCH ${path}`, { body: 'abc' });
    const [folder = ''] = await readdir(directory);
    const [file = ''] = await readdir(join(directory, folder));
    const socket = connect(served.port, '127.0.0.1');
    socket.write(`PATCH ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf`);
    await expect.poll(async () => (await stat(join(directory, folder, file))).size).toBe(7);
    socket.end();
    const finish = async (): Promise<number> =>
      (await ask(`PUT ${path}?digest=${digestOf('abcdef')}`, { body: 'def' })).status;
    await expect.poll(finish).toBe(201);
    await ask('POST /v2/a/blobs/uploads/');
    await served.close();
    expect(await readdir(directory)).toEqual([]);
  });

  it('mounts what is there', async () => {
    await start(true);
    await upload(LAYER);
    const digest = digestOf(LAYER);
    expect((await ask(`POST /v2/b/blobs/uploads/?mount=${digest}&from=a`)).status).toBe(201);
    expect((await ask(`POST /v2/b/blobs/uploads/?mount=${digestOf('none')}&from=a`)).status).toBe(202);
    expect((await ask(`POST /v2/b/blobs/uploads/?mount=${digest}&from=../a`)).status).toBe(202);
  });

  it('takes manifests by tag and digest, checked', async () => {
    await start(true);
    await upload(LAYER);
    await upload(Buffer.from('{}'));
    const config = { mediaType: 'c', digest: digestOf('{}'), size: 2 };
    const text = manifestOf(config, [{ mediaType: 'l', digest: digestOf(LAYER), size: LAYER.length }]);
    const put = (to: string, body = text, type = IMAGE): Promise<Answer> =>
      ask(`PUT /v2/a/manifests/${to}`, { body, headers: { 'content-type': type } });
    expect(await put('1')).toMatchObject({
      status: 201,
      headers: { 'docker-content-digest': digestOf(text) },
    });
    expect((await put(digestOf(text, 'sha512'))).status).toBe(201);
    expect(await put(digestOf('other'))).toMatchObject({ status: 400, code: 'DIGEST_INVALID' });
    expect(await put('2', text, INDEX)).toMatchObject({ status: 400, code: 'MANIFEST_INVALID' });
    expect(await put('2', '{}')).toMatchObject({ status: 400, code: 'MANIFEST_INVALID' });
    expect(await put('2', manifestOf({ ...config, digest: digestOf('none') }, []))).toMatchObject({
      status: 400,
      code: 'MANIFEST_BLOB_UNKNOWN',
    });
    expect((await put('2', `${text}${' '.repeat(9e6)}`)).status).toBe(413);
    expect((await ask('GET /v2/a/manifests/1')).body.toString()).toBe(text);
    expect(await store.resolve('localhost/a:1')).toBeDefined();
  });

  it('never lets a push replace what came from elsewhere', async () => {
    const { manifest } = await image('docker.io/library/tool:1');
    await start(true);
    const text = manifestOf({ mediaType: 'c', digest: digestOf('{}'), size: 2 }, []);
    expect(
      (await ask('PUT /v2/tool/manifests/1', { body: text, headers: { 'content-type': IMAGE } })).status,
    ).toBe(201);
    expect(await store.resolve('docker.io/library/tool:1')).toEqual(manifest);
    expect((await ask('GET /v2/tool/manifests/1')).body.toString()).toBe(text);
  });

  it('lists referrers, filtered on request', async () => {
    const { manifest } = await image('docker.io/library/tool:1');
    await start(true);
    const config = { mediaType: 'application/vnd.oci.empty.v1+json', digest: digestOf('{}'), size: 2 };
    const subject = { mediaType: IMAGE, digest: manifest.digest, size: manifest.size };
    const signature = manifestOf(config, [], { artifactType: 'a/sig', subject, annotations: { k: 'v' } });
    const digest = digestOf(signature);
    const put = await ask(`PUT /v2/tool/manifests/${digest}`, {
      body: signature,
      headers: { 'content-type': IMAGE },
    });
    expect(put).toMatchObject({ status: 201, headers: { 'oci-subject': manifest.digest } });
    const list = async (query = ''): Promise<unknown> => {
      const answer = await ask(`GET /v2/tool/referrers/${manifest.digest}${query}`);
      return [
        answer.headers['oci-filters-applied'],
        (JSON.parse(answer.body.toString()) as { manifests: unknown }).manifests,
      ];
    };
    const entry = {
      mediaType: IMAGE,
      digest,
      size: signature.length,
      artifactType: 'a/sig',
      annotations: { k: 'v' },
    };
    expect(await list()).toEqual([undefined, [entry]]);
    expect(await list('?artifactType=a/sig')).toEqual(['artifactType', [entry]]);
    expect(await list('?artifactType=other')).toEqual(['artifactType', []]);
    await ask(`DELETE /v2/tool/manifests/${digest}`);
    expect(await list()).toEqual([undefined, []]);
  });

  it('deletes by tag, by digest, and blobs', async () => {
    const { manifest, layer } = await image('docker.io/library/tool:1');
    await store.tag('docker.io/library/tool:2', manifest);
    await start(true);
    expect((await ask('DELETE /v2/tool/manifests/1')).status).toBe(202);
    expect((await ask('GET /v2/tool/manifests/1')).status).toBe(404);
    expect((await ask('GET /v2/tool/manifests/2')).status).toBe(200);
    expect((await ask(`DELETE /v2/tool/manifests/${manifest.digest}`)).status).toBe(202);
    expect((await ask('GET /v2/tool/manifests/2')).status).toBe(404);
    expect((await ask(`GET /v2/tool/manifests/${manifest.digest}`)).status).toBe(404);
    expect((await ask('DELETE /v2/tool/manifests/2')).status).toBe(404);
    expect((await ask(`DELETE /v2/tool/blobs/${layer.digest}`)).status).toBe(202);
    expect((await ask(`HEAD /v2/tool/blobs/${layer.digest}`)).status).toBe(404);
    expect((await ask(`HEAD /v2/other/blobs/${layer.digest}`)).status).toBe(200);
  });

  it('serves our own client both ways', async () => {
    await start(true);
    await using asked = asking({ chunkSize: 70_000 });
    const at = parseReference(`${served.host}/team/app:1`);
    const blob = { mediaType: 'x', digest: digestOf(LAYER), size: LAYER.length };
    const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
      yield LAYER.subarray(offset);
    };
    expect(await asked.client.putBlob(at, blob, source, asked.options)).toBe('uploaded');
    expect(await asked.client.putBlob(at, blob, source, asked.options)).toBe('present');
    expect(
      (await collect(await asked.client.getBlob(at, blob, 5, asked.options))).equals(LAYER.subarray(5)),
    ).toBe(true);
    const text = manifestOf(blob, []);
    const manifest = {
      descriptor: { mediaType: IMAGE, digest: digestOf(text), size: text.length },
      bytes: Buffer.from(text),
    };
    await asked.client.putManifest(at, manifest, asked.options);
    expect((await asked.client.getManifest(at, asked.options)).descriptor).toEqual(manifest.descriptor);
    await asked.client.deleteManifest({ ...at, digest: manifest.descriptor.digest }, asked.options);
    expect(await asked.client.headManifest(at, asked.options)).toBeUndefined();
  });
});

describe('parseRange', () => {
  it.each([
    ['bytes=0-', { start: 0, end: 9 }],
    ['bytes=-3', { start: 7, end: 9 }],
    ['bytes=-99', { start: 0, end: 9 }],
    ['bytes=-0', 'unsatisfiable'],
    ['bytes=10-', 'unsatisfiable'],
    ['bytes=5-2', undefined],
    ['bytes=1-2,4-5', undefined],
    ['bytes=-', undefined],
    ['items=0-1', undefined],
    [undefined, undefined],
  ])('%s', (header, range) => {
    expect(parseRange(header, 10)).toEqual(range);
  });
});
