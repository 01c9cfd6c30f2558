import { beforeEach, describe, expect, it } from 'vitest';
import { digestOf } from '../names/index.ts';
import type { Descriptor, Digest, Platform } from '../types.ts';
import { attempt } from './attempt.ts';
import { describe as describeImage, type Reached, reach } from './graph.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const amd64: Platform = { os: 'linux', architecture: 'amd64' };
const arm64: Platform = { os: 'linux', architecture: 'arm64' };

/** What is there. Layers are there without bytes that anybody reads. */
let blobs: Map<Digest, Uint8Array>;
let reads: Digest[];

beforeEach(() => {
  blobs = new Map();
  reads = [];
});

const read = async (digest: Digest): Promise<Uint8Array | undefined> => {
  reads.push(digest);
  return blobs.get(digest);
};
const has = async (digest: Digest): Promise<boolean> => blobs.has(digest);
const sizeOf = async (digest: Digest): Promise<number | undefined> => blobs.get(digest)?.length;
const reached = (...roots: Digest[]): Promise<Reached> => reach(roots, read, has);

function put(value: unknown, mediaType = 'x'): Descriptor {
  const bytes = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  const digest = digestOf(bytes);
  blobs.set(digest, bytes);
  return { mediaType, digest, size: bytes.length };
}

interface Made {
  readonly manifest: Descriptor;
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
  readonly diffIds: readonly Digest[];
}

function image(name: string, { platform = amd64, diffs = [`${name} 1`, `${name} 2`] } = {}): Made {
  const layers = [put(`${name} layer 1`), put(`${name} layer 2`)];
  const diffIds = diffs.map((diff) => digestOf(diff));
  const config = put({ ...platform, name, rootfs: { type: 'layers', diff_ids: diffIds } });
  const manifest = put({ schemaVersion: 2, mediaType: MANIFEST, config, layers }, MANIFEST);
  return { manifest, config, layers, diffIds };
}

const index = (...manifests: Descriptor[]): Descriptor =>
  put({ schemaVersion: 2, mediaType: INDEX, manifests }, INDEX);
const all = ({ manifest, config, layers }: Made): readonly Digest[] =>
  [manifest, config, ...layers].map(({ digest }) => digest);
const imageOf = ({ layers, diffIds }: Made): readonly object[] =>
  layers.map(({ digest }, at) => ({ digest, diffId: diffIds[at] }));

describe('what an image leads to', () => {
  it('are its manifest, config and layers, and the unpacked layers that its config names', async () => {
    const a = image('a');
    expect(await reached(a.manifest.digest)).toEqual({
      blobs: new Set(all(a)),
      diffIds: new Set(a.diffIds),
      missing: new Map(),
      configs: new Set([a.config.digest]),
      images: [imageOf(a)],
    });
  });

  it('of an index are all its images, each entered once, and what is no document as a thing', async () => {
    const a = image('a');
    const b = image('b');
    const thing = { ...image('c').manifest, mediaType: 'application/octet-stream' };
    const absent = { mediaType: MANIFEST, digest: digestOf('absent'), size: 1 };
    const both = index(a.manifest, thing, absent, b.manifest, a.manifest);
    const outer = index(both, b.manifest);
    expect(await reached(outer.digest, both.digest)).toEqual({
      blobs: new Set([outer.digest, both.digest, ...all(a), ...all(b), thing.digest, absent.digest]),
      diffIds: new Set([...a.diffIds, ...b.diffIds]),
      missing: new Map(),
      configs: new Set([a.config.digest, b.config.digest]),
      images: [imageOf(a), imageOf(b)],
    });
    expect(reads.filter((digest) => digest === a.manifest.digest)).toHaveLength(1);
    expect(reads).not.toContain(thing.digest);
  });

  it('and is not there is missing, and who needs it', async () => {
    const a = image('a');
    const [first, second] = a.layers.map(({ digest }) => digest) as [Digest, Digest];
    blobs.delete(first);
    blobs.delete(a.config.digest);
    expect(await reached(a.manifest.digest)).toEqual({
      blobs: new Set([a.manifest.digest, a.config.digest, first, second]),
      diffIds: new Set(),
      missing: new Map([
        [a.config.digest, a.manifest.digest],
        [first, a.manifest.digest],
      ]),
      configs: new Set([a.config.digest]),
      images: [],
    });
  });

  it.each<[string, () => Made]>([
    ['names fewer layers than the manifest', () => image('a', { diffs: ['one'] })],
    [
      'is no config',
      () => {
        const made = image('a');
        blobs.set(made.config.digest, Buffer.from('{}'));
        return made;
      },
    ],
  ])('are no unpacked layers where its config %s', async (_what, make) => {
    const made = make();
    const { diffIds, images, blobs: found } = await reached(made.manifest.digest);
    expect([diffIds, images, found]).toEqual([new Set(), [], new Set(all(made))]);
  });

  it('without layers are its manifest and config', async () => {
    const config = put({ ...amd64, rootfs: { type: 'layers', diff_ids: [] } });
    const { digest } = put({ schemaVersion: 2, mediaType: MANIFEST, config, layers: [] });
    expect(await reached(digest)).toMatchObject({ images: [], blobs: new Set([digest, config.digest]) });
  });

  it('that is gone, or is no document, is it alone', async () => {
    const none = { diffIds: new Set(), missing: new Map(), configs: new Set(), images: [] };
    for (const digest of [digestOf('gone'), put('rubbish').digest, put({ schemaVersion: 1 }).digest])
      expect(await reached(digest)).toEqual({ ...none, blobs: new Set([digest]) });
    expect(await reached()).toEqual({ ...none, blobs: new Set() });
  });

  it('cannot be said where it cannot be read', async () => {
    const error = new Error('damaged');
    await expect(reach([digestOf('x')], () => Promise.reject(error), has)).rejects.toBe(error);
  });
});

describe('in a list', () => {
  const shown = ({ digest, ...rest }: Descriptor): ReturnType<typeof describeImage> =>
    describeImage({ ...rest, digest }, read, sizeOf);
  const sum = (...digests: Digest[]): number =>
    [...new Set(digests)].reduce((total, digest) => total + (blobs.get(digest)?.length ?? 0), 0);

  it('an image has the size of all its parts, each counted once, and its platform', async () => {
    const a = image('a');
    const twice = put({ schemaVersion: 2, config: a.config, layers: [a.layers[0], a.layers[0]] });
    expect(await shown(a.manifest)).toEqual({ sizeBytes: sum(...all(a)), platforms: [amd64] });
    const parts = [twice.digest, a.config.digest, (a.layers[0] as Descriptor).digest];
    expect(await shown(twice)).toEqual({ sizeBytes: sum(...parts), platforms: [amd64] });
  });

  it('an index has those of its images that are there, in its order', async () => {
    const a = image('a', { platform: arm64 });
    const b = image('b');
    const gone = image('gone');
    blobs.delete(gone.manifest.digest);
    const both = index(a.manifest, gone.manifest, b.manifest, a.manifest);
    expect(await shown(both)).toEqual({
      sizeBytes: sum(both.digest, ...all(a), ...all(b)),
      platforms: [arm64, amd64],
    });
  });

  it('what is not whole has the size of what is there', async () => {
    const a = image('a');
    blobs.delete((a.layers[1] as Descriptor).digest);
    expect(await shown(a.manifest)).toEqual({ sizeBytes: sum(...all(a)), platforms: [amd64] });
    blobs.delete(a.config.digest);
    expect(await shown(a.manifest)).toEqual({ sizeBytes: sum(...all(a)), platforms: [] });
    blobs.delete(a.manifest.digest);
    expect(await shown(a.manifest)).toEqual({ sizeBytes: 0, platforms: [] });
  });

  it('an artifact, and what is no document, has no platform', async () => {
    const config = put('{}');
    const artifact = put({ schemaVersion: 2, mediaType: MANIFEST, config, layers: [put('data')] });
    expect(await shown(artifact)).toEqual({ sizeBytes: artifact.size + 2 + 4, platforms: [] });
    const rubbish = put('rubbish');
    expect(await shown(rubbish)).toEqual({ sizeBytes: 7, platforms: [] });
  });

  it('is looked for eight indexes deep, and not deeper', async () => {
    const a = image('a');
    let at = a.manifest;
    const around: Descriptor[] = [];
    for (let depth = 1; depth <= 8; depth++) {
      at = index(at);
      around.push(at);
    }
    const digests = around.map(({ digest }) => digest);
    expect(await shown(at)).toEqual({ sizeBytes: sum(...digests, ...all(a)), platforms: [amd64] });
    const deeper = index(at);
    expect(await shown(deeper)).toEqual({ sizeBytes: sum(deeper.digest, ...digests), platforms: [] });
  });
});

it('what others wrote wrongly is nothing', () => {
  expect(attempt(() => 7)).toBe(7);
  expect(attempt(() => JSON.parse('{'))).toBeUndefined();
});
