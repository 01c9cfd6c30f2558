import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import {
  type CheckedOptions,
  checkedBy,
  directory,
  file,
  hardLink,
  implied,
  linkAs,
  symlink,
} from '../../testkit/layers/index.ts';
import type { IdMap } from '../port.ts';
import { type CheckedEntry, type LowerFile, NeedsParents } from './check.ts';
import type { TarEntry } from './entry.ts';

// What the checker makes of hard links, into the layer itself and into those below.
const MAP: IdMap = { hostBase: 1000, size: 100 };

const checked = async (
  entries: readonly TarEntry[],
  options?: CheckedOptions,
): Promise<readonly CheckedEntry[]> => (await checkedBy(entries, options)).out;
const made = async (entries: readonly TarEntry[], options?: CheckedOptions): Promise<readonly TarEntry[]> =>
  (await checked(entries, options)).map(({ entry }) => entry);
const refusal = async (entries: readonly TarEntry[], options?: CheckedOptions): Promise<readonly string[]> =>
  await checked(entries, options).then(
    () => ['taken'],
    (error: Error) => [codeFrom(error), error.message.replace(/^the layer (is refused: )?/, '')],
  );

describe('a hard link', () => {
  const stated = { mode: 0o600, uid: 1, gid: 2, mtime: { seconds: 4, nanos: 5 } };

  it('that states what its file has is a name and nothing more', async () => {
    expect(await checked([file('a/f'), hardLink('h', '/a/f'), directory('.')])).toEqual([
      { entry: implied('a') },
      { entry: file('a/f') },
      { entry: linkAs('h', 'a/f') },
      { entry: directory('.') },
    ]);
  });

  it.each<[string, Partial<TarEntry>]>([
    ['mode', { mode: 0o600 }],
    ['owner', { uid: 9 }],
    ['group', { gid: 9 }],
    ['seconds', { mtime: { seconds: 9, nanos: 5 } }],
    ['nanoseconds', { mtime: { seconds: 4, nanos: 9 } }],
    ['attributes', { xattrs: new Map([['user.a', Buffer.from('x')]]) }],
  ])('that states another %s gives its file what it states', async (_what, change) => {
    expect(await checked([file('f'), hardLink('h', 'f', change), directory('.')])).toEqual([
      { entry: file('f') },
      { entry: linkAs('h', 'f') },
      { entry: file('h', { ...change, size: 0, linkPath: 'f' }), restamp: true },
      { entry: directory('.') },
    ]);
  });

  it('keeps the kind of its file, and attributes that are dropped state nothing', async () => {
    const dropped = new Map([['trusted.a', Buffer.from('x')]]);
    expect(await checked([file('f'), hardLink('h', 'f', { xattrs: dropped }), directory('.')])).toHaveLength(
      3,
    );
    const out = await checked([symlink('s', 'to'), hardLink('h', 's', { uid: 9 }), directory('.')]);
    expect(out[2]).toEqual({
      entry: { ...symlink('h', ''), linkPath: 's', mode: 0o777, uid: 9 },
      restamp: true,
    });
    const pipe = await checked([
      file('p', { type: 'fifo', size: 0 }),
      hardLink('h', 'p', stated),
      directory('.'),
    ]);
    expect(pipe[2]?.entry).toMatchObject({ path: 'h', type: 'fifo', mode: 0o600 });
  });

  it('changes the file that it names, and none that only looks like it', async () => {
    const out = await checked([
      file('a'),
      file('b'),
      hardLink('h', 'a', stated),
      hardLink('i', 'b'),
      hardLink('j', 'h', stated),
    ]);
    expect(out.filter(({ restamp }) => restamp === true).map(({ entry }) => entry.path)).toEqual(['h']);
  });
});

describe('a hard link to a layer below', () => {
  const body = async function* (): AsyncGenerator<Buffer> {};
  const below: Readonly<Record<string, TarEntry>> = {
    a: directory('ignored', { mode: 0o700, uid: 7, gid: 8 }),
    'a/b': file('a/b', { uid: 50 }),
    'a/b/f': file('a/b/f', {
      uid: 5,
      xattrs: new Map([
        ['user.a', Buffer.from('x')],
        ['trusted.a', Buffer.from('x')],
      ]),
    }),
    d: directory('d'),
  };
  const lower = async (path: string): Promise<LowerFile | undefined> => {
    const found = path === 'also' ? 'a/b/f' : path;
    const entry = below[found];
    return entry === undefined ? undefined : { path: found, entry, body };
  };
  const borrowed = file('h', { uid: 1005, gid: 1002, xattrs: new Map([['user.a', Buffer.from('x')]]) });

  it('asks for the layers below where they are not known', async () => {
    const error = await checked([hardLink('h', 'a/"b')]).catch((one: unknown) => one);
    expect(error).toBeInstanceOf(NeedsParents);
    expect(error).toMatchObject({ name: 'NeedsParents', message: 'hard link to "a/\\"b" of a lower layer' });
  });

  it('writes the file again, with shifted ids and its folders as they are below', async () => {
    expect(await checked([hardLink('h', 'a/b/f'), directory('.')], { lower, map: MAP })).toEqual([
      { entry: borrowed, body },
      { entry: directory('.', { uid: 1001, gid: 1002 }) },
      { entry: directory('a', { mode: 0o700, uid: 1007, gid: 1008 }) },
      { entry: implied('a/b', { uid: 1000, gid: 1000 }) },
      { entry: linkAs('a/b/f', 'h') },
    ]);
  });

  it('gives back the old name in a folder that this layer has, and only once', async () => {
    const entries = [
      directory('a'),
      hardLink('h', 'also'),
      hardLink('i', 'a/b/f', { uid: 5 }),
      directory('.'),
    ];
    expect((await checked(entries, { lower })).map(({ entry }) => [entry.path, entry.linkPath])).toEqual([
      ['a', ''],
      ['h', ''],
      ['i', 'h'],
      ['.', ''],
      ['a/b', ''],
      ['a/b/f', 'h'],
    ]);
  });

  it('that leads to a file of this layer is a name of that', async () => {
    const out = await checked([file('a/b/f'), hardLink('h', 'also'), directory('.')], { lower });
    expect(out.map(({ entry }) => [entry.path, entry.linkPath])).toEqual([
      ['a', ''],
      ['a/b', ''],
      ['a/b/f', ''],
      ['h', 'a/b/f'],
      ['.', ''],
    ]);
  });

  it.each<[string, TarEntry[], readonly string[]]>([
    ['deletes it', [file('a/b/.wh.f')], ['h', 'a', 'a/b', 'a/b/f', '.']],
    ['deletes its folder', [file('a/.wh.b')], ['h', 'a', 'a/b', '.']],
    ['hides its folder', [directory('a'), file('a/.wh..wh..opq')], ['h', 'a', 'a', '.']],
    ['hides all', [file('.wh..wh..opq')], ['h', '.']],
    ['has a file there', [file('a/b/f')], ['h', 'a', 'a/b', 'a/b/f', '.']],
    ['has a file in the way', [file('a/b')], ['h', 'a', 'a/b', '.']],
    ['has a link in the way', [symlink('a', 'x')], ['h', 'a', '.']],
  ])('does not give the old name back where this layer %s', async (_what, entries, paths) => {
    const out = await made([hardLink('h', 'a/b/f'), ...entries], { lower });
    expect(out.map(({ path }) => path)).toEqual(paths);
    expect(out.filter(({ type }) => type === 'link')).toEqual([]);
  });

  it.each<[string, TarEntry[], string]>([
    ['nothing', [hardLink('h', 'none')], '"h" is a hard link to "none", which is not there'],
    [
      'what this layer deletes',
      [file('a/b/.wh.f'), hardLink('h', 'a/b/f')],
      '"h" is a hard link to "a/b/f", which is not there',
    ],
    ['a folder', [hardLink('h', 'd')], '"h" is a hard link to a directory'],
  ])('is refused where it leads to %s', async (_what, entries, message) => {
    expect(await refusal(entries, { lower })).toEqual(['OCI_LAYER_UNSAFE', message]);
  });

  it('keeps where a later link to it leads, with what that states', async () => {
    const out = await checked([hardLink('h', 'a/b/f'), hardLink('i', 'h', { uid: 9 }), directory('.')], {
      lower,
    });
    expect(out[2]).toMatchObject({ restamp: true, entry: { path: 'i', type: 'file', uid: 9 } });
  });
});
