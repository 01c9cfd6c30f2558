import { copyFile, mkdtemp, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { inPieces, makeImage, recordingTransfer, type TarFile, tarOf } from '../../testkit/images/index.ts';
import { buildImage, pinnedFromStore } from '../image/index.ts';
import { ErofsReader } from '../layer/index.ts';
import { digestOf } from '../names/index.ts';
import type { Lower } from '../port.ts';
import type { Descriptor, PinnedImage } from '../types.ts';
import { type LayoutStore, openStore } from './index.ts';

const platform = { os: 'linux', architecture: 'amd64' };
const map = { hostBase: 2 ** 30, size: 2 ** 30 };
let directory: string;
let store: LayoutStore;
let transfer: ReturnType<typeof recordingTransfer>;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-store-'));
  store = await openStore({ directory: join(directory, 'store') });
  transfer = recordingTransfer();
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function lowersOf(image: PinnedImage): Promise<readonly Lower[]> {
  return await store.lowers(image, map, { ...transfer, form: 'erofs' });
}

async function fileIn(lower: Lower | undefined, path: string): Promise<string | undefined> {
  await using reader = await ErofsReader.open(lower?.path ?? '');
  const inode = await reader.find(path);
  if (inode === undefined) return undefined;
  const parts: Buffer[] = [];
  for await (const part of reader.body(inode)) parts.push(part);
  return `${inode.uid - map.hostBase} ${inode.links} ${Buffer.concat(parts).toString()}`;
}

async function flip(path: string, at: number): Promise<void> {
  const handle = await open(path, 'r+');
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, at);
  await handle.write(Buffer.from([(buffer[0] as number) ^ 1]), 0, 1, at);
  await handle.close();
}

it('a layer is one file or a folder, as it is asked for, each made once', async () => {
  const image = await makeImage(store, { platform, files: { f: 'content' } });
  const [file] = await lowersOf(image);
  const [folder] = await store.lowers(image, map, transfer);
  expect([file?.kind, folder?.kind]).toEqual(['erofs', 'folder']);
  expect(await fileIn(file, 'f')).toBe('0 1 content');
  expect(await readFile(join(folder?.path ?? '', 'f'), 'utf8')).toBe('content');
  expect(await lowersOf(image)).toEqual([file]);
  expect(transfer.events.filter((event) => event.type === 'layer.unpacked')).toHaveLength(2);
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
});

it('a layer that links into its parents finds them in their files, and is known by its chain', async () => {
  const base = tarOf([{ path: 'real/f', content: 'below', uid: 7 }]);
  const top = tarOf([{ path: 'h', type: 'link', linkPath: 'real/f', uid: 7, mode: 0o644 }]);
  const layers = [{ tar: inPieces(base) }, { tar: inPieces(top) }];
  const image = await buildImage(
    store,
    { layers, config: {}, platform, reference: 'localhost/a:1' },
    transfer,
  );
  const lowers = await lowersOf(image);
  expect(await fileIn(lowers[1], 'h')).toBe('7 2 below');
  const folders = await readdir(join(store.directory, 'layers'));
  expect(folders).toHaveLength(3);
  const files = await Promise.all(folders.map((name) => readdir(join(store.directory, 'layers', name))));
  expect(files.flat().filter((name) => !name.startsWith('layer.json'))).toEqual([
    'image.erofs',
    'image.erofs',
  ]);
  expect(await lowersOf(image)).toEqual(lowers);
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
});

const large = new Map([['user.large', Buffer.alloc(70_000, 7)]]);

it('a layer that cannot be one file is a folder among files, found by those that link into it', async () => {
  const layers = [
    [{ path: 'd/a', content: 'lowest', uid: 7 }],
    [
      { path: 'd/b', content: 'folder', uid: 7 },
      { path: 'large', xattrs: large },
    ],
    [
      { path: 'toA', type: 'link' as const, linkPath: 'd/a', uid: 7 },
      { path: 'big', xattrs: large },
    ],
    [{ path: 'toB', type: 'link' as const, linkPath: 'd/b', uid: 7 }],
    [{ path: 'toC', type: 'link' as const, linkPath: 'toA', uid: 7 }],
  ].map((files) => ({ tar: inPieces(tarOf(files)) }));
  const image = await buildImage(
    store,
    { layers, config: {}, platform, reference: 'localhost/a:1' },
    transfer,
  );
  const lowers = await lowersOf(image);
  expect(lowers.map(({ kind }) => kind)).toEqual(['erofs', 'folder', 'folder', 'erofs', 'erofs']);
  expect(await readFile(join(lowers[1]?.path ?? '', 'd/b'), 'utf8')).toBe('folder');
  expect(await readFile(join(lowers[2]?.path ?? '', 'toA'), 'utf8')).toBe('lowest');
  expect(await fileIn(lowers[3], 'toB')).toBe('7 2 folder');
  expect(await fileIn(lowers[4], 'toC')).toBe('7 2 lowest');
  const told = (): readonly string[] =>
    transfer.events.flatMap((event) => (event.type === 'layer.folder' ? [event.diffId] : []));
  const folders = image.layers.slice(1, 3).map(({ diffId }) => diffId);
  expect(told().toSorted()).toEqual(folders.toSorted());
  const unpacked = transfer.events.filter((event) => event.type === 'layer.unpacked').length;
  expect(unpacked).toBe(5);
  // Once more, by this and by another process.
  expect(await lowersOf(image)).toEqual(lowers);
  await store[Symbol.asyncDispose]();
  store = await openStore({ directory: join(directory, 'store') });
  expect(await lowersOf(image)).toEqual(lowers);
  expect(told()).toHaveLength(6);
  expect(transfer.events.filter((event) => event.type === 'layer.unpacked')).toHaveLength(5);
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
  // Its parents are a file and a folder.
  await writeFile(join(lowers[2]?.path ?? '', 'toA'), 'lowesT');
  const findings = await store.fsck({ repair: false, ...transfer });
  expect(findings.map(({ message }) => message)).toContainEqual(expect.stringContaining('"toA" has changed'));
  await store.untag('localhost/a:1');
  await store.prune({ olderThanMs: 0, keep: [] });
  expect(await readdir(join(store.directory, 'layers'))).toEqual([]);
});

it.each(['folder', 'erofs'] as const)(
  'layers, config and manifest named by sha512 are unpacked and checked, %s',
  async (form) => {
    const put = async (bytes: Buffer, mediaType: string): Promise<Descriptor> => {
      const blob = { mediaType, digest: digestOf(bytes, 'sha512'), size: bytes.length };
      await store.ingest(blob, async (from) => inPieces(bytes.subarray(from)), transfer);
      return blob;
    };
    const tars = [
      tarOf([{ path: 'f', content: 'below' }]),
      tarOf([{ path: 'h', type: 'link', linkPath: 'f' }]),
    ];
    const layers = [];
    for (const tar of tars) layers.push(await put(tar, 'application/vnd.oci.image.layer.v1.tar'));
    const diffIds = tars.map((tar) => digestOf(tar, 'sha512'));
    const document = { ...platform, rootfs: { type: 'layers', diff_ids: diffIds } };
    const config = await put(
      Buffer.from(JSON.stringify(document)),
      'application/vnd.oci.image.config.v1+json',
    );
    const mediaType = 'application/vnd.oci.image.manifest.v1+json';
    const manifest = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, config, layers }));
    await store.tag('localhost/long:1', await put(manifest, mediaType));
    const image = await pinnedFromStore(store, 'localhost/long:1', platform);
    expect(image?.layers.map(({ diffId }) => diffId)).toEqual(diffIds);
    const lowers = await store.lowers(image as PinnedImage, map, { ...transfer, form });
    const top = lowers[1];
    expect(
      top?.kind === 'erofs' ? await fileIn(top, 'h') : await readFile(join(top?.path ?? '', 'h'), 'utf8'),
    ).toBe(form === 'erofs' ? '0 2 below' : 'below');
    expect(await store.lowers(image as PinnedImage, map, { ...transfer, form })).toEqual(lowers);
    expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
    expect(await store.prune({ olderThanMs: 0, keep: [] })).toMatchObject({ blobs: 0, layers: 0 });
    await store.untag('localhost/long:1');
    expect(await store.prune({ olderThanMs: 0, keep: [] })).toMatchObject({ blobs: 4, layers: 3 });
  },
);

it.each(['folder', 'erofs'] as const)(
  'what an opaque root hides is left out, asked once or again: %s',
  async (form) => {
    const layers = [{ path: 'below', content: 'x' }, { path: '.wh..wh..opq' }].map((file) => ({
      tar: inPieces(tarOf([file])),
    }));
    const image = await buildImage(
      store,
      { layers, config: {}, platform, reference: 'localhost/a:1' },
      transfer,
    );
    const lowers = await store.lowers(image, map, { ...transfer, form });
    expect(lowers).toHaveLength(1);
    expect(await store.lowers(image, map, { ...transfer, form })).toEqual(lowers);
  },
);

it('a file that is not as it was written is written again before anybody gets it', async () => {
  const image = await makeImage(store, { platform, files: { f: 'content' } });
  const [file] = await lowersOf(image);
  const path = file?.path ?? '';
  const good = await readFile(path);
  await flip(path, 4096);
  expect(await store.fsck({ repair: false, ...transfer })).toMatchObject([
    { kind: 'layer', message: 'the file of an unpacked layer has been replaced or changed' },
  ]);
  expect(await lowersOf(image)).toEqual([file]);
  expect((await readFile(path)).equals(good)).toBe(true);
  await rm(path);
  expect(await lowersOf(image)).toEqual([file]);
  expect((await readFile(path)).equals(good)).toBe(true);
});

it('fsck compares every byte of a file with the blob, and mends by dropping the layer', async () => {
  const image = await makeImage(store, { platform, files: { f: 'content' } });
  const [file] = await lowersOf(image);
  const path = file?.path ?? '';
  // The record is written once more when the layer is on the disk.
  await store[Symbol.asyncDispose]();
  store = await openStore({ directory: join(directory, 'store') });
  await flip(path, 4096);
  const record = join(dirname(path), 'layer.json');
  const { image: known, ...rest } = JSON.parse(await readFile(record, 'utf8')) as { image: object };
  // As if the disk had done it.
  const { ctimeNs } = await stat(path, { bigint: true });
  await writeFile(record, JSON.stringify({ ...rest, image: { ...known, ctime: String(ctimeNs) } }));
  const message = expect.stringMatching(/^an unpacked layer is not what its blob holds: /);
  const wrong = { kind: 'layer', message };
  expect(await store.fsck({ repair: true, ...transfer })).toMatchObject([{ ...wrong, repaired: true }]);
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
  expect(await fileIn((await lowersOf(image))[0], 'f')).toBe('0 1 content');
});

/** A record that agrees with its file, whatever that is. */
async function adopt(path: string): Promise<void> {
  await store[Symbol.asyncDispose]();
  store = await openStore({ directory: join(directory, 'store') });
  const record = join(dirname(path), 'layer.json');
  const { image, ...rest } = JSON.parse(await readFile(record, 'utf8')) as { image: object };
  const { size, ino, ctimeNs } = await stat(path, { bigint: true });
  const now = { size: Number(size), inode: String(ino), ctime: String(ctimeNs) };
  await writeFile(record, JSON.stringify({ ...rest, image: { ...image, ...now } }));
}

const sound: readonly TarFile[] = [
  { path: 'd/f', content: 'hello' },
  { path: 'd/g', type: 'link', linkPath: 'd/f' },
  { path: 'l', type: 'symlink', linkPath: 'd/f' },
  { path: 'd/.wh.gone' },
];

it.each<[string, TarFile[], RegExp]>([
  ['another content', [{ path: 'd/f', content: 'hellO' }], /"d\/f" has changed/],
  ['another mode', [{ path: 'd/f', content: 'hello', mode: 0o600 }], /"d\/f" has changed/],
  ['another owner', [{ path: 'd/f', content: 'hello', uid: 1 }], /"d\/f" has changed/],
  ['a file less', [{ path: 'd', type: 'directory' }], /"d\/f" is gone/],
  ['a file more', [...sound, { path: 'd/new' }], /"d\/new" was added/],
  ['a hard link less', [...sound.slice(0, 1), ...sound.slice(2), { path: 'd/g', content: 'hello' }], /links/],
])('fsck compares a file with the blob, whatever its record says: %s', async (_what, files, message) => {
  const build = async (tar: Buffer, reference: string): Promise<string> => {
    const options = { layers: [{ tar: inPieces(tar) }], config: {}, platform, reference };
    return (await lowersOf(await buildImage(store, options, transfer)))[0]?.path ?? '';
  };
  const path = await build(tarOf(sound), 'localhost/a:1');
  const other = await build(tarOf(files), 'localhost/b:1');
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
  await copyFile(other, path);
  await adopt(path);
  expect(await store.fsck({ repair: true, ...transfer })).toMatchObject([
    { kind: 'layer', message: expect.stringMatching(message), repaired: true },
  ]);
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
});
