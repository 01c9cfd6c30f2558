import { constants } from 'node:fs';
import { mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { kernelError } from '../../../kernel/index.ts';
import { codeFrom } from '../../../testkit/coded.ts';
import { plainEntry } from '../../../testkit/layers/index.ts';
import type { TarEntry } from '../entry.ts';
import { assertCopyable, isCopyable, MOST_XATTR_BYTES } from './copyable.ts';
import { BLOCK, encodeDirents, encodeFirstBlock, encodeInode, encodeXattrs } from './format.ts';
import { ErofsReader } from './reader.ts';
import { type ErofsSink, openErofsSink } from './sink.ts';

let directory: string;
let image: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-erofs-sink-'));
  image = join(directory, 'image');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

type Change = Partial<TarEntry>;
const entry = (path: string, type: TarEntry['type'], change: Change = {}): TarEntry => ({
  ...plainEntry(path, type),
  ...change,
});

async function put(sink: ErofsSink, one: TarEntry, body = ''): Promise<void> {
  const parts = body === '' ? [] : [Buffer.from(body)];
  await sink.put(one, async () => parts.shift());
}

const said = async (work: Promise<unknown>): Promise<string> =>
  await work.then(
    () => 'done',
    (error: Error) => error.message,
  );

describe('an image of a small layer', () => {
  /** Where the inodes begin: the first block, and the one of the only body. */
  const META = 2 * BLOCK;
  const xattrs = new Map([['user.a', Buffer.from('xyz')]]);

  async function written(): Promise<Buffer> {
    const sink = await openErofsSink(image);
    await put(sink, entry('.', 'directory', { mode: 0o755, uid: 1, gid: 2 }));
    await put(sink, entry('d', 'directory', { mode: 0o700, mtime: { seconds: 5, nanos: 6 } }));
    await put(sink, entry('d/f', 'file', { size: 5, xattrs }), 'hello');
    await put(sink, entry('h', 'link', { linkPath: 'd/f' }));
    await put(sink, entry('l', 'symlink', { linkPath: 'd/f', mode: 0o777 }));
    await put(sink, entry('c', 'char', { devMajor: 1, devMinor: 3 }));
    await put(sink, entry('b', 'block', { devMajor: 7, devMinor: 256 }));
    await put(sink, entry('p', 'fifo'));
    await sink.finish();
    return await readFile(image);
  }

  it('has every byte where the format says, and no other', async () => {
    const wanted = Buffer.alloc(3 * BLOCK);
    wanted.write('hello', BLOCK);
    const none = {
      mode: 0o644,
      uid: 0,
      gid: 0,
      size: 0,
      seconds: 0,
      nanos: 0,
      start: 0,
      links: 1,
      xattrs: 0,
    };
    const nids = { root: 2, b: 8, c: 10, d: 12, h: 16, l: 19, p: 22 };
    encodeInode(wanted, META + 64, {
      ...none,
      layout: 2,
      kind: 'directory',
      mode: 0o755,
      uid: 1,
      gid: 2,
      links: 3,
      // Seven dots and letters, and eight entries of twelve bytes.
      size: 8 * 12 + 9,
      start: 2,
      ino: 1,
    });
    encodeDirents(wanted, META + 128, [
      { name: '.', kind: 'directory', nid: nids.root },
      { name: '..', kind: 'directory', nid: nids.root },
      { name: 'b', kind: 'block', nid: nids.b },
      { name: 'c', kind: 'char', nid: nids.c },
      { name: 'd', kind: 'directory', nid: nids.d },
      { name: 'h', kind: 'file', nid: nids.h },
      { name: 'l', kind: 'symlink', nid: nids.l },
      { name: 'p', kind: 'fifo', nid: nids.p },
    ]);
    encodeInode(wanted, META + 32 * nids.b, { ...none, layout: 0, kind: 'block', start: 0x10_0700, ino: 2 });
    encodeInode(wanted, META + 32 * nids.c, { ...none, layout: 0, kind: 'char', start: 0x103, ino: 3 });
    const time = { seconds: 5, nanos: 6 };
    const d = {
      ...none,
      ...time,
      layout: 2,
      kind: 'directory',
      mode: 0o700,
      size: 40,
      links: 2,
      start: 2,
      ino: 4,
    } as const;
    encodeInode(wanted, META + 32 * nids.d, d);
    encodeDirents(wanted, META + 32 * nids.d + 64, [
      { name: '.', kind: 'directory', nid: nids.d },
      { name: '..', kind: 'directory', nid: nids.root },
      { name: 'f', kind: 'file', nid: nids.h },
    ]);
    encodeInode(wanted, META + 32 * nids.h, {
      ...none,
      layout: 0,
      kind: 'file',
      size: 5,
      links: 2,
      start: 1,
      xattrs: 20,
      ino: 5,
    });
    encodeXattrs(xattrs, wanted, META + 32 * nids.h + 64);
    encodeInode(wanted, META + 32 * nids.l, {
      ...none,
      layout: 2,
      kind: 'symlink',
      mode: 0o777,
      size: 3,
      start: 2,
      ino: 6,
    });
    wanted.write('d/f', META + 32 * nids.l + 64);
    encodeInode(wanted, META + 32 * nids.p, { ...none, layout: 0, kind: 'fifo', ino: 7 });
    encodeFirstBlock({ rootNid: 2, inodes: 7, blocks: 3, metaBlock: 2 }).copy(wanted);
    const made = await written();
    const differing = [...made.keys()].filter((at) => made[at] !== wanted[at]);
    expect([made.length, differing.slice(0, 20)]).toEqual([wanted.length, []]);
  });

  it('knows its size when it is finished', async () => {
    const sink = await openErofsSink(image);
    expect(sink.size).toBe(0);
    await put(sink, entry('f', 'file', { size: 5 }), 'hello');
    await sink.finish();
    expect(sink.size).toBe((await stat(image)).size);
  });

  it('is a file of its writer alone', async () => {
    await written();
    expect((await stat(image)).mode).toBe(constants.S_IFREG | 0o600);
  });
});

it('what has no room beside its inode has blocks of its own', async () => {
  const sink = await openErofsSink(image, Infinity);
  const lengths = [1, 4032, 4033, 4095];
  for (const length of lengths)
    await put(sink, entry(`l${length}`, 'symlink', { linkPath: 't'.repeat(length) }));
  for (const length of [4012, 4013]) {
    const xattrs = new Map([['user.a', Buffer.from('xyz')]]);
    await put(sink, entry(`x${length}`, 'symlink', { linkPath: 't'.repeat(length), xattrs }));
  }
  await sink.finish();
  await using reader = await ErofsReader.open(image);
  const inline: Record<string, boolean> = {};
  for (const found of await reader.names(await reader.root)) {
    const inode = await reader.child(found);
    expect(await reader.target(inode)).toBe('t'.repeat(Number(found.name.slice(1))));
    inline[found.name] = inode.layout === 2;
    // An inode and what lies behind it stay in one block.
    const room = inode.xattrs + (inode.layout === 2 ? inode.size : 0);
    if (inode.layout === 2) expect(((inode.nid * 32) % BLOCK) + 64 + room).toBeLessThanOrEqual(BLOCK);
  }
  expect(inline).toEqual({ l1: true, l4032: true, l4033: false, l4095: false, x4012: true, x4013: false });
});

describe('what does not fit together is refused in words', () => {
  it.each<[string, readonly TarEntry[], string]>([
    ['in no directory', [entry('a/b/f', 'file')], '"a/b/f" is in no directory'],
    ['below a file', [entry('f', 'file'), entry('f/g', 'file')], '"f/g" is in no directory'],
    ['a file twice', [entry('f', 'file'), entry('f', 'fifo')], 'it is there already'],
    ['a link to nothing', [entry('l', 'link', { linkPath: 'f' })], 'a link to nothing'],
    [
      'a link to a directory',
      [entry('d', 'directory'), entry('l', 'link', { linkPath: 'd' })],
      'a link to nothing',
    ],
    ['a short body', [entry('f', 'file', { size: 3 })], '0 of 3 bytes came'],
    [
      'a device that Linux has not',
      [entry('f', 'char', { devMajor: 4096 })],
      'a layer cannot be written: a device has the number 4096:0',
    ],
  ])('%s', async (_what, entries, message) => {
    const sink = await openErofsSink(image);
    for (const one of entries.slice(0, -1)) await put(sink, one);
    expect(await said(put(sink, entries.at(-1) as TarEntry))).toBe(message);
    await sink.abort();
  });

  it('other attributes of nothing', async () => {
    const sink = await openErofsSink(image);
    expect(await said(sink.restamp(entry('f', 'file')))).toBe('nothing is there');
    expect(await said(sink.restamp(entry('d/f', 'file')))).toBe('"d/f" is in no directory');
    await sink.abort();
    await sink.abort();
  });

  it('a fault of the disk, and what the source throws comes through as it is', async () => {
    const sink = await openErofsSink(image);
    const thrown = async (error: unknown): Promise<unknown> =>
      await sink
        .put(entry('f', 'file', { size: 1 }), async () => {
          throw error;
        })
        .catch((one: unknown) => one);
    const fault = Object.assign(new Error('it is so'), { code: 'EIO' });
    expect(await thrown(fault)).toMatchObject({
      code: 'OCI_LAYER_WRITE',
      message: 'a layer could not be written: it is so',
      cause: fault,
    });
    const full = await thrown(Object.assign(new Error('full'), { code: 'ENOSPC' }));
    expect([codeFrom(full), (full as Error).message]).toEqual([
      'DISK_FULL',
      `no space left while writing ${image}`,
    ]);
    for (const own of [kernelError('CANCELLED', 'stop'), new Error('no code')])
      expect(await thrown(own)).toBe(own);
    await sink.abort();
  });

  it('a place that cannot be written', async () => {
    expect(await said(openErofsSink(join(directory, 'none/image')))).toContain('ENOENT');
    await writeFile(image, '');
    expect(await said(openErofsSink(image))).toContain('EEXIST');
  });
});

describe('other attributes of a file', () => {
  const xattrs = (...names: string[]): ReadonlyMap<string, Buffer> =>
    new Map(names.map((name) => [name, Buffer.from(name)]));
  const stamped = async (before: readonly string[], after?: readonly string[]): Promise<TarEntry> => {
    const sink = await openErofsSink(image);
    await put(sink, entry('f', 'file', { size: 2, xattrs: xattrs(...before) }), 'hi');
    const change = after === undefined ? {} : { xattrs: xattrs(...after) };
    const mtime = { seconds: 7, nanos: 8 };
    await sink.restamp(entry('f', 'file', { mode: 0o600, uid: 5, gid: 6, mtime, ...change }));
    await sink.finish();
    await using reader = await ErofsReader.open(image);
    const found = await reader.entry((await reader.find('f')) ?? expect.fail('f is not there'), 'f');
    expect(found).toMatchObject({ size: 2, mode: 0o600, uid: 5, gid: 6, mtime });
    return found;
  };

  it.each<[readonly string[], readonly string[] | undefined, readonly string[]]>([
    [['user.a', 'security.capability'], undefined, ['user.a']],
    [['user.a'], ['user.b'], ['user.a', 'user.b']],
    [['security.capability'], ['security.capability'], ['security.capability']],
    [[], ['user.b'], ['user.b']],
  ])('with %j and then %j it has %j', async (before, after, wanted) => {
    expect([...((await stamped(before, after)).xattrs?.keys() ?? [])]).toEqual(wanted);
  });

  it('with no attribute left it has none', async () => {
    expect(await stamped(['security.capability'])).not.toHaveProperty('xattrs');
  });

  it('a directory is told of again', async () => {
    const sink = await openErofsSink(image);
    await put(sink, entry('d', 'directory', { mode: 0o755 }));
    await put(sink, entry('d', 'directory', { mode: 0o700, uid: 5 }));
    await put(sink, entry('.', 'directory', { mode: 0o711 }));
    await sink.finish();
    await using reader = await ErofsReader.open(image);
    expect(await reader.find('d')).toMatchObject({ kind: 'directory', mode: 0o700, uid: 5, links: 2 });
    expect(await reader.root).toMatchObject({ mode: 0o711, links: 3 });
  });
});

describe('attributes can be copied', () => {
  /** 36 bytes, and 16 for each besides name and value. */
  it.each<[string, ReadonlyMap<string, Buffer> | undefined, number]>([
    ['none', undefined, 0],
    ['no entry', new Map(), 0],
    ['a short one', new Map([['user.a', Buffer.alloc(1)]]), 36 + 16 + 4 + 4],
    ['one of whole words', new Map([['user.abcd', Buffer.alloc(8)]]), 36 + 16 + 4 + 8],
    ['one of a byte more', new Map([['user.abcde', Buffer.alloc(9)]]), 36 + 16 + 8 + 12],
    ['one without a value', new Map([['user.a.b', Buffer.alloc(0)]]), 36 + 16 + 4],
    [
      'two',
      new Map([
        ['user.a', Buffer.alloc(1)],
        ['security.abcdef', Buffer.alloc(5)],
      ]),
      36 + 24 + 16 + 8 + 8,
    ],
  ])('where the file system has room for %s', (_what, xattrs, bytes) => {
    assertCopyable(xattrs, bytes);
    if (bytes > 0)
      expect(() => assertCopyable(xattrs, bytes - 1)).toThrow(
        'the layer has a file whose attributes would not be copied with it',
      );
  });

  it('and their names are neither empty nor too long', () => {
    const one = (name: string): ReadonlyMap<string, Buffer> => new Map([[name, Buffer.alloc(1)]]);
    assertCopyable(one('user.a.'), 4000);
    assertCopyable(one(`user.${'n'.repeat(250)}`), 4000);
    expect(() => assertCopyable(one('user.'), 4000)).toThrow('the layer has an attribute with an empty name');
    expect(() => assertCopyable(one(`user.${'n'.repeat(251)}`), 4000)).toThrow(
      'the layer has an attribute whose name is longer than 255 bytes',
    );
  });

  it('which is asked without an error', () => {
    const sized = (size: number): ReadonlyMap<string, Buffer> => new Map([['user.a', Buffer.alloc(size)]]);
    expect(MOST_XATTR_BYTES).toBe(4000);
    expect([undefined, sized(3944), sized(3945)].map((xattrs) => isCopyable(xattrs))).toEqual([
      true,
      true,
      false,
    ]);
    const broken = new Map([['user.a', undefined as unknown as Buffer]]);
    expect(() => isCopyable(broken)).toThrow(TypeError);
  });
});

describe('an image is read', () => {
  beforeEach(async () => {
    const sink = await openErofsSink(image);
    await put(sink, entry('d', 'directory'));
    await put(sink, entry('d/f', 'file', { size: 5 }), 'hello');
    await put(sink, entry('d/l', 'symlink', { linkPath: 'f' }));
    await put(sink, entry('d/c', 'char', { devMajor: 5, devMinor: 1 }));
    await put(sink, entry('d/b', 'block', { devMajor: 7, devMinor: 2 }));
    await put(sink, entry('big', 'file', { size: 5000 }), 'x'.repeat(5000));
    await sink.finish();
  });

  it('by names, whatever dots and slashes stand between them', async () => {
    await using reader = await ErofsReader.open(image);
    const kind = async (path: string): Promise<string | undefined> => (await reader.find(path))?.kind;
    expect(
      await Promise.all(
        ['', '.', '/', 'd', './d/', '/d//./f', 'd/l', 'd/l/x', 'd/f/x', 'x', 'd/x'].map(kind),
      ),
    ).toEqual([
      'directory',
      'directory',
      'directory',
      'directory',
      'directory',
      'file',
      'symlink',
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    expect((await reader.names(await reader.root)).map(({ name }) => name)).toEqual(['big', 'd']);
  });

  it('with what each kind has', async () => {
    await using reader = await ErofsReader.open(image);
    const read = async (path: string): Promise<TarEntry> =>
      await reader.entry((await reader.find(path)) ?? expect.fail(path), path);
    expect(await read('d/f')).toEqual(entry('d/f', 'file', { size: 5 }));
    expect(await read('d/l')).toEqual(entry('d/l', 'symlink', { linkPath: 'f' }));
    expect(await read('d/c')).toEqual(entry('d/c', 'char', { devMajor: 5, devMinor: 1 }));
    expect(await read('d/b')).toEqual(entry('d/b', 'block', { devMajor: 7, devMinor: 2 }));
    expect(await read('d')).toEqual(entry('d', 'directory'));
  });

  it('and nothing outside of it', async () => {
    {
      await using reader = await ErofsReader.open(image);
      expect(await said(reader.child({ name: 'f', nid: 2 ** 60 }))).toContain(': it leads outside of itself');
      expect(await said(reader.child({ name: 'f', nid: 2 ** 30 }))).toContain(': it is cut short');
    }
    await truncate(image, 3 * BLOCK);
    {
      await using reader = await ErofsReader.open(image);
      expect(await said(reader.root)).toContain(': it is cut short');
    }
    await truncate(image, BLOCK - 1);
    expect(await said(ErofsReader.open(image))).toContain(': it is no EROFS image');
  });
});
