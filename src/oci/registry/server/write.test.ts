import { mkdir, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
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
import { tryLock } from '../../store/lock.ts';

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
    const folder = (await readdir(world.directory)).find((name) => !name.endsWith('.lock')) ?? '';
    const file = `a/${path.slice(path.lastIndexOf('/') + 1)}`;
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

  it('goes on with an upload whose file could not be opened, and with a folder that could not be made', async () => {
    const folder = join(world.directory, 'store');
    await world.start({ writable: true, store: { ...world.store, directory: folder } });
    await writeFile(folder, '');
    expect((await world.ask('POST /v2/a/blobs/uploads/')).status).toBe(500);
    await rm(folder);
    const begun = await world.ask('POST /v2/a/blobs/uploads/');
    expect(begun.status).toBe(202);
    const path = String(begun.headers.location);
    const [uploads = ''] = (await readdir(folder)).filter((name) => !name.endsWith('.lock'));
    const file = join(folder, uploads, 'a', path.slice(path.lastIndexOf('/') + 1));
    await rm(file);
    await mkdir(file);
    expect((await world.ask(`PATCH ${path}`, { body: 'abc' })).status).toBe(500);
    await rmdir(file);
    expect((await world.ask(`PATCH ${path}`, { body: 'abc' })).status).toBe(202);
  });

  it('removes what killed servers left, and not what living ones write, whatever their process id', async () => {
    await mkdir(join(world.directory, '.uploads-dead'));
    await mkdir(join(world.directory, '.uploads-1-alive'));
    using _alive = tryLock(join(world.directory, '.uploads-1-alive.lock'));
    await world.start({ writable: true });
    await world.ask('POST /v2/a/blobs/uploads/');
    await world.served.close();
    expect((await readdir(world.directory)).toSorted()).toEqual([
      '.uploads-1-alive',
      '.uploads-1-alive.lock',
    ]);
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

  it('keeps what was deleted out of reach after a restart too, until it is pushed again', async () => {
    const { manifest, layer, text } = await world.image('docker.io/library/tool:1');
    await world.start({ writable: true });
    const status = async (line: string): Promise<number> => (await world.ask(line)).status;
    for (const path of [`manifests/${manifest.digest}`, `blobs/${layer.digest}`])
      expect(await status(`DELETE /v2/tool/${path}`)).toBe(202);
    const reached = async (): Promise<readonly number[]> => [
      await status(`GET /v2/tool/manifests/${manifest.digest}`),
      await status(`GET /v2/tool/blobs/${layer.digest}`),
      await status(`GET /v2/other/blobs/${layer.digest}`),
    ];
    await world.start();
    expect(await reached()).toEqual([404, 404, 200]);
    await world.start({ writable: true });
    expect(await reached()).toEqual([404, 404, 200]);
    expect(await status(`POST /v2/tool/blobs/uploads/?mount=${layer.digest}&from=other`)).toBe(201);
    const headers = { 'content-type': IMAGE };
    const pushed = await world.ask('PUT /v2/tool/manifests/1', { body: text, headers });
    expect(pushed.status).toBe(201);
    await world.start();
    expect(await reached()).toEqual([200, 200, 200]);
    const file = join(world.directory, '.registry-hidden');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    // A line that a crash cut off, and what nobody here wrote, is passed over; a long file is made short again.
    const kept = `-tool@${layer.digest}\n`;
    const gone = `-a@${layer.digest}\n+a@${layer.digest}\n`.repeat(8_000);
    await writeFile(
      file,
      `${gone}${kept}-../x@${layer.digest}\n-tool@sha256:short\n-other@${layer.digest.slice(0, -9)}`,
    );
    // Who only reads may not be allowed to write.
    await world.start();
    expect(await reached()).toEqual([200, 404, 200]);
    expect((await readFile(file, 'utf8')).length).toBeGreaterThan(1024 * 1024);
    await world.start({ writable: true });
    expect(await reached()).toEqual([200, 404, 200]);
    expect((await readFile(file, 'utf8')).slice(0, 500)).toBe(kept);
  });

  it('keeps a deletion that follows a line which was cut off', async () => {
    const { manifest, layer } = await world.image('docker.io/library/tool:1');
    await writeFile(join(world.directory, '.registry-hidden'), `-tool@${manifest.digest.slice(0, -9)}`);
    await world.start({ writable: true });
    expect((await world.ask(`DELETE /v2/tool/blobs/${layer.digest}`)).status).toBe(202);
    await world.start();
    expect((await world.ask(`GET /v2/tool/blobs/${layer.digest}`)).status).toBe(404);
  });

  it('gives back what was deleted and is named again by others, until it is deleted again', async () => {
    const { manifest, layer } = await world.image('docker.io/library/tool:1');
    await world.start({ writable: true });
    const status = async (line: string): Promise<number> => (await world.ask(line)).status;
    const byDigest = `/v2/tool/manifests/${manifest.digest}`;
    const blob = `/v2/tool/blobs/${layer.digest}`;
    const reached = async (): Promise<readonly number[]> => [
      await status('GET /v2/tool/manifests/1'),
      await status(`GET ${byDigest}`),
      await status(`GET ${blob}`),
    ];
    const remove = async (): Promise<void> => {
      expect(await status(`DELETE ${blob}`)).toBe(202);
      expect(await status(`DELETE ${byDigest}`)).toBe(202);
    };
    const tag = (): Promise<void> => world.store.tag('docker.io/library/tool:1', manifest);
    await remove();
    expect(await reached()).toEqual([404, 404, 404]);
    await world.store.tag('docker.io/library/other:1', manifest);
    expect(await reached()).toEqual([404, 404, 404]);
    await tag();
    expect(await reached()).toEqual([200, 200, 200]);
    await world.start({ writable: true });
    expect(await reached()).toEqual([200, 200, 200]);
    expect(await status(`DELETE ${blob}`)).toBe(202);
    expect(await reached()).toEqual([200, 200, 404]);
    expect(await status(`DELETE ${byDigest}`)).toBe(202);
    expect(await reached()).toEqual([404, 404, 404]);
    // Whoever deletes a tag deletes no manifest.
    await tag();
    expect(await status('DELETE /v2/tool/manifests/1')).toBe(202);
    await world.start();
    expect(await reached()).toEqual([404, 200, 200]);
  });

  it('gives back what an index leads to that is named again', async () => {
    const { manifest, layer } = await world.image('docker.io/library/tool:1');
    const index = await world.store.add(
      JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: [manifest] }),
      INDEX,
    );
    await world.start({ writable: true });
    const digests = [`manifests/${index.digest}`, `manifests/${manifest.digest}`, `blobs/${layer.digest}`];
    const all = async (method: string): Promise<readonly number[]> => {
      const found: number[] = [];
      for (const path of digests) found.push((await world.ask(`${method} /v2/tool/${path}`)).status);
      return found;
    };
    expect(await all('DELETE')).toEqual([202, 202, 202]);
    expect(await all('GET')).toEqual([404, 404, 404]);
    await world.store.tag('docker.io/library/tool:1', index);
    expect(await all('GET')).toEqual([200, 200, 200]);
  });

  it('deletes nothing that it could not keep deleted', async () => {
    const { layer } = await world.image('docker.io/library/tool:1');
    await world.start({ writable: true });
    await mkdir(join(world.directory, '.registry-hidden'));
    expect((await world.ask(`DELETE /v2/tool/blobs/${layer.digest}`)).status).toBe(500);
    expect((await world.ask(`GET /v2/tool/blobs/${layer.digest}`)).status).toBe(200);
  });

  it('keeps what is pushed from being pruned for an hour, not for as long as it runs', async () => {
    let leased = 0;
    const lease = async (): Promise<AsyncDisposable> => {
      leased += 1;
      return {
        [Symbol.asyncDispose]: async () => {
          leased -= 1;
        },
      };
    };
    await world.start({ writable: true, store: { ...world.store, lease } });
    await world.upload('one');
    await world.upload('two');
    expect(leased).toBe(2);
    vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 3_601_000);
    await world.upload('three');
    vi.restoreAllMocks();
    expect(leased).toBe(1);
    await world.served.close();
    expect(leased).toBe(0);
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
});
