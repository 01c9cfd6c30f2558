import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Answer, collect, type ServedWorld, servedWorld } from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf } from '../../names/index.ts';
import type { Store } from '../../port.ts';
import type { Digest } from '../../types.ts';

let world: ServedWorld;
let leased: Digest[];
beforeEach(async () => {
  world = await servedWorld();
  leased = [];
});
afterEach(() => world[Symbol.asyncDispose]());

const start = async (more: Partial<Store> = {}): Promise<void> => {
  const lease: Store['lease'] = async (_why, digests) => {
    leased.push(...digests);
    return { [Symbol.asyncDispose]: async () => {} };
  };
  await world.start({ writable: true, store: { ...world.store, lease, ...more } });
};
const begin = async (): Promise<string> =>
  String((await world.ask('POST /v2/a/blobs/uploads/')).headers.location);
const ABC = digestOf('abc');

describe('an upload', () => {
  it('that begins says where it goes on and that any chunk will do', async () => {
    await start();
    const { status, headers, body } = await world.ask('POST /v2/team/a/blobs/uploads/');
    const id = String(headers['docker-upload-uuid']);
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    const common = {
      location: `/v2/team/a/blobs/uploads/${id}`,
      range: '0-0',
      'docker-upload-uuid': id,
      'oci-chunk-min-length': '1',
    };
    expect({ status, headers, body }).toMatchObject({
      status: 202,
      headers: { ...common, 'content-length': '0' },
      body: Buffer.alloc(0),
    });
    const asked = await world.ask(`GET ${common.location}`);
    expect(asked).toMatchObject({ status: 204, headers: common });
    expect(asked.headers['content-length']).toBeUndefined();
  });

  it('that ends says where the blob is', async () => {
    await start();
    expect(await world.ask(`PUT ${await begin()}?digest=${ABC}`, { body: 'abc' })).toMatchObject({
      status: 201,
      headers: { location: `/v2/a/blobs/${ABC}`, 'docker-content-digest': ABC, 'content-length': '0' },
    });
    expect(leased).toEqual([ABC]);
  });

  it('passes over what the store still has of an earlier try, however many parts that is', async () => {
    const taken: Uint8Array[] = [];
    await start({
      ingest: async (_blob, open) => {
        for await (const part of await open(350_000)) taken.push(part);
      },
    });
    const bytes = Buffer.from(Array.from({ length: 600_000 }, (_, at) => (at * 7) % 251));
    const target = `${await begin()}?digest=${digestOf(bytes)}`;
    expect((await world.ask(`PUT ${target}`, { body: bytes })).status).toBe(201);
    expect(Buffer.concat(taken).equals(bytes.subarray(350_000))).toBe(true);
  });

  it('is known under its own repository alone, until it is over', async () => {
    await start();
    const path = await begin();
    const unknown = { status: 404, code: 'BLOB_UPLOAD_UNKNOWN', message: 'no such upload' };
    const other = path.replace('/a/', '/b/');
    for (const line of [`GET ${other}`, `PATCH ${other}`, `PUT ${other}?digest=${ABC}`, `DELETE ${other}`])
      expect(await world.ask(line)).toMatchObject(unknown);
    expect(await world.ask(`DELETE ${path}`)).toMatchObject({ status: 204, body: Buffer.alloc(0) });
    for (const line of [`GET ${path}`, `PATCH ${path}`, `PUT ${path}?digest=${ABC}`, `DELETE ${path}`])
      expect(await world.ask(line)).toMatchObject(unknown);
  });

  it('asks for a digest before it takes anything', async () => {
    await start();
    const wrong = { status: 400, code: 'DIGEST_INVALID', message: 'not a digest' };
    expect(await world.ask('POST /v2/a/blobs/uploads/?digest=sha256:1', { body: 'abc' })).toMatchObject(
      wrong,
    );
    const path = await begin();
    expect(await world.ask(`PUT ${path}`, { body: 'abc' })).toMatchObject(wrong);
    expect(await world.ask(`PUT ${path}?digest=x`, { body: 'abc' })).toMatchObject(wrong);
    expect(await world.ask(`GET ${path}`)).toMatchObject({ status: 204, headers: { range: '0-0' } });
    expect(leased).toEqual([]);
  });

  it('is over when its bytes turn out to be others', async () => {
    await start();
    const path = await begin();
    expect(await world.ask(`PUT ${path}?digest=${digestOf('other')}`, { body: 'abc' })).toMatchObject({
      status: 400,
      code: 'DIGEST_INVALID',
      message: 'the bytes do not have this digest',
    });
    expect((await world.ask(`GET ${path}`)).status).toBe(404);
    expect(world.store.blobs.size).toBe(0);
  });

  it.each(['0-2', 'bytes 0-2', '0-2/*', '0-2/99', 'bytes 0-2/3'])(
    'takes a chunk whose place is written %s',
    async (range) => {
      await start();
      const path = await begin();
      const headers = { 'content-range': range };
      expect(await world.ask(`PATCH ${path}`, { body: 'abc', headers })).toMatchObject({
        status: 202,
        headers: { location: path, range: '0-2', 'content-length': '0' },
      });
      expect((await world.ask(`PUT ${path}?digest=${ABC}`)).status).toBe(201);
    },
  );

  it.each(['1-3', '2-0', 'x0-2', '0-2x', '0-2/x', '0-2/', 'bytes=0-2', '0-', '-2', '0-9999999999999999', ''])(
    'takes no chunk whose place is written %j, and says what is here',
    async (range) => {
      await start();
      const path = await begin();
      const refused = { status: 416, code: 'BLOB_UPLOAD_INVALID' };
      const message = 'the chunk does not follow what is here';
      const headers = { 'content-range': range };
      for (const line of [`PATCH ${path}`, `PUT ${path}?digest=${ABC}`])
        expect(await world.ask(line, { body: 'abc', headers })).toMatchObject({
          ...refused,
          message,
          headers: { location: path, range: '0-0' },
        });
      await world.ask(`PATCH ${path}`, { body: 'abcd' });
      expect(
        await world.ask(`PATCH ${path}`, { body: 'x', headers: { 'content-range': '5-5' } }),
      ).toMatchObject({
        ...refused,
        headers: { location: path, range: '0-3' },
      });
    },
  );

  it('takes a chunk of one byte, and none that is longer or shorter than its place', async () => {
    await start();
    const path = await begin();
    const chunk = (body: string, range: string): Promise<Answer> =>
      world.ask(`PATCH ${path}`, { body, headers: { 'content-range': range } });
    expect((await chunk('a', '0-0')).status).toBe(202);
    const differ = { status: 400, code: 'SIZE_INVALID', message: 'Content-Range and Content-Length differ' };
    expect(await chunk('bc', '1-1')).toMatchObject(differ);
    expect(await chunk('b', '1-2')).toMatchObject(differ);
    expect((await chunk('bc', '1-2')).headers.range).toBe('0-2');
  });

  it('may end with its last chunk, in its place or without, announced or not', async () => {
    await start();
    const finish = async (first: string, sent: Parameters<ServedWorld['ask']>[1]): Promise<number> => {
      const path = await begin();
      if (first !== '') await world.ask(`PATCH ${path}`, { body: first });
      return (await world.ask(`PUT ${path}?digest=${ABC}`, sent)).status;
    };
    expect(await finish('ab', { body: 'c' })).toBe(201);
    expect(await finish('ab', { body: 'c', headers: { 'content-range': '2-2' } })).toBe(201);
    expect(await finish('', { body: 'abc', headers: { 'content-range': '0-2' } })).toBe(201);
    expect(await finish('abc', {})).toBe(201);
    const socket = connect(world.served.port, '127.0.0.1');
    const head = `PUT ${await begin()}?digest=${ABC} HTTP/1.1\r\nHost: localhost\r\nConnection: close`;
    socket.write(`${head}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n`);
    expect((await collect(socket)).toString()).toMatch(/^HTTP\/1\.1 201 /);
  });

  it('that comes in one piece passes over what the store has of it, and comes once', async () => {
    const seen: string[] = [];
    const text = async (source: AsyncIterable<Uint8Array>): Promise<number> =>
      seen.push((await collect(source)).toString());
    let isTwice = false;
    await start({
      ingest: async (_blob, open) => {
        await text(await open(4));
        if (isTwice) await text(await open(0));
      },
    });
    const digest = digestOf('abcdef');
    const put = async (): Promise<Answer> =>
      await world.ask(`PUT ${await begin()}?digest=${digest}`, { body: 'abcdef' });
    expect((await put()).status).toBe(201);
    expect(seen).toEqual(['ef']);
    isTwice = true;
    expect(await put()).toMatchObject({
      status: 400,
      code: 'BLOB_UPLOAD_INVALID',
      message: 'the transfer ended early',
    });
  });

  it('that came in chunks is read from where the store wants it', async () => {
    const seen: string[] = [];
    await start({
      ingest: async (blob, open, { signal }) => {
        expect([blob.size, signal.aborted]).toEqual([6, false]);
        for (const offset of [4, 0]) seen.push((await collect(await open(offset))).toString());
      },
    });
    const path = await begin();
    await world.ask(`PATCH ${path}`, { body: 'abcdef' });
    expect((await world.ask(`PUT ${path}?digest=${digestOf('abcdef')}`)).status).toBe(201);
    expect(seen).toEqual(['ef', 'abcdef']);
  });

  it('whose bytes cannot be kept is a fault of this side, and over', async () => {
    await start({ ingest: () => Promise.reject(ociError('OCI_STORE_INVALID', 'broken')) });
    const path = await begin();
    expect(await world.ask(`PUT ${path}?digest=${ABC}`, { body: 'abc' })).toMatchObject({
      status: 500,
      code: 'UNKNOWN',
      message: 'OCI_STORE_INVALID',
    });
    expect((await world.ask(`GET ${path}`)).status).toBe(404);
  });
});

describe('a mount', () => {
  it('of what is here needs no bytes, and keeps them', async () => {
    const { layer } = await world.image('docker.io/library/tool:1');
    await start();
    for (const from of ['', '&from=tool'])
      expect(await world.ask(`POST /v2/b/blobs/uploads/?mount=${layer.digest}${from}`)).toMatchObject({
        status: 201,
        headers: { location: `/v2/b/blobs/${layer.digest}`, 'docker-content-digest': layer.digest },
      });
    expect(leased).toEqual([layer.digest, layer.digest]);
  });

  it('of what is not here, or not under that name, is an upload', async () => {
    const { layer } = await world.image('docker.io/library/tool:1');
    await start();
    await world.ask(`DELETE /v2/tool/blobs/${layer.digest}`);
    for (const query of [
      `mount=${layer.digest}&from=tool`,
      `mount=${digestOf('none')}`,
      `mount=${digestOf('none')}&digest=${ABC}`,
      'mount=x',
      'mount=x&digest=x',
    ])
      expect([
        query,
        (await world.ask(`POST /v2/b/blobs/uploads/?${query}`, { body: 'abc' })).status,
      ]).toEqual([query, 202]);
    expect(leased).toEqual([]);
  });
});

describe('a deletion', () => {
  it('of a blob says that it was done, or that there is none', async () => {
    const { layer } = await world.image('docker.io/library/tool:1');
    await start();
    const remove = (): Promise<Answer> => world.ask(`DELETE /v2/tool/blobs/${layer.digest}`);
    expect(await remove()).toMatchObject({ status: 202, headers: { 'content-length': '0' } });
    expect(await remove()).toMatchObject({ status: 404, code: 'BLOB_UNKNOWN', message: 'no such blob' });
  });

  it('of a tag leaves the manifest and other tags, under whatever name the image came', async () => {
    const { manifest } = await world.image('docker.io/library/a:1');
    await world.store.tag('localhost/a:1', manifest);
    await world.store.tag('localhost/a:2', manifest);
    await start();
    const status = async (line: string): Promise<number> => (await world.ask(line)).status;
    expect(await world.ask('DELETE /v2/a/manifests/1')).toMatchObject({
      status: 202,
      headers: { 'content-length': '0' },
    });
    expect((await world.store.list()).map(({ reference }) => reference)).toEqual(['localhost/a:2']);
    expect(await status(`GET /v2/a/manifests/${manifest.digest}`)).toBe(200);
    expect(await world.ask('DELETE /v2/a/manifests/1')).toMatchObject({
      status: 404,
      code: 'MANIFEST_UNKNOWN',
      message: 'no such manifest',
    });
  });

  it('of a manifest takes all its tags and those of no other', async () => {
    const { manifest } = await world.image('docker.io/library/a:1');
    await world.store.tag('localhost/a:2', manifest);
    await world.store.tag('localhost/b:1', manifest);
    await world.store.tag('localhost/a:other', await world.store.add('{}'));
    await start();
    expect((await world.ask(`DELETE /v2/a/manifests/${manifest.digest}`)).status).toBe(202);
    expect((await world.store.list()).map(({ reference }) => reference)).toEqual([
      'localhost/b:1',
      'localhost/a:other',
    ]);
    expect((await world.ask(`GET /v2/a/manifests/${manifest.digest}`)).status).toBe(404);
    expect((await world.ask(`GET /v2/b/manifests/${manifest.digest}`)).status).toBe(200);
  });
});
