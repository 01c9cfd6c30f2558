import { mkdtemp, open, readFile, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { codeFrom } from '../../../testkit/coded.ts';
import { inPieces, rawHeader, type TarFile, tarOf } from '../../../testkit/images/index.ts';
import { type Grown, grownTree, plainEntry } from '../../../testkit/layers/index.ts';
import { fc } from '../../../testkit/property.ts';
import { digestOf } from '../../names/index.ts';
import type { IdMap } from '../../port.ts';
import type { TarEntry } from '../entry.ts';
import { ErofsReader, type ErofsSink, openErofsSink, unpackLayer } from '../index.ts';
import { MOST_XATTR_BYTES } from './copyable.ts';
import { BLOCK, decodeFirstBlock, SLOT, XATTR_HEADER } from './format.ts';

const signal = new AbortController().signal;
let directory: string;
let image: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-erofs-'));
  image = join(directory, 'image');
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function write(tree: readonly Grown[]): Promise<ErofsSink> {
  await rm(image, { force: true });
  const sink = await openErofsSink(image, Infinity);
  for (const { entry, body } of tree) {
    const parts = [body.subarray(0, 1), body.subarray(1)].filter((part) => part.length > 0);
    await sink.put(entry, async () => parts.shift());
  }
  await sink.finish();
  return sink;
}

interface Found {
  readonly entry: TarEntry;
  readonly body: string;
  readonly links: number;
  readonly nid: number;
}

async function readAll(): Promise<Map<string, Found>> {
  await using reader = await ErofsReader.open(image);
  const found = new Map<string, Found>();
  const visit = async (inode: Awaited<typeof reader.root>, path: string): Promise<void> => {
    const parts: Buffer[] = [];
    if (inode.kind === 'file') for await (const part of reader.body(inode)) parts.push(part);
    const body = Buffer.concat(parts).toString('latin1');
    found.set(path, { entry: await reader.entry(inode, path), body, links: inode.links, nid: inode.nid });
    if (inode.kind !== 'directory') return;
    for (const entry of await reader.names(inode))
      await visit(await reader.child(entry), path === '' ? entry.name : `${path}/${entry.name}`);
  };
  await visit(await reader.root, '');
  return found;
}

const layer = async (
  files: readonly TarFile[] | Buffer,
  { map, most }: { readonly map?: IdMap; readonly most?: number } = {},
): Promise<ErofsSink> => {
  await rm(image, { force: true });
  const sink = await openErofsSink(image, most);
  await unpackLayer(inPieces(Buffer.isBuffer(files) ? files : tarOf(files), 700), sink, { map, signal });
  return sink;
};

const codeOf = async (work: Promise<unknown>): Promise<string> => await work.then(() => 'done', codeFrom);

it('any tree comes back as it was written, and the same tree as the same bytes', async () => {
  await fc.assert(
    fc.asyncProperty(grownTree, async (tree) => {
      const { size } = await write(tree);
      const bytes = await readFile(image);
      const found = await readAll();
      const names = new Map<string, Grown>();
      for (const one of tree) {
        const target = one.entry.type === 'link' ? names.get(one.entry.linkPath) : one;
        names.set(one.entry.path === '.' ? '' : one.entry.path, target as Grown);
      }
      expect([...found.keys()].toSorted()).toEqual([...names.keys()].toSorted());
      for (const [path, { entry, body }] of names) {
        const other = found.get(path) as Found;
        expect({ ...other.entry, path: '' }).toEqual({ ...entry, path: '' });
        expect(other.body).toBe(body.toString('latin1'));
        const same = [...names]
          .filter(([, one]) => one.entry === entry)
          .map(([name]) => found.get(name)?.nid);
        expect(new Set(same)).toEqual(new Set([other.nid]));
        if (entry.type !== 'directory') expect(other.links).toBe(same.length);
      }
      expect(bytes.length).toBe(size);
      await write(tree);
      expect((await readFile(image)).equals(bytes)).toBe(true);
    }),
    { numRuns: 25 },
  );
});

it('behind the last inode there is always room for a header of attributes, where fsck.erofs 1.5 looks for one', async () => {
  const ends: number[] = [];
  for (let more = 0; more < 128; more += 16) {
    const names = Array.from({ length: 49 }, (_, at) => `${at + 10}${'n'.repeat(at === 0 ? more : 0)}`);
    const tree = ['.', ...names].map((name): Grown => {
      return { entry: plainEntry(name, name === '.' ? 'directory' : 'fifo'), body: Buffer.alloc(0) };
    });
    await write(tree);
    const bytes = await readFile(image);
    const last = Math.max(...[...(await readAll()).values()].map(({ nid }) => nid));
    const end = decodeFirstBlock(bytes.subarray(0, BLOCK)).metaBlock * BLOCK + last * SLOT + 64;
    ends.push(end % BLOCK);
    expect(bytes.length).toBeGreaterThanOrEqual(end + XATTR_HEADER);
  }
  expect(ends).toContain(0);
});

it('bodies longer than the buffers, and directories of many blocks', async () => {
  const big = Buffer.alloc(3_500_001, 'abcdefg');
  const many = Array.from({ length: 2000 }, (_, index) => plainEntry(`d/${index}`.padEnd(40, 'x'), 'fifo'));
  await write([
    { entry: plainEntry('d', 'directory'), body: Buffer.alloc(0) },
    ...many.map((entry) => ({ entry, body: Buffer.alloc(0) })),
    { entry: { ...plainEntry('big', 'file'), size: big.length }, body: big },
  ]);
  const found = await readAll();
  expect(found.size).toBe(2003);
  expect(found.get('big')?.body).toBe(big.toString('latin1'));
  await using reader = await ErofsReader.open(image);
  expect(await reader.find(`d/${'1999'.padEnd(38, 'x')}`)).toMatchObject({ kind: 'fifo' });
  expect(await reader.find('d/none')).toBeUndefined();
  expect(await reader.find('big/none')).toBeUndefined();
});

it('a layer keeps its whiteouts in the form of overlayfs, and its ids are shifted', async () => {
  await layer(
    [
      { path: 'd/f', content: 'x', uid: 5, gid: 6 },
      { path: 'd/.wh..wh..opq' },
      { path: 'd/h', type: 'link', linkPath: 'd/f', uid: 5, gid: 6 },
      { path: '.wh.gone' },
    ],
    { map: { hostBase: 1000, size: 100 } },
  );
  const found = await readAll();
  expect([...found.keys()]).toEqual(['', 'd', 'd/f', 'd/h', 'gone']);
  expect(found.get('gone')?.entry).toMatchObject({ type: 'char', devMajor: 0, devMinor: 0, uid: 1000 });
  expect(found.get('d')?.entry.xattrs).toEqual(new Map([['trusted.overlay.opaque', Buffer.from('y')]]));
  expect(found.get('d')?.links).toBe(2);
  expect(found.get('')?.links).toBe(3);
  expect(found.get('d/f')).toMatchObject({ links: 2, entry: { uid: 1005, gid: 1006 } });
});

it('a hard link that states other attributes changes its file, under every name', async () => {
  const sink = await openErofsSink(image);
  const xattrs = (...names: string[]): ReadonlyMap<string, Buffer> =>
    new Map(names.map((name) => [name, Buffer.from(name)]));
  const file = { ...plainEntry('a', 'file'), xattrs: xattrs('user.a', 'security.capability') };
  await sink.put(file, async () => undefined);
  await sink.put({ ...plainEntry('b', 'link'), linkPath: 'a' }, async () => undefined);
  await sink.restamp({ ...plainEntry('b', 'file'), mode: 0o600, uid: 7, xattrs: xattrs('user.b') });
  await sink.finish();
  const found = await readAll();
  expect(found.get('a')?.entry).toMatchObject({ mode: 0o600, uid: 7, xattrs: xattrs('user.a', 'user.b') });
  expect(found.get('b')?.nid).toBe(found.get('a')?.nid);
});

it('the order of attributes in the archive changes nothing', async () => {
  const xattrs = [
    ['user.b', Buffer.from('1')],
    ['user.a', Buffer.from('2')],
  ] as const;
  const files = [xattrs, xattrs.toReversed()].map(async (one, index) => {
    const file = join(directory, String(index));
    const sink = await openErofsSink(file);
    await sink.put({ ...plainEntry('f', 'file'), xattrs: new Map(one) }, async () => undefined);
    await sink.finish();
    return await readFile(file, 'hex');
  });
  expect(await files[1]).toBe(await files[0]);
});

it('a device number that Linux has not is refused, as it is where the layer is a folder', async () => {
  expect(await codeOf(layer([{ path: 'd', type: 'char', devMajor: 4096, devMinor: 1 }]))).toBe(
    'OCI_LAYER_WRITE',
  );
  expect(await codeOf(layer([{ path: 'd', type: 'block', devMajor: 1, devMinor: 2 ** 20 }]))).toBe(
    'OCI_LAYER_WRITE',
  );
  for (const [at, field] of [
    [329, 'major'],
    [337, 'minor'],
  ] as const) {
    const negative = rawHeader({ 156: '3', 329: '0000001\0', 337: '0000001\0', [at]: Buffer.alloc(8, 0xff) });
    expect([field, await codeOf(layer(Buffer.concat([negative, Buffer.alloc(1024)])))]).toEqual([
      field,
      'OCI_LAYER_WRITE',
    ]);
  }
  expect(await codeOf(layer([{ path: 'd', type: 'char', devMajor: 4095, devMinor: 2 ** 20 - 1 }]))).toBe(
    'done',
  );
});

const sized = (...sizes: number[]): ReadonlyMap<string, Buffer> =>
  new Map(sizes.map((size, index) => [`user.${index}`, Buffer.alloc(size, 7)]));

it.each<[string, ReadonlyMap<string, Buffer>, number | undefined, string]>([
  ['the largest value of the format', sized(65_535), Infinity, 'done'],
  ['a larger value', sized(65_536), Infinity, 'larger than EROFS'],
  [
    'values that are too large together',
    sized(60_000, 60_000, 60_000, 60_000, 60_000),
    Infinity,
    'larger than EROFS',
  ],
  ['as much as can be copied', sized(3944), undefined, 'done'],
  ['one byte more than can be copied', sized(3945), undefined, 'would not be copied'],
  ['many that are too large together', sized(1310, 1310, 1310), undefined, 'would not be copied'],
  ['a name of 255 bytes', new Map([[`user.${'n'.repeat(250)}`, Buffer.alloc(1)]]), undefined, 'done'],
  ['a longer name', new Map([[`user.${'n'.repeat(251)}`, Buffer.alloc(1)]]), undefined, 'longer than 255'],
  ['an empty name', new Map([['user.', Buffer.alloc(1)]]), undefined, 'an empty name'],
])(
  'attributes that a file-system image or a copy of its file could not have: %s',
  async (_what, xattrs, most, verdict) => {
    const files: TarFile[] = [
      { path: 'f', content: 'x', xattrs },
      { path: 'g', content: 'y' },
    ];
    const said = await codeOf(layer(files, { most: most ?? MOST_XATTR_BYTES }));
    expect(said).toContain(verdict === 'done' ? 'done' : 'NotErofs: the layer has ');
    expect(said).toContain(verdict);
    if (verdict === 'done') expect((await readAll()).get('f')?.entry.xattrs).toEqual(xattrs);
  },
);

it('what cannot be one file is nevertheless compared with its diffID first', async () => {
  const tar = tarOf([{ path: 'f', xattrs: sized(65_536) }]);
  const wrong = digestOf('something else');
  const unpacked = unpackLayer(inPieces(tar), await openErofsSink(image), {
    map: undefined,
    signal,
    diffId: wrong,
  });
  expect(await codeOf(unpacked)).toBe('OCI_LAYER_DIFFID');
});

it('attributes that a hard link adds count for its file', async () => {
  const files: TarFile[] = [
    { path: 'f', content: 'x', xattrs: new Map([['user.f', Buffer.alloc(2500)]]) },
    { path: 'h', type: 'link', linkPath: 'f', xattrs: new Map([['user.h', Buffer.alloc(2500)]]) },
  ];
  expect(await codeOf(layer(files))).toContain('would not be copied');
});

it('what is there already is not overwritten, and a damaged image is said so', async () => {
  await layer([{ path: 'f', content: 'x' }]);
  expect(await codeOf(openErofsSink(image))).toMatch(/EEXIST/);
  const handle = await open(image, 'r+');
  await handle.write(Buffer.from([7]), 0, 1, 1024 + 36);
  await handle.close();
  expect(await codeOf(ErofsReader.open(image))).toBe('OCI_STORE_INVALID');
  await layer([{ path: 'f', content: 'x'.repeat(9000) }]);
  {
    await using reader = await ErofsReader.open(image);
    expect(await codeOf(reader.child({ name: 'f', nid: 2 ** 60 }))).toBe('OCI_STORE_INVALID');
  }
  await truncate(image, 2 * BLOCK);
  expect(await codeOf(readAll())).toBe('OCI_STORE_INVALID');
  await truncate(image, 100);
  expect(await codeOf(ErofsReader.open(image))).toBe('OCI_STORE_INVALID');
});
