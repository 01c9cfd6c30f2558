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
import type { Store } from '../../port.ts';
import type { Descriptor, Digest } from '../../types.ts';

let world: ServedWorld;
let leased: Digest[];
beforeEach(async () => {
  world = await servedWorld();
  leased = [];
});
afterEach(() => world[Symbol.asyncDispose]());

const start = async (): Promise<void> => {
  const lease: Store['lease'] = async (_why, digests) => {
    leased.push(...digests);
    return { [Symbol.asyncDispose]: async () => {} };
  };
  await world.start({ writable: true, store: { ...world.store, lease } });
};

describe('a pushed manifest', () => {
  const config: Descriptor = { mediaType: 'x/config', digest: digestOf('{}'), size: 2 };
  const text = manifestOf(config, []);
  const digest = digestOf(text);
  const put = (to: string, body = text, type = IMAGE): Promise<Answer> =>
    world.ask(`PUT /v2/a/manifests/${to}`, { body, headers: { 'content-type': type } });
  const names = async (): Promise<readonly string[]> =>
    (await world.store.list()).map(({ reference }) => reference);
  const begun = async (): Promise<void> => {
    await world.store.add('{}');
    await start();
  };

  it('is kept under the tag that it was pushed by', async () => {
    await begun();
    const answer = await put('1?tag=2', text);
    expect(answer).toMatchObject({
      status: 201,
      headers: { location: `/v2/a/manifests/${digest}`, 'docker-content-digest': digest },
    });
    expect(answer.headers['oci-subject']).toBeUndefined();
    expect(answer.headers['oci-tag']).toBeUndefined();
    expect([await names(), leased]).toEqual([['localhost/a:1'], [digest]]);
  });

  it('is kept under its digest where it has no tag, and under its tags where it has', async () => {
    await begun();
    const answer = await put(digest);
    expect(answer.headers['oci-tag']).toBeUndefined();
    expect(await names()).toEqual([`localhost/a@${digest}`]);
    await world.store.untag(`localhost/a@${digest}`);
    expect((await put(`${digest}?tag=1&tag=2&tag=1`)).headers['oci-tag']).toBe('1, 2');
    expect(await names()).toEqual(['localhost/a:1', 'localhost/a:2']);
  });

  it('that refers to something is kept under its digest as well, and says to what', async () => {
    await begun();
    const subject = { mediaType: IMAGE, digest: digestOf('subject'), size: 7 };
    const referring = manifestOf(config, [], { subject });
    expect((await put('1', referring)).headers['oci-subject']).toBe(subject.digest);
    expect(await names()).toEqual(['localhost/a:1', `localhost/a@${digestOf(referring)}`]);
  });

  it('may have 32 tags, all of them well formed', async () => {
    await begun();
    const query = (count: number): string =>
      Array.from({ length: count }, (_, index) => `tag=t${index}`).join('&');
    expect(await put(`${digest}?${query(33)}`)).toMatchObject({
      status: 414,
      code: 'TAG_INVALID',
      message: 'at most 32 tags at once',
    });
    expect(await put(`${digest}?tag=1&tag=-`)).toMatchObject({
      status: 400,
      code: 'TAG_INVALID',
      message: 'malformed tag',
    });
    expect(await names()).toEqual([]);
    expect((await put(`${digest}?${query(32)}&tag=t0`)).status).toBe(201);
    expect(await names()).toHaveLength(32);
  });

  it('is refused with the reason, and nothing of it is kept', async () => {
    await begun();
    expect(await put(digestOf('other'))).toMatchObject({
      status: 400,
      code: 'DIGEST_INVALID',
      message: 'the manifest does not have this digest',
    });
    expect(await put('1', text, INDEX)).toMatchObject({
      status: 400,
      code: 'MANIFEST_INVALID',
      message: expect.stringContaining(`calls itself`),
    });
    const gone = [digestOf('one'), digestOf('two')].map((each) => ({
      mediaType: 'l',
      digest: each,
      size: 3,
    }));
    expect(await put('1', manifestOf(config, gone))).toMatchObject({
      status: 400,
      code: 'MANIFEST_BLOB_UNKNOWN',
      message: `${digestOf('one')}, which this leads to, is not here`,
    });
    expect(await put('1', `${text}${' '.repeat(8 * 1024 * 1024)}`)).toMatchObject({
      status: 413,
      code: 'SIZE_INVALID',
      message: 'at most 8388608 bytes are taken here',
    });
    expect([await names(), leased, world.store.blobs.size]).toEqual([[], [], 1]);
  });

  it('needs its parts in its own repository', async () => {
    await begun();
    expect((await world.ask(`DELETE /v2/a/blobs/${config.digest}`)).status).toBe(202);
    expect(await put('1')).toMatchObject({ status: 400, code: 'MANIFEST_BLOB_UNKNOWN' });
    await world.upload('{}');
    expect((await put('1')).status).toBe(201);
  });

  it('that leads to much is asked about no further than its first missing part is known', async () => {
    await begun();
    await world.upload(LAYER);
    const layer = { mediaType: 'l', digest: digestOf(LAYER), size: LAYER.length };
    const gone = { ...layer, digest: digestOf('gone') };
    expect((await put('1', manifestOf(config, [layer, gone]))).message).toContain(gone.digest);
    expect((await put('1', manifestOf(config, [gone, layer]))).message).toContain(gone.digest);
    expect((await put('1', manifestOf(config, [layer]))).status).toBe(201);
  });
});
