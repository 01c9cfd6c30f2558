import { readdir, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Answer,
  asking,
  collect,
  IMAGE,
  INDEX,
  LAYER,
  manifestOf,
  type ServedWorld,
  servedWorld,
} from '../../../testkit/registry/index.ts';
import { digestOf, parseReference } from '../../names/index.ts';

let world: ServedWorld;

beforeEach(async () => {
  world = await servedWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

describe('writing', () => {
  const start201 = { status: 201 };

  it('is refused unless asked for', async () => {
    const { manifest, text, layer } = await world.image('docker.io/library/tool:1');
    await world.start();
    for (const line of [
      'POST /v2/a/blobs/uploads/',
      'PUT /v2/a/manifests/1',
      'DELETE /v2/tool/manifests/1',
      `DELETE /v2/tool/blobs/${layer.digest}`,
    ]) {
      expect(await world.ask(line, { body: text })).toMatchObject({ status: 405, code: 'UNSUPPORTED' });
    }
    expect(await world.store.resolve('docker.io/library/tool:1')).toEqual(manifest);
  });

  it('takes blobs in one piece, in one request, or in chunks', async () => {
    await world.start({ writable: true });
    expect(await world.upload(LAYER)).toMatchObject({
      ...start201,
      headers: { 'docker-content-digest': digestOf(LAYER) },
    });
    expect((await world.ask(`GET /v2/a/blobs/${digestOf(LAYER)}`)).body.equals(LAYER)).toBe(true);
    expect(
      (await world.ask(`POST /v2/a/blobs/uploads/?digest=${digestOf('one')}`, { body: 'one' })).status,
    ).toBe(201);
    expect((await world.upload(Buffer.alloc(0))).status).toBe(201);
    const begun = await world.ask('POST /v2/a/blobs/uploads/');
    const path = String(begun.headers.location);
    const chunk = (body: string, range?: string): Promise<Answer> =>
      world.ask(`PATCH ${path}`, { body, headers: range === undefined ? {} : { 'content-range': range } });
    expect(await chunk('abc', '0-2')).toMatchObject({ status: 202, headers: { range: '0-2' } });
    expect(await chunk('x', '7-7')).toMatchObject({ status: 416, headers: { range: '0-2' } });
    expect(await chunk('xy', '3-3')).toMatchObject({ status: 400, code: 'SIZE_INVALID' });
    expect(await world.ask(`GET ${path}`)).toMatchObject({ status: 204, headers: { range: '0-2' } });
    expect((await chunk('de')).headers.range).toBe('0-4');
    expect(
      (
        await world.ask(`PUT ${path}?digest=${digestOf('abcdef')}`, {
          body: 'f',
          headers: { 'content-range': '5-5' },
        })
      ).status,
    ).toBe(201);
    expect(await world.ask(`GET ${path}`)).toMatchObject({ status: 404, code: 'BLOB_UPLOAD_UNKNOWN' });
    expect(world.store.blobs.has(digestOf('abcdef'))).toBe(true);
  });

  it('refuses bytes that are not what they are called, and keeps none of them', async () => {
    await world.start({ writable: true });
    expect(await world.upload(LAYER, digestOf('other'))).toMatchObject({
      status: 400,
      code: 'DIGEST_INVALID',
    });
    const begun = await world.ask('POST /v2/a/blobs/uploads/');
    expect(
      await world.ask(`PUT ${begun.headers.location}?digest=sha256:../../x`, { body: 'x' }),
    ).toMatchObject({
      status: 400,
      code: 'DIGEST_INVALID',
    });
    expect(
      await world.ask(`PUT ${String(begun.headers.location).replace('/a/', '/b/')}?digest=${digestOf('x')}`, {
        body: 'x',
      }),
    ).toMatchObject({ status: 404 });
    expect((await world.ask(`DELETE ${begun.headers.location}`)).status).toBe(204);
    expect(world.store.blobs.size).toBe(0);
  });

  it('keeps nothing of a chunk that broke off, and nothing at all when closed', async () => {
    await world.start({ writable: true });
    const begun = await world.ask('POST /v2/a/blobs/uploads/');
    const path = String(begun.headers.location);
    await world.ask(`PATCH ${path}`, { body: 'abc' });
    const [folder = ''] = await readdir(world.directory);
    const [file = ''] = await readdir(join(world.directory, folder));
    const socket = connect(world.served.port, '127.0.0.1');
    socket.write(`PATCH ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf`);
    await expect.poll(async () => (await stat(join(world.directory, folder, file))).size).toBe(7);
    socket.end();
    const finish = async (): Promise<number> =>
      (await world.ask(`PUT ${path}?digest=${digestOf('abcdef')}`, { body: 'def' })).status;
    await expect.poll(finish).toBe(201);
    await world.ask('POST /v2/a/blobs/uploads/');
    await world.served.close();
    expect(await readdir(world.directory)).toEqual([]);
  });

  it('mounts what is there', async () => {
    await world.start({ writable: true });
    await world.upload(LAYER);
    const digest = digestOf(LAYER);
    expect((await world.ask(`POST /v2/b/blobs/uploads/?mount=${digest}&from=a`)).status).toBe(201);
    expect((await world.ask(`POST /v2/b/blobs/uploads/?mount=${digestOf('none')}&from=a`)).status).toBe(202);
    expect((await world.ask(`POST /v2/b/blobs/uploads/?mount=${digest}&from=../a`)).status).toBe(202);
  });

  it('takes manifests by tag and digest, checked', async () => {
    await world.start({ writable: true });
    await world.upload(LAYER);
    await world.upload(Buffer.from('{}'));
    const config = { mediaType: 'c', digest: digestOf('{}'), size: 2 };
    const text = manifestOf(config, [{ mediaType: 'l', digest: digestOf(LAYER), size: LAYER.length }]);
    const put = (to: string, body = text, type = IMAGE): Promise<Answer> =>
      world.ask(`PUT /v2/a/manifests/${to}`, { body, headers: { 'content-type': type } });
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
    expect((await world.ask('GET /v2/a/manifests/1')).body.toString()).toBe(text);
    expect(await world.store.resolve('localhost/a:1')).toBeDefined();
  });

  it('never lets a push replace what came from elsewhere', async () => {
    const { manifest } = await world.image('docker.io/library/tool:1');
    await world.start({ writable: true });
    const text = manifestOf({ mediaType: 'c', digest: digestOf('{}'), size: 2 }, []);
    expect(
      (await world.ask('PUT /v2/tool/manifests/1', { body: text, headers: { 'content-type': IMAGE } }))
        .status,
    ).toBe(201);
    expect(await world.store.resolve('docker.io/library/tool:1')).toEqual(manifest);
    expect((await world.ask('GET /v2/tool/manifests/1')).body.toString()).toBe(text);
  });

  it('lists referrers, filtered on request', async () => {
    const { manifest } = await world.image('docker.io/library/tool:1');
    await world.start({ writable: true });
    const config = { mediaType: 'application/vnd.oci.empty.v1+json', digest: digestOf('{}'), size: 2 };
    const subject = { mediaType: IMAGE, digest: manifest.digest, size: manifest.size };
    const signature = manifestOf(config, [], { artifactType: 'a/sig', subject, annotations: { k: 'v' } });
    const digest = digestOf(signature);
    const put = await world.ask(`PUT /v2/tool/manifests/${digest}`, {
      body: signature,
      headers: { 'content-type': IMAGE },
    });
    expect(put).toMatchObject({ status: 201, headers: { 'oci-subject': manifest.digest } });
    const list = async (query = ''): Promise<unknown> => {
      const answer = await world.ask(`GET /v2/tool/referrers/${manifest.digest}${query}`);
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
    await world.ask(`DELETE /v2/tool/manifests/${digest}`);
    expect(await list()).toEqual([undefined, []]);
  });

  it('deletes by tag, by digest, and blobs', async () => {
    const { manifest, layer } = await world.image('docker.io/library/tool:1');
    await world.store.tag('docker.io/library/tool:2', manifest);
    await world.start({ writable: true });
    expect((await world.ask('DELETE /v2/tool/manifests/1')).status).toBe(202);
    expect((await world.ask('GET /v2/tool/manifests/1')).status).toBe(404);
    expect((await world.ask('GET /v2/tool/manifests/2')).status).toBe(200);
    expect((await world.ask(`DELETE /v2/tool/manifests/${manifest.digest}`)).status).toBe(202);
    expect((await world.ask('GET /v2/tool/manifests/2')).status).toBe(404);
    expect((await world.ask(`GET /v2/tool/manifests/${manifest.digest}`)).status).toBe(404);
    expect((await world.ask('DELETE /v2/tool/manifests/2')).status).toBe(404);
    expect((await world.ask(`DELETE /v2/tool/blobs/${layer.digest}`)).status).toBe(202);
    expect((await world.ask(`HEAD /v2/tool/blobs/${layer.digest}`)).status).toBe(404);
    expect((await world.ask(`HEAD /v2/other/blobs/${layer.digest}`)).status).toBe(200);
  });

  it('serves our own client both ways', async () => {
    await world.start({ writable: true });
    await using asked = asking({ chunkSize: 70_000 });
    const at = parseReference(`${world.served.host}/team/app:1`);
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

  const put = (to: string, body: string, headers: Record<string, string> = {}): Promise<Answer> =>
    world.ask(`PUT /v2/a/manifests/${to}`, { body, headers: { 'content-type': IMAGE, ...headers } });
  const config = { mediaType: 'application/vnd.oci.empty.v1+json', digest: digestOf('{}'), size: 2 };
  const tags = async (): Promise<unknown> =>
    (JSON.parse((await world.ask('GET /v2/a/tags/list')).body.toString()) as { tags: unknown }).tags;

  it('takes blobs and manifests by sha512, and refuses what only looks like it', async () => {
    await world.start({ writable: true });
    const digest = digestOf(LAYER, 'sha512');
    expect(await world.upload(LAYER, digest)).toMatchObject({
      ...start201,
      headers: { 'docker-content-digest': digest, location: `/v2/a/blobs/${digest}` },
    });
    expect((await world.ask(`GET /v2/a/blobs/${digest}`)).body.equals(LAYER)).toBe(true);
    expect(await world.upload(LAYER, digestOf('other', 'sha512'))).toMatchObject({ code: 'DIGEST_INVALID' });
    const text = manifestOf({ mediaType: 'l', digest, size: LAYER.length }, []);
    const named = digestOf(text, 'sha512');
    expect(await put(named, text)).toMatchObject({
      ...start201,
      headers: { 'docker-content-digest': named },
    });
    expect((await world.ask(`GET /v2/a/manifests/${named}`)).body.toString()).toBe(text);
    expect(await put(digestOf('other', 'sha512'), text)).toMatchObject({
      status: 400,
      code: 'DIGEST_INVALID',
    });
  });

  it('gives a manifest that is pushed by digest the tags it is to have', async () => {
    await world.start({ writable: true });
    await world.upload('{}');
    const text = manifestOf(config, []);
    const digest = digestOf(text);
    const answer = await put(`${digest}?tag=one&tag=two&tag=one`, text);
    expect([answer.status, answer.headers['oci-tag']]).toEqual([201, 'one, two']);
    expect(await tags()).toEqual(['one', 'two']);
    expect(await put(`${digest}?tag=..`, text)).toMatchObject({ status: 400, code: 'TAG_INVALID' });
    const many = Array.from({ length: 33 }, (_, index) => `tag=t${index}`).join('&');
    expect((await put(`${digest}?${many}`, text)).status).toBe(414);
    expect(await tags()).toEqual(['one', 'two']);
  });

  it('changes a manifest only under the conditions that were made', async () => {
    await world.start({ writable: true });
    await world.upload('{}');
    const first = manifestOf(config, []);
    const second = manifestOf(config, [], { annotations: { a: 'b' } });
    const tag = (text: string): string => `"${digestOf(text)}"`;
    const failed = { status: 412, code: 'PRECONDITION_FAILED' };
    expect(await put('1', first, { 'if-match': tag(first) })).toMatchObject(failed);
    expect(await put('1', first, { 'if-match': '*' })).toMatchObject(failed);
    expect((await put('1', first, { 'if-none-match': '*' })).status).toBe(201);
    expect(await put('1', second, { 'if-none-match': '*' })).toMatchObject(failed);
    expect(await put('1', second, { 'if-none-match': `"x", W/${tag(first)}` })).toMatchObject(failed);
    expect(await put('1', second, { 'if-match': tag(second) })).toMatchObject({
      ...failed,
      headers: { etag: tag(first) },
    });
    // Two that want to follow the same state: one does.
    const both = await Promise.all([
      put('1', second, { 'if-match': tag(first) }),
      put('1', manifestOf(config, [], { annotations: { c: 'd' } }), { 'if-match': tag(first) }),
    ]);
    expect(both.map(({ status }) => status).toSorted()).toEqual([201, 412]);
    expect((await put('1', second)).status).toBe(201);
    const remove = (match: string): Promise<Answer> =>
      world.ask('DELETE /v2/a/manifests/1', { headers: { 'if-match': match } });
    expect(await remove(tag(first))).toMatchObject(failed);
    expect((await remove(tag(second))).status).toBe(202);
  });

  it('refuses manifests that lead nowhere, unless sparse ones are welcome', async () => {
    const gone = { mediaType: 'l', digest: digestOf('gone'), size: 4 };
    const missing = manifestOf(config, [gone]);
    const index = JSON.stringify({
      schemaVersion: 2,
      mediaType: INDEX,
      manifests: [{ ...gone, mediaType: IMAGE }],
    });
    const elsewhere = manifestOf(config, [{ ...gone, urls: ['https://layers.test/x'] } as typeof gone]);
    const subject = { mediaType: IMAGE, digest: digestOf('nobody'), size: 6 };
    const referring = manifestOf(config, [], { subject });
    const empty = JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: [] });
    const all = async (): Promise<readonly number[]> => {
      await world.upload('{}');
      const answers = [
        await put('missing', missing),
        await put('index', index, { 'content-type': INDEX }),
        await put('elsewhere', elsewhere),
        await put('referring', referring),
        await put('empty', empty, { 'content-type': INDEX }),
      ];
      return answers.map(({ status }) => status);
    };
    await world.start({ writable: true });
    expect(await all()).toEqual([400, 400, 201, 201, 201]);
    await world.start({ writable: true, sparse: true });
    expect(await all()).toEqual([201, 201, 201, 201, 201]);
    expect((await world.ask('GET /v2/a/manifests/missing')).body.toString()).toBe(missing);
  });

  it('takes an index of which one manifest is here', async () => {
    await world.start({ writable: true });
    await world.upload('{}');
    const text = manifestOf(config, []);
    await put('1', text);
    const child = { mediaType: IMAGE, digest: digestOf(text), size: text.length };
    const index = (...digests: readonly string[]): string =>
      JSON.stringify({
        schemaVersion: 2,
        mediaType: INDEX,
        manifests: digests.map((digest) => ({ ...child, digest })),
      });
    const type = { 'content-type': INDEX };
    expect((await put('2', index(digestOf('gone'), child.digest), type)).status).toBe(201);
    expect((await put('3', index(digestOf('gone')), type)).status).toBe(400);
  });

  it('refuses a manifest that is too large before it has come', async () => {
    await world.start({ writable: true });
    const socket = connect(world.served.port, '127.0.0.1');
    socket.write('PUT /v2/a/manifests/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388609\r\n\r\n{');
    expect((await collect(socket)).toString()).toMatch(/^HTTP\/1\.1 413 .*SIZE_INVALID/s);
  });

  it('deletes nothing where that is switched off', async () => {
    const { layer } = await world.image('docker.io/library/a:1');
    await world.start({ writable: true, deletable: false });
    for (const path of ['manifests/1', `blobs/${layer.digest}`])
      expect(await world.ask(`DELETE /v2/a/${path}`)).toMatchObject({ status: 405, code: 'UNSUPPORTED' });
    const begun = await world.ask('POST /v2/a/blobs/uploads/');
    expect((await world.ask(`DELETE ${begun.headers.location}`)).status).toBe(204);
    expect((await world.ask('GET /v2/a/manifests/1')).status).toBe(200);
  });

  it('pages referrers, also those that are too many for one answer', async () => {
    await world.start({ writable: true });
    await world.upload('{}');
    const subject = { mediaType: IMAGE, digest: digestOf('subject'), size: 7 };
    const digests: string[] = [];
    for (let index = 0; index < 5; index += 1) {
      const large = 'x'.repeat(1_200_000);
      const text = manifestOf(config, [], {
        artifactType: 'a/sig',
        subject,
        annotations: { index: `${index}`, large },
      });
      digests.push(digestOf(text));
      expect((await put(digestOf(text), text)).status).toBe(201);
    }
    const walk = async (query: string): Promise<readonly (readonly string[])[]> => {
      const pages: string[][] = [];
      let next: string | undefined = `/v2/a/referrers/${subject.digest}${query}`;
      while (next !== undefined) {
        const answer: Answer = await world.ask(`GET ${next}`);
        const { manifests } = JSON.parse(answer.body.toString()) as { manifests: { digest: string }[] };
        pages.push(manifests.map(({ digest }) => digest));
        next = /^<(.*)>; rel="next"$/.exec(String(answer.headers.link ?? ''))?.[1];
      }
      return pages;
    };
    const sorted = digests.toSorted();
    const pages = await walk('');
    expect([pages.flat(), pages.map((page) => page.length)]).toEqual([sorted, [2, 2, 1]]);
    expect((await walk('?artifactType=a/sig')).flat()).toEqual(sorted);
    expect((await walk('?n=1&artifactType=a/sig')).map((page) => page.length)).toEqual([1, 1, 1, 1, 1]);
    expect(await walk('?artifactType=other')).toEqual([[]]);
  });

  it('keeps a referrer that has lost its tag', async () => {
    await world.start({ writable: true });
    await world.upload('{}');
    const subject = { mediaType: IMAGE, digest: digestOf('subject'), size: 7 };
    await put('sig', manifestOf(config, [], { artifactType: 'a/sig', subject }));
    const count = async (): Promise<number> =>
      (
        JSON.parse((await world.ask(`GET /v2/a/referrers/${subject.digest}`)).body.toString()) as {
          manifests: [];
        }
      ).manifests.length;
    expect(await count()).toBe(1);
    await world.ask('DELETE /v2/a/manifests/sig');
    expect(await count()).toBe(1);
  });
});
