import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { codeOf } from '../../testkit/contracts/store.contract.ts';
import { inPieces, makeImage, recordingTransfer } from '../../testkit/images/index.ts';
import { digestOf } from '../names/index.ts';
import type { Descriptor, Digest, PinnedImage } from '../types.ts';
import { type LayoutStore, openStore } from './index.ts';
import { lockNew, tryLock } from './lock.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const CONFIG = 'application/vnd.oci.image.config.v1+json';
const platform = { os: 'linux', architecture: 'amd64' };
const now = { olderThanMs: 0, keep: [] };

let directory: string;
let store: LayoutStore;
const transfer = recordingTransfer();
const path = (...parts: string[]): string => join(directory, 'store', ...parts);
const blobPath = (digest: string): string => path('blobs', ...digest.split(':'));

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-keep-'));
  store = await openStore({ directory: path() });
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function put(value: unknown, mediaType: string, to = store): Promise<Descriptor> {
  const bytes = Buffer.from(JSON.stringify(value));
  const descriptor = { mediaType, digest: digestOf(bytes), size: bytes.length };
  await to.ingest(descriptor, async (offset) => inPieces(bytes.subarray(offset)), transfer);
  return descriptor;
}

const manifestOf = (config: Descriptor): object => ({
  schemaVersion: 2,
  mediaType: MANIFEST,
  config,
  layers: [],
});
const indexOf = (...manifests: Descriptor[]): object => ({ schemaVersion: 2, mediaType: INDEX, manifests });
const image = (name = 'localhost/a:1'): Promise<PinnedImage> =>
  makeImage(store, { platform, files: { f: name }, reference: name });

describe('prune', () => {
  it('K2 spares what a living process brought and has not named yet', async () => {
    const other = await openStore({ directory: path() });
    const config = await put({ a: 1 }, CONFIG, other);
    expect(await store.prune(now)).toMatchObject({ blobs: 0 });
    await other.tag('localhost/a:1', await put(manifestOf(config), MANIFEST, other));
    await other.untag('localhost/a:1');
    // Named once, it is on its own.
    expect(await store.prune(now)).toMatchObject({ blobs: 2 });
    await put({ b: 1 }, CONFIG, other);
    await other[Symbol.asyncDispose]();
    expect(await store.prune(now)).toMatchObject({ blobs: 1 });
    expect(await readdir(path('leases'))).toEqual([]);
  });

  it('K2 spares what is still unnamed when something else got its name', async () => {
    const other = await openStore({ directory: path() });
    const unnamed = await put({ a: 1 }, CONFIG, other);
    await other.tag(
      'localhost/b:1',
      await put(manifestOf(await put({ b: 1 }, CONFIG, other)), MANIFEST, other),
    );
    await store.prune(now);
    expect(await store.hasBlob(unnamed.digest)).toBe(true);
    await other[Symbol.asyncDispose]();
  });

  it('K3 follows a manifest even where somebody calls it a config or something foreign', async () => {
    const inner = await put(manifestOf(await put({ a: 1 }, CONFIG)), MANIFEST);
    const hostile = await put(manifestOf({ ...inner, mediaType: CONFIG }), MANIFEST);
    const foreign = await put(indexOf({ ...inner, mediaType: 'application/x-foreign' }), INDEX);
    await store.tag('localhost/a:1', inner);
    await store.tag('localhost/b:1', hostile);
    await store.tag('localhost/c:1', foreign, { sparse: true });
    expect(await store.prune(now)).toMatchObject({ blobs: 0 });
    await store.untag('localhost/a:1');
    await store.untag('localhost/b:1');
    // Kept as a thing, and not entered.
    expect(await store.prune(now)).toMatchObject({ blobs: 2 });
    expect(await store.hasBlob(inner.digest)).toBe(true);
  });

  it('K3 follows indexes however deep they are', async () => {
    let at = await put(manifestOf(await put({ deep: 1 }, CONFIG)), MANIFEST);
    for (let depth = 0; depth < 12; depth++) at = await put(indexOf(at), INDEX);
    await store.tag('localhost/a:1', at);
    expect(await store.prune(now)).toMatchObject({ blobs: 0 });
  });

  it('K4 takes nothing where a manifest or config that is named cannot be read', async () => {
    const { configDigest } = await image();
    await writeFile(blobPath(configDigest), 'damaged');
    expect(await codeOf(store.prune(now))).toBe('OCI_BLOB_CORRUPT');
    expect(await readdir(path('blobs', 'sha256'))).toHaveLength(3);
  });

  it('K4 takes nothing where a manifest or config that is named is gone, until the store is mended', async () => {
    const { configDigest, manifestDigest } = await image();
    let left = 3;
    for (const gone of [configDigest, manifestDigest]) {
      await rm(blobPath(gone));
      await expect(store.prune(now)).rejects.toThrow(`a name leads to ${gone}, which is not in the store`);
      expect(await codeOf(store.prune(now))).toBe('OCI_BLOB_MISSING');
      expect(await readdir(path('blobs', 'sha256'))).toHaveLength(--left);
    }
    await store.fsck({ repair: true, ...transfer });
    await store.prune(now);
    expect(await readdir(path('blobs', 'sha256'))).toEqual([]);
  });

  it('K4 takes nothing where a named manifest is too large to be read', async () => {
    const { layers } = await image();
    const large = await put({ large: ' '.repeat(9 * 2 ** 20) }, MANIFEST);
    const index = JSON.parse(await readFile(path('index.json'), 'utf8')) as { manifests: object[] };
    await writeFile(path('index.json'), JSON.stringify({ ...index, manifests: [large] }));
    await store[Symbol.asyncDispose]();
    store = await openStore({ directory: path() });
    expect(await codeOf(store.prune(now))).toBe('OCI_BLOB_CORRUPT');
    expect(await store.hasBlob(layers[0]?.digest as Digest)).toBe(true);
    expect(await store.fsck({ repair: true, ...transfer })).toMatchObject([
      { kind: 'index', message: 'the name leads to something that is too large for a manifest' },
    ]);
    expect(await store.prune(now)).toMatchObject({ blobs: 4 });
  });

  it('K4 asks nothing of a name that was left incomplete on purpose, nor of images of other platforms', async () => {
    const config = await put({ a: 1 }, CONFIG);
    const manifest = await put(manifestOf(config), MANIFEST);
    const absent = { ...manifest, digest: digestOf('never pulled') };
    await store.tag('localhost/a:1', await put(indexOf(absent, manifest), INDEX));
    await store.tag('localhost/b:1', await put(indexOf(absent), INDEX), { sparse: true });
    await store.tag('localhost/c:1', await put(manifestOf({ ...config, digest: absent.digest }), MANIFEST), {
      sparse: true,
    });
    expect(await store.prune(now)).toMatchObject({ blobs: 0 });
  });

  it('counts what it frees, and leaves strange files alone', async () => {
    const one = await put({ a: 1 }, CONFIG);
    await store[Symbol.asyncDispose]();
    store = await openStore({ directory: path() });
    await writeFile(path('blobs', 'stray'), 'x');
    await writeFile(path('blobs', 'sha256', 'no-digest'), 'x');
    expect(await store.prune(now)).toEqual({ blobs: 1, layers: 0, freedBytes: one.size });
    expect(await readdir(path('blobs', 'sha256'))).toEqual(['no-digest']);
    expect(await readdir(path('trash'))).toEqual([]);
  });

  it('helps out one that died while it emptied the trash', async () => {
    await writeFile(path('trash', 'aa'), 'x');
    await store.prune(now);
    expect(await readdir(path('trash'))).toEqual([]);
  });
});

describe('lock files that nobody has locked', () => {
  it('are harmless, and those of one process go', async () => {
    for (const name of ['store', 'holder-dead', 'spool-dead']) await writeFile(path('locks', name), '');
    for (let index = 0; index < 256; index++) {
      const hex = index.toString(16).padStart(2, '0');
      for (const kind of ['blob', 'layer']) await writeFile(path('locks', `${kind}-${hex}`), '');
    }
    const made = await image();
    expect(await store.lowers(made, undefined, transfer)).toHaveLength(1);
    expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
    await store.prune(now);
    const names = (await readdir(path('locks'))).filter((name) => !/^(blob|layer)-..$/.test(name));
    // The living one is this store's own.
    expect(names.map((name) => name.replace(/-.*/, '')).toSorted()).toEqual(['holder', 'store']);
    expect(names).not.toContain('holder-dead');
  });

  it('that was taken for a dead one before it was locked gives way to another', () => {
    const names: string[] = [];
    const { name, lock } = lockNew(path('locks'), 'spool', (made) => {
      names.push(made);
      if (names.length === 1) rmSync(path('locks', made));
      if (names.length !== 2) return;
      using _other = tryLock(path('locks', made));
      rmSync(path('locks', made));
    });
    using _lock = lock;
    expect(names).toHaveLength(3);
    expect(name).toBe(names[2]);
    expect(tryLock(path('locks', name))).toBeUndefined();
  });
});

describe('whoever writes', () => {
  it('sweeps what nobody can go on with, once, and not what can be continued', async () => {
    const part = `sha256-${'a'.repeat(64)}.part`;
    await writeFile(path('.index.json.1.aa.tmp'), 'x');
    await writeFile(path('leases', '.b.json.1.aa.tmp'), 'x');
    await writeFile(path('ingest', 'spool-dead'), 'x');
    // Dead before it had locked it, and before the file was there.
    await writeFile(path('locks', 'spool-made'), '');
    await writeFile(path('ingest', 'spool-alive'), 'x');
    using _alive = tryLock(path('locks', 'spool-alive'));
    await writeFile(path('ingest', part), 'x');
    await image();
    expect((await readdir(path())).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    expect((await readdir(path('leases'))).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    expect((await readdir(path('ingest'))).toSorted()).toEqual([part, 'spool-alive']);
    expect((await readdir(path('locks'))).filter((name) => name.startsWith('spool-'))).toEqual([
      'spool-alive',
    ]);
  });

  it('writes no name that is there already', async () => {
    await image();
    const before = await readFile(path('index.json'));
    await rm(path('index.json'));
    await writeFile(path('index.json'), before, { mode: 0o400 });
    const descriptor = (await store.resolve('localhost/a:1')) as Descriptor;
    const info = execFileSync('stat', ['-c', '%i', path('index.json')]).toString();
    await store.tag('localhost/a:1', descriptor);
    expect(execFileSync('stat', ['-c', '%i', path('index.json')]).toString()).toBe(info);
  });

  it('is told whose fault a wrong size is: the manifest or the store', async () => {
    const bytes = Buffer.from('0123456789');
    const blob = { mediaType: 'x', digest: digestOf(bytes), size: 10 };
    await store.ingest(blob, async () => inPieces(bytes), transfer);
    const again = (size: number): Promise<void> =>
      store.ingest({ ...blob, size }, () => Promise.reject(new Error('asked')), transfer);
    await expect(again(9)).rejects.toThrow('has 10 bytes, and the image announces 9');
    await writeFile(blobPath(blob.digest), '012345678');
    await expect(again(10)).rejects.toThrow('the store holds a damaged copy');
    await rm(blobPath(blob.digest));
    execFileSync('mkfifo', [blobPath(blob.digest)]);
    await expect(again(10)).rejects.toThrow('it is no file');
  });
});

describe('a store that cannot be used', () => {
  it.each<[string, () => Promise<unknown> | undefined]>([
    [
      'a lock that is a folder',
      () => rm(path('locks', 'store')).then(() => execFileSync('mkdir', [path('locks', 'store')])),
    ],
    ['a lock that is no database', () => writeFile(path('locks', 'store'), 'x'.repeat(5000))],
    ['no folder for leases', () => rm(path('leases'), { recursive: true })],
  ])('with %s says so', async (_what, damage) => {
    await put({ a: 1 }, CONFIG);
    await damage();
    const digest = digestOf('x') as Digest;
    const work = openStore({ directory: path() }).then((other) => other.lease('x', [digest]));
    expect(await codeOf(work)).toBe('OCI_STORE_INVALID');
  });

  it('with an entry in its index that is no descriptor says which', async () => {
    await writeFile(path('index.json'), '{"schemaVersion":2,"manifests":[{"digest":"sha256:1"}]}');
    await expect(store.list()).rejects.toThrow('manifests[0] is no descriptor');
    expect(await codeOf(store.list())).toBe('OCI_STORE_INVALID');
  });
});
