import { describe, expect, it } from 'vitest';
import {
  type Asking,
  asking,
  collect,
  type Reply,
  type Script,
  type ScriptedRegistry,
  scriptedRegistry,
} from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import type { BlobBytes, ReadOptions } from '../../port.ts';
import type { Descriptor } from '../../types.ts';

const bytesOf = (size: number): Buffer => Buffer.from(Array.from({ length: size }, (_, at) => at % 251));
const blobOf = (bytes: Buffer): Descriptor => ({
  mediaType: 'x',
  digest: digestOf(bytes),
  size: bytes.length,
});
const LARGE = bytesOf(1_500_000);
const SMALL = bytesOf(5000);

/** A registry that has the bytes, from any offset on. */
const right =
  (bytes: Buffer): Script =>
  ({ headers }) => {
    const start = Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? 0);
    if (start === 0) return { body: bytes };
    const range = `bytes ${start}-${bytes.length - 1}/${bytes.length}`;
    return { status: 206, headers: { 'content-range': range }, body: bytes.subarray(start) };
  };
const wrong = (bytes: Buffer): Reply => ({ body: Buffer.from(bytes).fill(0x20, 10, 20) });
const longer = (bytes: Buffer): Reply => ({
  body: Buffer.concat([bytes, Buffer.from('more')]),
  headers: { 'transfer-encoding': 'chunked', 'content-length': [] },
});

interface World {
  readonly asked: Asking;
  readonly registry: ScriptedRegistry;
  readonly warned: () => readonly string[];
  readonly get: (more?: Partial<ReadOptions>) => Promise<BlobBytes>;
}

async function withMirrors(
  bytes: Buffer,
  mirrors: readonly (Reply | readonly Reply[] | Script)[],
  work: (world: World) => Promise<void>,
): Promise<void> {
  const blob = blobOf(bytes);
  const path = `team/app/blobs/${blob.digest}`;
  await using stack = new AsyncDisposableStack();
  const start = async (rules: Parameters<typeof scriptedRegistry>[0]): Promise<ScriptedRegistry> =>
    stack.use(await scriptedRegistry(rules));
  const registry = await start({ [`GET /v2/${path}`]: right(bytes) });
  const hosts: { location: string; insecure: boolean }[] = [];
  for (const script of mirrors) {
    const { host } = await start({ [`GET /v2/copy/${path}`]: script });
    hosts.push({ location: `${host}/copy`, insecure: false });
  }
  const rules = [{ prefix: registry.host, mirrors: hosts, insecure: false, blocked: false }];
  const asked = stack.use(asking({ rules }));
  await work({
    asked,
    registry,
    warned: () =>
      asked.events.flatMap((event) => (event.type === 'registry.warning' ? [event.registry] : [])),
    get: (more) => asked.client.getBlob(asked.at(registry.host), blob, 0, { ...asked.options, ...more }),
  });
}

const rangesOf = (registry: ScriptedRegistry): readonly (string | undefined)[] =>
  registry.asked.filter(({ path }) => path !== '/v2/').map(({ headers }) => headers.range);

describe('a blob of a mirror', () => {
  it('R52 goes on at the next place where the mirror breaks off for good', async () => {
    const cut = [{ body: LARGE, cutAfter: 200_000 }, { status: 500 }];
    await withMirrors(LARGE, [cut, { status: 404 }], async ({ get, registry, warned }) => {
      const body = await get();
      expect((await collect(body)).equals(LARGE)).toBe(true);
      expect(rangesOf(registry)).toEqual([expect.stringMatching(/^bytes=[1-9]\d*-$/)]);
      expect(warned()).toHaveLength(2);
    });
    await withMirrors(LARGE, [cut, right(LARGE)], async ({ get, registry, warned }) => {
      expect((await collect(await get())).equals(LARGE)).toBe(true);
      expect(rangesOf(registry)).toEqual([]);
      expect(warned()).toHaveLength(1);
    });
  });

  it('R52 that lies about its size stops nobody', async () => {
    for (const bytes of [SMALL, LARGE]) {
      for (const lie of [longer(bytes), { body: bytes.subarray(1) }]) {
        await withMirrors(bytes, [lie], async ({ get, warned }) => {
          expect((await collect(await get())).equals(bytes)).toBe(true);
          expect(warned()).toHaveLength(1);
        });
      }
    }
  });

  it('R52 with other bytes is passed over where it is small', async () => {
    await withMirrors(SMALL, [wrong(SMALL)], async ({ get, warned }) => {
      const body = await get();
      expect(body.mirror).toBeUndefined();
      expect(await collect(body)).toEqual(SMALL);
      expect(warned()).toHaveLength(1);
    });
  });

  it('R52 is said to be one, and can be asked for past the mirrors', async () => {
    await withMirrors(LARGE, [wrong(LARGE)], async ({ get, registry }) => {
      const body = await get();
      expect(body.mirror).toMatch(/^127\.0\.0\.1:/);
      expect((await collect(body)).equals(LARGE)).toBe(false);
      expect(rangesOf(registry)).toEqual([]);
      const own = await get({ mirrors: false });
      expect(own.mirror).toBeUndefined();
      expect((await collect(own)).equals(LARGE)).toBe(true);
    });
  });

  it('the signal stops it for good', async () => {
    await withMirrors(LARGE, [{ body: LARGE, cutAfter: 200_000 }], async ({ get, registry }) => {
      const stop = new AbortController();
      const body = await get({ signal: stop.signal });
      const reason = new Error('enough');
      const read = (async () => {
        for await (const _ of body) stop.abort(reason);
      })();
      await expect(read).rejects.toBe(reason);
      expect(rangesOf(registry)).toEqual([]);
    });
  });
});

describe('a manifest', () => {
  it('R52 is looked for at the registry alone where mirrors do not count', async () => {
    const body = JSON.stringify({ schemaVersion: 2, config: {}, layers: [] });
    const headers = {
      'content-type': 'application/vnd.oci.image.manifest.v1+json',
      'docker-content-digest': digestOf(body),
    };
    await using mirror = await scriptedRegistry({ 'HEAD /v2/team/app/manifests/1': { headers, body } });
    await using registry = await scriptedRegistry({});
    const mirrors = [{ location: mirror.host, insecure: false }];
    await using asked = asking({
      rules: [{ prefix: registry.host, mirrors, insecure: false, blocked: false }],
    });
    const head = async (more: Partial<ReadOptions>): Promise<Descriptor | undefined> =>
      await asked.client.headManifest(asked.at(registry.host), { ...asked.options, ...more });
    expect((await head({}))?.digest).toBe(digestOf(body));
    expect(registry.lines()).toEqual([]);
    expect(await head({ mirrors: false })).toBeUndefined();
    expect(mirror.lines()).toHaveLength(1);
  });
});
