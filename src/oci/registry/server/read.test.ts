import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Answer,
  IMAGE,
  INDEX,
  LAYER,
  manifestOf,
  type ServedWorld,
  servedWorld,
} from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import type { StoredImage } from '../../port.ts';
import type { Descriptor } from '../../types.ts';

let world: ServedWorld;
beforeEach(async () => {
  world = await servedWorld();
});
afterEach(() => world[Symbol.asyncDispose]());

const json = (answer: Answer): unknown => JSON.parse(answer.body.toString());

describe('a manifest', () => {
  it('has its digest as entity tag, also where nothing has changed', async () => {
    const { manifest, text } = await world.image('docker.io/library/tool:1');
    await world.start();
    const tags = { 'docker-content-digest': manifest.digest, etag: `"${manifest.digest}"` };
    for (const method of ['GET', 'HEAD']) {
      const length = String(text.length);
      const headers = { ...tags, 'content-type': IMAGE, 'content-length': length };
      expect(await world.ask(`${method} /v2/tool/manifests/1`)).toMatchObject({ status: 200, headers });
      const known = { headers: { 'if-none-match': tags.etag } };
      const answer = await world.ask(`${method} /v2/tool/manifests/1`, known);
      expect(answer).toMatchObject({ status: 304, headers: tags });
      expect(answer.headers['content-length']).toBeUndefined();
      expect(answer.headers['content-type']).toBeUndefined();
    }
  });

  it('that is not here is not here for HEAD either', async () => {
    await world.start();
    const absent = { status: 404, code: 'MANIFEST_UNKNOWN', message: 'no such manifest' };
    expect(await world.ask('GET /v2/a/manifests/1')).toMatchObject(absent);
    expect(await world.ask(`GET /v2/a/manifests/${digestOf('none')}`)).toMatchObject(absent);
    expect((await world.ask('HEAD /v2/a/manifests/1')).status).toBe(404);
  });
});

describe('a blob', () => {
  let layer: Descriptor;
  let path: string;
  beforeEach(async () => {
    ({ layer } = await world.image('docker.io/library/tool:1'));
    path = `/v2/tool/blobs/${layer.digest}`;
  });

  it('comes as bytes with their digest, or not at all where it has not changed', async () => {
    await world.start();
    const tags = { 'docker-content-digest': layer.digest, etag: `"${layer.digest}"` };
    const headers = {
      ...tags,
      'content-type': 'application/octet-stream',
      'accept-ranges': 'bytes',
      'content-length': '200000',
    };
    const whole = await world.ask(`GET ${path}`);
    expect(whole).toMatchObject({ status: 200, headers });
    expect(whole.headers['content-range']).toBeUndefined();
    const head = await world.ask(`HEAD ${path}`);
    expect(head).toMatchObject({ status: 200, headers, body: Buffer.alloc(0) });
    const answer = await world.ask(`GET ${path}`, { headers: { 'if-none-match': '*' } });
    expect(answer).toMatchObject({ status: 304, headers: tags });
    expect(answer.headers['content-type']).toBeUndefined();
  });

  it('comes in the part that is asked for, if it is still the same blob', async () => {
    await world.start();
    const part = async (method: string, more: Record<string, string> = {}): Promise<Answer> =>
      await world.ask(`${method} ${path}`, { headers: { range: 'bytes=5-9', ...more } });
    const headers = {
      'content-range': 'bytes 5-9/200000',
      'content-length': '5',
      'docker-content-digest': layer.digest,
    };
    expect(await part('GET')).toMatchObject({ status: 206, headers, body: LAYER.subarray(5, 10) });
    expect(await part('HEAD')).toMatchObject({ status: 206, headers, body: Buffer.alloc(0) });
    const same = { 'if-range': `"${layer.digest}"` };
    expect(await part('GET', same)).toMatchObject({ status: 206, headers });
    for (const other of [`"${digestOf('other')}"`, layer.digest, `W/"${layer.digest}"`])
      expect((await part('GET', { 'if-range': other })).status).toBe(200);
  });

  it('has no part beyond its end, and an empty one none at all', async () => {
    const empty = await world.store.add('');
    await world.start();
    const beyond = async (of: string, range: string): Promise<Answer> =>
      await world.ask(`GET ${of}`, { headers: { range } });
    expect(await beyond(path, 'bytes=200000-')).toMatchObject({
      status: 416,
      code: 'RANGE_INVALID',
      message: 'no such range',
      headers: { 'content-range': 'bytes */200000' },
    });
    const nothing = `/v2/tool/blobs/${empty.digest}`;
    expect(await world.ask(`GET ${nothing}`)).toMatchObject({
      status: 200,
      headers: { 'content-length': '0' },
      body: Buffer.alloc(0),
    });
    expect(await beyond(nothing, 'bytes=0-')).toMatchObject({ status: 416 });
  });

  it('that is not here, or has just gone, is not here', async () => {
    await world.start({ store: { ...world.store, blobSize: async () => undefined } });
    const absent = { status: 404, code: 'BLOB_UNKNOWN', message: 'no such blob' };
    expect(await world.ask(`GET ${path}`)).toMatchObject(absent);
    expect(await world.ask(`GET /v2/tool/blobs/${digestOf('none')}`)).toMatchObject(absent);
  });

  it('is read to its end where all of it is sent, so that the store checks it, and no further than a part goes', async () => {
    let isRead = false;
    const readBlob = async function* (): AsyncGenerator<Uint8Array> {
      yield LAYER;
      isRead = true;
    };
    await world.start({ store: { ...world.store, readBlob } });
    expect((await world.ask(`GET ${path}`, { headers: { range: 'bytes=0-9' } })).body).toHaveLength(10);
    expect(isRead).toBe(false);
    expect((await world.ask(`GET ${path}`)).body).toHaveLength(200_000);
    expect(isRead).toBe(true);
  });

  it('of which the store has less than it said breaks the connection', async () => {
    const readBlob = async function* (): AsyncGenerator<Uint8Array> {
      yield LAYER.subarray(0, 199_999);
    };
    await world.start({ store: { ...world.store, readBlob } });
    await expect(world.ask(`GET ${path}`)).rejects.toThrow('connection lost');
  });

  it('is read no further once nobody listens', async () => {
    const answered = Promise.withResolvers<void>();
    const readBlob = async function* (): AsyncGenerator<Uint8Array> {
      for (;;) yield LAYER;
    };
    await world.start({
      store: { ...world.store, readBlob, blobSize: async () => 1e12 },
      onRequest: () => answered.resolve(),
    });
    const socket = connect(world.served.port, '127.0.0.1');
    socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await once(socket, 'data');
    socket.destroy();
    await answered.promise;
  });
});

describe('a list', () => {
  const stored = (reference: string): StoredImage => ({
    reference,
    descriptor: { mediaType: IMAGE, digest: digestOf(reference), size: 1 },
    sizeBytes: 1,
    platforms: [],
  });
  const numbers = Array.from({ length: 10_001 }, (_, index) => `r${String(index).padStart(5, '0')}`);

  it('of tags has each once, and none where images have no tag', async () => {
    const { manifest } = await world.image('docker.io/library/tool:1');
    await world.store.tag('localhost/tool:1', manifest);
    await world.store.tag(`localhost/other@${manifest.digest}`, manifest);
    await world.start();
    expect(json(await world.ask('GET /v2/tool/tags/list'))).toEqual({ name: 'tool', tags: ['1'] });
    expect(json(await world.ask('GET /v2/other/tags/list'))).toEqual({ name: 'other', tags: [] });
    expect(await world.ask('GET /v2/none/tags/list')).toMatchObject({
      status: 404,
      code: 'NAME_UNKNOWN',
      message: 'no such repository',
    });
  });

  it('of tags has 10,000 at most', async () => {
    const list = async () => numbers.map((tag) => stored(`localhost/a:${tag}`));
    await world.start({ store: { ...world.store, list } });
    const answer = await world.ask('GET /v2/a/tags/list');
    expect((json(answer) as { tags: unknown[] }).tags).toHaveLength(10_000);
    expect(answer.headers.link).toBe('</v2/a/tags/list?last=r09999>; rel="next"');
    const rest = await world.ask('GET /v2/a/tags/list?last=r09999');
    expect([json(rest), rest.headers.link]).toEqual([{ name: 'a', tags: ['r10000'] }, undefined]);
  });

  it('of repositories has 10,000 at most', async () => {
    const list = async () => numbers.map((name) => stored(`localhost/${name}:1`));
    await world.start({ store: { ...world.store, list } });
    const answer = await world.ask('GET /v2/_catalog');
    expect((json(answer) as { repositories: unknown[] }).repositories).toHaveLength(10_000);
    expect(answer.headers.link).toBe('</v2/_catalog?last=r09999>; rel="next"');
    expect(json(await world.ask('GET /v2/_catalog?n=1'))).toEqual({ repositories: ['r00000'] });
  });
});

describe('referrers', () => {
  const subject = { mediaType: IMAGE, digest: digestOf('subject'), size: 7 };
  const config: Descriptor = { mediaType: 'x/config', digest: digestOf('{}'), size: 2 };
  const refer = async (tag: string, more: object = {}): Promise<Descriptor> => {
    const text = manifestOf(config, [], { subject, annotations: { tag }, ...more });
    const descriptor = await world.store.add(text, IMAGE);
    await world.store.tag(`localhost/a:${tag}`, descriptor);
    return descriptor;
  };
  const manifests = async (query = ''): Promise<readonly { digest: string }[]> =>
    (json(await world.ask(`GET /v2/a/referrers/${subject.digest}${query}`)) as { manifests: [] }).manifests;

  it('are an index of those that name it, once each, by digest, with what they say of themselves', async () => {
    const one = await refer('one');
    await world.store.tag('localhost/a:again', one);
    const two = await refer('two', { artifactType: 'a/sig', annotations: undefined });
    const plain = await world.store.add(manifestOf(config, []), IMAGE);
    await world.store.tag('localhost/a:plain', plain);
    await world.store.tag('localhost/a:blob', await world.store.add('no manifest'));
    await world.start();
    const answer = await world.ask(`GET /v2/a/referrers/${subject.digest}`);
    expect(answer.headers).toMatchObject({ 'content-type': INDEX });
    expect(answer.headers['oci-filters-applied']).toBeUndefined();
    const expected = [
      { ...one, artifactType: 'x/config', annotations: { tag: 'one' } },
      { ...two, artifactType: 'a/sig' },
    ].toSorted((left, right) => (left.digest < right.digest ? -1 : 1));
    expect(json(answer)).toEqual({ schemaVersion: 2, mediaType: INDEX, manifests: expected });
  });

  it('are none where nobody names it, and only those of a type where one is asked for', async () => {
    const sig = await refer('one', { artifactType: 'a/sig' });
    await refer('two', { artifactType: 'a/sbom' });
    await world.start();
    const none = await world.ask(`GET /v2/a/referrers/${digestOf('nobody')}`);
    expect([none.status, json(none)]).toEqual([200, { schemaVersion: 2, mediaType: INDEX, manifests: [] }]);
    const filtered = await world.ask(`GET /v2/a/referrers/${subject.digest}?artifactType=a/sig`);
    expect(filtered.headers['oci-filters-applied']).toBe('artifactType');
    expect((await manifests('?artifactType=a/sig')).map(({ digest }) => digest)).toEqual([sig.digest]);
    expect(await manifests()).toHaveLength(2);
  });

  it('come one by one where each is more than an answer should be', async () => {
    const large = { annotations: { large: 'x'.repeat(3 * 1024 * 1024) } };
    const all = [await refer('one', large), await refer('two', { ...large, artifactType: 'a/sig' })];
    await world.start();
    const [first = '', second = ''] = all.map(({ digest }) => digest).toSorted();
    const answer = await world.ask(`GET /v2/a/referrers/${subject.digest}`);
    expect(
      (json(answer) as { manifests: { digest: string }[] }).manifests.map(({ digest }) => digest),
    ).toEqual([first]);
    const next = `/v2/a/referrers/${subject.digest}?last=${encodeURIComponent(first)}`;
    expect(answer.headers.link).toBe(`<${next}>; rel="next"`);
    expect((await manifests(next.slice(next.indexOf('?')))).map(({ digest }) => digest)).toEqual([second]);
  });
});
