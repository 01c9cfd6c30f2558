import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import {
  type CheckedOptions,
  checkedBy,
  directory,
  file,
  hardLink,
  implied,
  symlink,
} from '../../testkit/layers/index.ts';
import type { IdMap } from '../port.ts';
import type { TarEntry } from './entry.ts';

// What the checker makes of each entry, attribute by attribute, and what it says where it refuses.
const MAP: IdMap = { hostBase: 1000, size: 100 };
const opaque = (entry: TarEntry): TarEntry => ({
  ...entry,
  xattrs: new Map([...(entry.xattrs ?? []), ['trusted.overlay.opaque', Buffer.from('y')]]),
});

const made = async (entries: readonly TarEntry[], options?: CheckedOptions): Promise<readonly TarEntry[]> =>
  (await checkedBy(entries, options)).out.map(({ entry }) => entry);
const refusal = async (entries: readonly TarEntry[], options?: CheckedOptions): Promise<readonly string[]> =>
  await checkedBy(entries, options).then(
    () => ['taken'],
    (error: Error) => [codeFrom(error), error.message.replace(/^the layer (is refused: )?/, '')],
  );

describe('an entry is handed on', () => {
  it('as it stands, with the ids of the map, under its clean name', async () => {
    const xattrs = new Map([['user.a', Buffer.from('x')]]);
    expect(await made([directory('./'), file('./a//b/../c', { xattrs })])).toEqual([
      directory('.'),
      implied('a'),
      file('a/c', { xattrs }),
    ]);
    expect(await made([file('f'), directory('.')], { map: MAP })).toEqual([
      file('f', { uid: 1001, gid: 1002 }),
      directory('.', { uid: 1001, gid: 1002 }),
    ]);
    expect(Object.keys((await made([file('f')]))[0] ?? {})).not.toContain('xattrs');
  });

  it('with device numbers where it is a device, and every permission where it is a link', async () => {
    const numbers = { devMajor: 7, devMinor: 8, size: 0 };
    const types = ['char', 'block', 'fifo', 'file', 'directory'] as const;
    expect(await made([...types.map((type) => file(type, { ...numbers, type })), directory('.')])).toEqual([
      ...(['char', 'block'] as const).map((type) => file(type, { ...numbers, type })),
      ...(['fifo', 'file', 'directory'] as const).map((type) => file(type, { type, size: 0 })),
      directory('.'),
    ]);
    expect((await made([symlink('s', 'to')]))[0]).toEqual({ ...symlink('s', 'to'), mode: 0o777 });
  });

  it('and counts, whiteouts too, directories that no entry names not', async () => {
    const { checker } = await checkedBy([
      directory('.'),
      file('a/b/c'),
      file('a/.wh.x'),
      hardLink('h', 'a/b/c'),
    ]);
    expect(checker.count).toBe(4);
    expect(checker.opaque).toEqual([]);
  });
});

describe('what no entry names is made', () => {
  it('with 0755 of the container’s root, parents first, the root last', async () => {
    expect(await made([file('a/b/f'), file('a/g')], { map: MAP })).toEqual([
      implied('a', { uid: 1000, gid: 1000 }),
      implied('a/b', { uid: 1000, gid: 1000 }),
      file('a/b/f', { uid: 1001, gid: 1002 }),
      file('a/g', { uid: 1001, gid: 1002 }),
      implied('.', { uid: 1000, gid: 1000 }),
    ]);
  });

  it('and named afterwards keeps what the entry says, once', async () => {
    expect(await made([file('a/f'), directory('a'), directory('.')])).toEqual([
      implied('a'),
      file('a/f'),
      directory('a'),
      directory('.'),
    ]);
    expect(await refusal([file('a/f'), directory('a'), directory('a/')])).toEqual([
      'OCI_LAYER_UNSAFE',
      '"a" is there twice',
    ]);
  });

  it('up to the limit, together with the entries', async () => {
    const files = [file('a/b/f'), directory('a'), file('g')];
    expect(await refusal(files, { limits: { maxEntries: 4 } })).toEqual(['taken']);
    const said = ['OCI_LAYER_LIMIT', 'has more than 3 entries and directories that none names'];
    expect(await refusal(files, { limits: { maxEntries: 3 } })).toEqual(said);
    expect(await refusal([file('a/b/c/f')], { limits: { maxEntries: 3 } })).toEqual(said);
    expect(await refusal([file('a/b/f')], { limits: { maxEntries: 3 } })).toEqual(['taken']);
  });
});

describe('a whiteout', () => {
  it('is a device of the container’s root without a permission', async () => {
    const device = { type: 'char', mode: 0, uid: 1000, gid: 1000 } as const;
    const root = { uid: 1000, gid: 1000 };
    expect(await made([file('b/.wh.y'), file('.wh.x')], { map: MAP })).toEqual([
      implied('b', root),
      implied('b/y', device),
      implied('x', device),
      implied('.', root),
    ]);
  });

  it('of what lies below another is left out, and so is what is below a file', async () => {
    const paths = async (...entries: TarEntry[]): Promise<readonly string[]> =>
      (await made(entries)).map(({ path }) => path);
    expect(await paths(file('d/e/.wh.f'), file('.wh.d'), file('d2/.wh.x'))).toEqual(['d', 'd2', 'd2/x', '.']);
    expect(await paths(file('d/e/.wh..wh..opq'), file('.wh.d'))).toEqual(['d', '.']);
    expect(await paths(file('f'), file('f/.wh.a'), file('f/g/.wh..wh..opq'))).toEqual(['f', '.']);
    expect(await paths(file('.wh..wh.plnk'), file('a/.wh..wh.orph/b'))).toEqual([
      'a',
      'a/.wh..wh.orph',
      'a/.wh..wh.orph/b',
      '.',
    ]);
  });

  it('of a folder of this layer hides what is below it', async () => {
    const { out, checker } = await checkedBy([
      directory('d'),
      file('.wh.d'),
      directory('e'),
      file('e/.wh..wh..opq'),
      directory('.'),
    ]);
    expect(out.map(({ entry }) => entry)).toEqual([
      directory('d'),
      directory('e'),
      directory('.'),
      opaque(directory('e')),
      opaque(directory('d')),
    ]);
    expect(checker.opaque).toEqual(['e', 'd']);
  });

  it.each<[string, TarEntry[], string]>([
    ['.wh. alone', [file('d/.wh.')], '"d/.wh." is no whiteout of anything'],
    ['of .', [file('.wh..')], '".wh.." is no whiteout of anything'],
    ['of ..', [file('.wh...')], '".wh..." is no whiteout of anything'],
    ['twice', [file('d/.wh.x'), file('d/.wh.x')], '"d/.wh.x" is there twice'],
    ['at the root twice', [file('.wh.x'), file('.wh.x')], '".wh.x" is there twice'],
    ['opaque twice', [file('d/.wh..wh..opq'), file('d/.wh..wh..opq')], '"d/.wh..wh..opq" is there twice'],
    [
      'below what became a link',
      [file('d/.wh.x'), symlink('d', '/srv')],
      '"d/x" lies below "d", which is not a directory',
    ],
    ['opaque in place of a file', [file('d/.wh..wh..opq'), file('d')], '"d" is opaque, and not a directory'],
    [
      'opaque in place of a link',
      [file('d/.wh..wh..opq'), symlink('d', 'e')],
      '"d" is opaque, and not a directory',
    ],
    [
      'opaque below a file',
      [file('d/e/.wh..wh..opq'), file('d')],
      '"d/e" lies below "d", which is not a directory',
    ],
  ])('is refused: %s', async (_what, entries, message) => {
    expect(await refusal(entries)).toEqual(['OCI_LAYER_UNSAFE', message]);
  });

  it('whose name becomes too long through a link is refused', async () => {
    const limits = { maxPathBytes: 20 };
    const through = (name: string): TarEntry[] => [
      directory('d'.repeat(12)),
      symlink('l', 'd'.repeat(12)),
      file(`l/.wh.${name}`),
    ];
    expect(await refusal(through('1234567'), { limits })).toEqual(['taken']);
    expect(await refusal(through('12345678'), { limits })).toEqual([
      'OCI_LAYER_LIMIT',
      'has a name of 25 bytes',
    ]);
  });
});

describe('an opaque folder', () => {
  it('keeps its entry’s attributes, and is made with its parents where none names it', async () => {
    const xattrs = new Map([['user.a', Buffer.from('x')]]);
    expect(await made([directory('d', { xattrs }), file('d/.wh..wh..opq'), directory('.')])).toEqual([
      directory('d', { xattrs }),
      directory('.'),
      opaque(directory('d', { xattrs })),
    ]);
    expect(await made([file('a/b/.wh..wh..opq'), directory('.')], { map: MAP })).toEqual([
      directory('.', { uid: 1001, gid: 1002 }),
      implied('a', { uid: 1000, gid: 1000 }),
      opaque(implied('a/b', { uid: 1000, gid: 1000 })),
    ]);
    expect(await made([file('a/b/f'), file('a/b/.wh..wh..opq'), directory('.')])).toEqual([
      implied('a'),
      implied('a/b'),
      file('a/b/f'),
      directory('.'),
      opaque(implied('a/b')),
    ]);
  });

  it('may be the root, with an entry or without', async () => {
    expect(await made([file('.wh..wh..opq')])).toEqual([opaque(implied('.'))]);
    expect(await made([file('.wh..wh..opq'), directory('.')])).toEqual([
      directory('.'),
      opaque(directory('.')),
    ]);
    expect((await checkedBy([file('.wh..wh..opq')])).checker.opaque).toEqual(['']);
  });
});

describe('what is ambiguous is refused in words', () => {
  it.each<[string, TarEntry[], string]>([
    ['the root as a file', [file('.')], 'the root of the layer is a file'],
    ['the root as a link', [symlink('./', '/srv')], 'the root of the layer is a symlink'],
    ['the root twice', [directory('.'), directory('/')], 'the root is there twice'],
    ['a file twice', [file('a/f'), file('a/f')], '"a/f" is there twice'],
    ['a file where a folder is implied', [file('a/f'), file('a')], '"a" is there twice'],
    [
      'the mark of a deletion',
      [file('f', { type: 'char' })],
      '"f" is the character device 0:0, which overlayfs takes for a deletion',
    ],
    ['a link to nothing', [symlink('l', '')], '"l" is a link to nothing'],
    ['a link with a NUL', [symlink('l', 'a\0')], '"l" is a link to nothing'],
    ['a hard link to itself', [file('g'), hardLink('h', 'h')], '"h" is a hard link to itself'],
    ['a hard link to a folder', [directory('d'), hardLink('h', 'd')], '"h" is a hard link to a directory'],
    ['a hard link to the root', [directory('d'), hardLink('h', '/')], '"h" is a hard link to a directory'],
    ['below a file', [file('f'), file('f/g')], '"f/g" lies below "f", which is not a directory'],
  ])('%s', async (_what, entries, message) => {
    expect(await refusal(entries)).toEqual(['OCI_LAYER_UNSAFE', message]);
  });

  it('and what only looks like it is taken', async () => {
    const devices = [
      file('a', { type: 'char', devMajor: 0, devMinor: 1 }),
      file('b', { type: 'char', devMajor: 1, devMinor: 0 }),
      file('c', { type: 'block' }),
    ];
    expect(await refusal(devices)).toEqual(['taken']);
    expect(await refusal([symlink('l', 't'.repeat(4095))])).toEqual(['taken']);
    expect(await refusal([symlink('l', 't'.repeat(4096))])).toEqual([
      'OCI_LAYER_LIMIT',
      'has a link target of 4096 bytes',
    ]);
  });
});
