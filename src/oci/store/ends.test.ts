import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { SkycapError } from '../../kernel/index.ts';
import { inPieces, makeImage, recordingTransfer } from '../../testkit/images/index.ts';
import { digestOf, LARGEST_DOCUMENT as LARGEST } from '../names/index.ts';
import type { Descriptor, Digest, PinnedImage } from '../types.ts';
import { type LayoutStore, openStore } from './index.ts';
import { acquireLock, tryLock } from './lock.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const CONFIG = 'application/vnd.oci.image.config.v1+json';
const HOUR = 3_600_000;
const now = { olderThanMs: 0, keep: [] };
const reference = 'localhost/a:1';

let directory: string;
let store: LayoutStore;
let transfer: ReturnType<typeof recordingTransfer>;
const path = (...parts: string[]): string => join(directory, 'store', ...parts);
const blobPath = (digest: string | undefined): string => path('blobs', ...(digest ?? '').split(':'));

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-ends-'));
  store = await openStore({ directory: path() });
  transfer = recordingTransfer();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function put(value: unknown, mediaType: string, to = store): Promise<Descriptor> {
  const bytes = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  const descriptor = { mediaType, digest: digestOf(bytes), size: bytes.length };
  await to.ingest(descriptor, async (offset) => inPieces(bytes.subarray(offset), 2 ** 20), transfer);
  return descriptor;
}

const manifestOf = (config: Descriptor, ...layers: Descriptor[]): object => ({
  schemaVersion: 2,
  mediaType: MANIFEST,
  config,
  layers,
});
const indexOf = (...manifests: Descriptor[]): object => ({ schemaVersion: 2, mediaType: INDEX, manifests });
const absent = (mediaType: string, name = 'absent'): Descriptor => ({
  mediaType,
  digest: digestOf(name),
  size: 1,
});
const image = (): Promise<PinnedImage> => makeImage(store, { files: { f: 'x' }, reference });
const faultOf = (work: Promise<unknown>): Promise<SkycapError> =>
  work.then(
    () => expect.fail('it was done'),
    (error: SkycapError) => error,
  );
const missing = (digest: Digest | undefined): object => ({
  code: 'OCI_BLOB_MISSING',
  message: `${digest} is not in the store`,
  hint: 'pull the image again',
  details: { digest },
});
const leases = (): Promise<readonly string[]> => readdir(path('leases'));
/** What the leases of this store hold. */
const leased = async (): Promise<readonly unknown[]> =>
  await Promise.all(
    (await leases()).map(async (name) => JSON.parse(await readFile(path('leases', name), 'utf8')) as unknown),
  );

describe('a document', () => {
  it('is read up to its largest size, and not beyond', async () => {
    const largest = await put('x'.repeat(LARGEST), 'x');
    expect(await store.readSmall(largest.digest)).toHaveLength(LARGEST);
    const { digest } = await put('x'.repeat(LARGEST + 1), 'x');
    expect(await faultOf(store.readSmall(digest))).toMatchObject({
      code: 'OCI_MANIFEST_INVALID',
      message: `${digest} has ${LARGEST + 1} bytes, too many for a manifest or config`,
    });
  });
});

describe('a name', () => {
  it('is given to a manifest with all its parts, and says which of them is missing', async () => {
    const config = await put({ a: 1 }, CONFIG);
    const [one, two] = [await put('one', 'x'), await put('two', 'x')];
    const manifest = await put(manifestOf(config, one, two), MANIFEST);
    for (const part of [two, one, config, manifest]) {
      await rm(blobPath(part.digest));
      expect(await faultOf(store.tag(reference, manifest))).toMatchObject(missing(part.digest));
      expect(await store.list()).toEqual([]);
    }
  });

  it('is given to what it is announced as, and to nothing else', async () => {
    const manifest = await put(manifestOf(await put({ a: 1 }, CONFIG)), MANIFEST);
    expect(await faultOf(store.tag(reference, { ...manifest, mediaType: INDEX }))).toMatchObject({
      code: 'OCI_MANIFEST_INVALID',
    });
    const config = await put('no manifest', MANIFEST);
    expect(await faultOf(store.tag(reference, config))).toMatchObject({ code: 'OCI_MANIFEST_INVALID' });
    expect(await faultOf(store.tag(reference, config, { sparse: false }))).toMatchObject({
      code: 'OCI_MANIFEST_INVALID',
    });
  });

  it('of an index needs one image that is whole, and tells the first fault where there is none', async () => {
    const config = await put({ a: 1 }, CONFIG);
    const broken = await put(manifestOf(absent(CONFIG, 'config')), MANIFEST);
    const other = await put(manifestOf(absent(CONFIG, 'other')), MANIFEST);
    const whole = await put(manifestOf(config), MANIFEST);
    const tag = async (...children: Descriptor[]): Promise<void> =>
      await store.tag(reference, await put(indexOf(...children), INDEX));
    const gone = absent(MANIFEST);
    const deep = await put(indexOf(gone, whole), INDEX);
    for (const children of [[whole], [gone, whole], [broken, whole], [whole, broken], [broken, deep], []])
      await tag(...children);
    expect(await faultOf(tag(gone))).toMatchObject(missing(gone.digest));
    expect(await faultOf(tag(gone, absent(MANIFEST, '2')))).toMatchObject(missing(gone.digest));
    expect(await faultOf(tag(broken, other))).toMatchObject(missing(digestOf('config')));
    expect(await faultOf(tag(gone, broken))).toMatchObject(missing(digestOf('config')));
    expect(await faultOf(tag(await put(indexOf(gone), INDEX)))).toMatchObject(missing(gone.digest));
  });

  it('of an index of other things needs nothing of them', async () => {
    const thing = absent('application/octet-stream');
    await store.tag(reference, await put(indexOf(thing), INDEX));
    const broken = await put(manifestOf(absent(CONFIG)), MANIFEST);
    await store.tag(reference, await put(indexOf({ ...broken, mediaType: 'x/json' }), INDEX));
  });

  it('that may be incomplete says so only where it is', async () => {
    const whole = await put(manifestOf(await put({ a: 1 }, CONFIG)), MANIFEST);
    const broken = await put(manifestOf(absent(CONFIG)), MANIFEST);
    const sparse = async (): Promise<unknown> => {
      const index = JSON.parse(await readFile(path('index.json'), 'utf8')) as { manifests: Descriptor[] };
      return index.manifests.map(({ annotations }) => annotations?.['dev.skycap.sparse']);
    };
    await store.tag('localhost/whole:1', whole, { sparse: true });
    await store.tag('localhost/broken:1', broken, { sparse: true });
    expect(await sparse()).toEqual([undefined, 'true']);
    expect(await faultOf(store.tag('localhost/gone:1', absent(MANIFEST), { sparse: true }))).toMatchObject(
      missing(digestOf('absent')),
    );
    expect(await faultOf(store.tag('localhost/broken:1', broken, { sparse: false }))).toMatchObject(
      missing(digestOf('absent')),
    );
  });

  it('that may be incomplete is not given to what cannot be read', async () => {
    const manifest = await put(manifestOf(await put({ a: 1 }, CONFIG)), MANIFEST);
    await rm(blobPath(manifest.digest));
    await symlink('loop', blobPath(manifest.digest));
    await symlink('loop', path('blobs', 'sha256', 'loop'));
    expect(await faultOf(store.tag(reference, manifest, { sparse: true }))).toMatchObject({
      code: 'OCI_STORE_INVALID',
    });
  });

  it('that nobody gave is listed by its digest', async () => {
    const manifest = await put(manifestOf(await put({ a: 1 }, CONFIG)), MANIFEST);
    await writeFile(path('index.json'), JSON.stringify({ schemaVersion: 2, manifests: [manifest] }));
    const size = manifest.size + 7;
    expect(await store.list()).toEqual([
      { reference: manifest.digest, descriptor: manifest, sizeBytes: size, platforms: [] },
    ]);
  });

  it('is listed though what it leads to is damaged, too large or gone', async () => {
    const { manifestDigest, configDigest } = await image();
    const [listed] = await store.list();
    expect(listed?.platforms).toHaveLength(1);
    await writeFile(blobPath(configDigest), '{}');
    expect(await store.list()).toMatchObject([{ reference, platforms: [] }]);
    await writeFile(blobPath(manifestDigest), ' '.repeat(LARGEST + 1));
    expect(await store.list()).toMatchObject([{ reference, platforms: [], sizeBytes: LARGEST + 1 }]);
    await rm(blobPath(manifestDigest));
    expect(await store.list()).toMatchObject([{ reference, platforms: [], sizeBytes: 0 }]);
  });
});

describe('what is on its way', () => {
  it('is leased by its process until it has a name, blob by blob', async () => {
    const lease = { name: 'not named yet', expires: 0, holder: expect.stringMatching(/^holder-/) };
    const config = await put({ a: 1 }, CONFIG);
    expect(await leased()).toEqual([{ ...lease, digests: [config.digest] }]);
    const other = await put('other', 'x');
    const manifest = await put(manifestOf(config), MANIFEST);
    expect(await leased()).toEqual([{ ...lease, digests: [config.digest, other.digest, manifest.digest] }]);
    await store.tag(reference, manifest);
    expect(await leased()).toEqual([{ ...lease, digests: [other.digest] }]);
    await store.tag('localhost/b:1', manifest);
    expect(await leased()).toEqual([{ ...lease, digests: [other.digest] }]);
    await store.tag('localhost/c:1', await put(manifestOf(config, other), MANIFEST));
    expect(await leased()).toEqual([]);
    await put('again', 'x');
    expect(await leases()).toHaveLength(1);
    await store[Symbol.asyncDispose]();
    expect(await leases()).toEqual([]);
    expect(await readdir(path('locks'))).not.toContainEqual(expect.stringMatching(/^holder-/));
  });

  it('and is leased by a name already needs no other lease', async () => {
    const held = await store.lease('pull', [digestOf('mine')]);
    await put('mine', 'x');
    expect(await leased()).toMatchObject([{ name: 'pull' }]);
    await put('other', 'x');
    expect((await leased()).length).toBe(2);
    await held[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    expect(await leases()).toEqual([]);
  });
});

describe('a lease', () => {
  it('outlives its process by an hour, or as long as is said', async () => {
    vi.spyOn(Date, 'now').mockReturnValue(1_000_000);
    const holder = expect.stringMatching(/^holder-/);
    const digests = [digestOf('a')];
    const one = await store.lease('one', digests);
    expect(await leased()).toEqual([{ name: 'one', digests, expires: 1_000_000 + HOUR, holder }]);
    await one[Symbol.asyncDispose]();
    await store.lease('two', [], { ttlMs: 5 });
    expect(await leased()).toEqual([{ name: 'two', digests: [], expires: 1_000_005, holder }]);
  });
});

describe('a prune', () => {
  it('keeps what is asked for with all it leads to, and takes what was left unfinished', async () => {
    const { manifestDigest, layers } = await image();
    await store.lowers(await pinned(), undefined, transfer);
    // The layer is on the disk, and its folder is as old as it gets.
    await store[Symbol.asyncDispose]();
    store = await openStore({ directory: path() });
    await store.untag(reference);
    const part = `sha256-${'a'.repeat(64)}.part`;
    await writeFile(path('ingest', part), '');
    expect(await store.prune({ olderThanMs: HOUR, keep: [] })).toEqual({
      blobs: 0,
      layers: 0,
      freedBytes: 0,
    });
    expect(await readdir(path('ingest'))).toEqual([part]);
    expect(await store.prune({ olderThanMs: 0, keep: [manifestDigest] })).toEqual({
      ...{ blobs: 0, layers: 0, freedBytes: 0 },
    });
    expect(await readdir(path('ingest'))).toEqual([]);
    const kept = [layers[0]?.digest as Digest];
    expect(await store.prune({ olderThanMs: 0, keep: kept })).toMatchObject({ blobs: 2, layers: 1 });
    expect(await readdir(path('trash'))).toEqual([]);
  });

  it('takes nothing where a name leads to something too large, and says what to do', async () => {
    const large = await put(' '.repeat(LARGEST + 1), MANIFEST);
    await put('unnamed', 'x');
    await writeFile(path('index.json'), JSON.stringify({ schemaVersion: 2, manifests: [large] }));
    await store[Symbol.asyncDispose]();
    store = await openStore({ directory: path() });
    expect(await faultOf(store.prune(now))).toMatchObject({
      code: 'OCI_BLOB_CORRUPT',
      message: `a name leads to ${large.digest}, which has ${LARGEST + 1} bytes, too many for a manifest: what it needs is not known`,
      hint: 'run `skycap image fsck --repair`, pull the image again, and then run the same command again',
      details: { digest: large.digest },
    });
    const largest = await put(' '.repeat(LARGEST), MANIFEST);
    await writeFile(path('index.json'), JSON.stringify({ schemaVersion: 2, manifests: [largest] }));
    await store[Symbol.asyncDispose]();
    store = await openStore({ directory: path() });
    expect(await store.prune(now)).toMatchObject({ blobs: 2 });
  });

  it('asks for the config of a named manifest, and not for its layers', async () => {
    const { layers, configDigest } = await image();
    await rm(blobPath(layers[0]?.digest));
    expect(await store.prune(now)).toMatchObject({ blobs: 0 });
    await rm(blobPath(configDigest));
    expect(await faultOf(store.prune(now))).toMatchObject({ code: 'OCI_BLOB_MISSING' });
  });

  const pinned = async (): Promise<PinnedImage> => await image();
});

describe('unpacked layers', () => {
  it('are there for whoever prepares them one by one', async () => {
    const made = await image();
    for (const layer of made.layers) await store.prepareLayer(layer, undefined, transfer);
    const prepared = transfer.events.length;
    expect(prepared).toBe(1);
    const lowers = await store.lowers(made, undefined, transfer);
    expect(lowers).toMatchObject([{ kind: 'folder' }]);
    await store.prepareLayer(made.layers[0] as never, undefined, { ...transfer, form: 'erofs' });
    expect(transfer.events).toHaveLength(2);
    expect(await store.lowers(made, undefined, { ...transfer, form: 'erofs' })).toMatchObject([
      { kind: 'erofs' },
    ]);
    expect(transfer.events).toHaveLength(2);
  });

  it('that are there are not waited for', async () => {
    const made = await image();
    const lowers = await store.lowers(made, undefined, transfer);
    const { signal } = { signal: AbortSignal.abort() };
    expect(await store.lowers(made, undefined, recordingTransfer(signal))).toEqual(lowers);
    expect(await store.lowers({ ...made, layers: [] }, undefined, recordingTransfer(signal))).toEqual([]);
  });
});

describe('whoever writes', () => {
  it.each<[string, () => Promise<unknown>]>([
    ['a name', async () => await store.tag(reference, absent(MANIFEST))],
    ['the end of a name', async () => await store.untag(reference)],
    ['a lease', async () => await store.lease('x', [])],
    ['the end of a lease', async () => await store.endLeases('x')],
    ['a blob', async () => await put('x', 'x')],
    ['a prune', async () => await store.prune(now)],
    ['a check', async () => await store.fsck({ repair: true, ...transfer })],
  ])('and meets a fault of the system is told of the store: %s', async (_what, work) => {
    await rm(path('leases'), { recursive: true });
    await writeFile(path('leases'), '');
    expect(await faultOf(work())).toMatchObject({
      code: 'OCI_STORE_INVALID',
      message: `the store ${path()} cannot be used: a file stands where a folder belongs`,
    });
    // And lets go of the lock.
    using lock = tryLock(path('locks', 'store'));
    expect(lock).toBeDefined();
  });

  it('waits for the store half a minute, and not for ever', async () => {
    using _held = await acquireLock(path('locks', 'store'), transfer);
    let time = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => time);
    const work = store.untag(reference);
    time = 30_001;
    expect(await faultOf(work)).toMatchObject({ code: 'OCI_STORE_BUSY' });
  });

  it('sweeps what is dead once, and not again', async () => {
    await store.endLeases('x');
    await writeFile(path('.late.tmp'), '');
    await store.endLeases('x');
    expect(await readdir(path())).toContain('.late.tmp');
    await using other = await openStore({ directory: path() });
    await other.endLeases('x');
    expect(await readdir(path())).not.toContain('.late.tmp');
  });
});

it('a store that wrote nothing ends as it was', async () => {
  await mkdir(path('leases', 'strange'));
  await store[Symbol.asyncDispose]();
  expect(await readdir(path('locks'))).toEqual(['store']);
});
