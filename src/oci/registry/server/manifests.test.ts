import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Answer,
  collect,
  IMAGE,
  INDEX,
  LAYER,
  manifestOf,
  type ServedWorld,
  servedWorld,
} from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import { openStore } from '../../store/index.ts';

let world: ServedWorld;

beforeEach(async () => {
  world = await servedWorld();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

describe('manifests', () => {
  const start201 = { status: 201 };
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
    expect((await put('1', second)).status).toBe(201);
    const remove = (match: string): Promise<Answer> =>
      world.ask('DELETE /v2/a/manifests/1', { headers: { 'if-match': match } });
    expect(await remove(tag(first))).toMatchObject(failed);
    expect((await remove(tag(second))).status).toBe(202);
  });

  it('lets one of two pushes follow the same state', async () => {
    // A store that takes its time: without a queue both would have looked before either wrote.
    const resolve = async (reference: string): ReturnType<typeof world.store.resolve> => {
      const found = await world.store.resolve(reference);
      await setTimeout(30);
      return found;
    };
    await world.start({ writable: true, store: { ...world.store, resolve } });
    await world.upload('{}');
    const first = manifestOf(config, []);
    await put('1', first);
    const push = async (note: string): Promise<number> =>
      (
        await put('1', manifestOf(config, [], { annotations: { note } }), {
          'if-match': `"${digestOf(first)}"`,
        })
      ).status;
    expect((await Promise.all([push('a'), push('b')])).toSorted()).toEqual([201, 412]);
  });

  it('names in a store on disk what it takes: layers kept elsewhere, an index of which some is here', async () => {
    await using store = await openStore({ directory: join(world.directory, 'store') });
    await world.start({ writable: true, sparse: true, store });
    await world.upload('{}');
    const gone = { mediaType: 'l', digest: digestOf('gone'), size: 4 };
    const elsewhere = manifestOf(config, [{ ...gone, urls: ['https://layers.test/x'] } as typeof gone]);
    expect((await put('elsewhere', elsewhere)).status).toBe(201);
    expect((await put('missing', manifestOf(config, [gone]))).status).toBe(201);
    expect((await store.resolve('localhost/a:elsewhere'))?.digest).toBe(digestOf(elsewhere));
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
        artifactType: index % 2 === 0 ? 'a/sig' : 'a/sbom',
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
    const signatures = digests.filter((_, index) => index % 2 === 0).toSorted();
    expect((await walk('?artifactType=a/sig')).flat()).toEqual(signatures);
    expect(await walk('?n=1&artifactType=a/sig')).toEqual(signatures.map((digest) => [digest]));
    const first = await world.ask(`GET /v2/a/referrers/${subject.digest}?n=1&artifactType=a/sig`);
    expect(first.headers.link).toContain('?artifactType=a%2Fsig&n=1&last=');
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
