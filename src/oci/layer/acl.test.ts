import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, stat, statfs, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { directory, file, symlink } from '../../testkit/layers/index.ts';
import { ACCESS_LIST, DEFAULT_LIST, dropDefaultList, keepAcl, keepsAcls, withIds } from './acl.ts';
import type { TarEntry } from './entry.ts';

vi.mock('node:fs/promises', async (original) => {
  const actual = await original<typeof import('node:fs/promises')>();
  return { ...actual, statfs: vi.fn(actual.statfs), readFile: vi.fn(actual.readFile) };
});

type Entry = readonly [tag: number, rights: number, id?: number];
const NO_ID = 0xffff_ffff;
const [OWNER, USER, GROUP, NAMED_GROUP, MASK, OTHER] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20] as const;

function list(...entries: readonly Entry[]): Buffer {
  const bytes = Buffer.alloc(4 + 8 * entries.length);
  bytes.writeUInt32LE(2, 0);
  for (const [index, [tag, rights, id = NO_ID]] of entries.entries()) {
    bytes.writeUInt16LE(tag, 4 + 8 * index);
    bytes.writeUInt16LE(rights, 6 + 8 * index);
    bytes.writeUInt32LE(id, 8 + 8 * index);
  }
  return bytes;
}

const owner: Entry = [OWNER, 6];
const user: Entry = [USER, 7, 7];
const group: Entry = [GROUP, 4];
const mask: Entry = [MASK, 7];
const other: Entry = [OTHER, 0];
const named = list(owner, user, group, mask, other);
const same = (id: number): number => id;

const kept = (value: Buffer, entry: TarEntry = file('f', { mode: 0o670 }), name = ACCESS_LIST) =>
  keepAcl(name, value, { entry, shift: same });

describe('L19 an access control list', () => {
  it('is kept entry by entry, with other ids of those it names', () => {
    const full = (...[a = 0, b = 0, c = 0, d = 0]: readonly number[]): Buffer =>
      list(owner, [USER, 7, a], [USER, 1, b], group, [NAMED_GROUP, 5, c], [NAMED_GROUP, 0, d], mask, other);
    const entry = file('f', { mode: 0o4670 });
    const value = full(9, 8, 70_000, 8);
    const shift = (id: number): number => id + 100;
    expect(keepAcl(ACCESS_LIST, value, { entry, shift })).toEqual(full(109, 108, 70_100, 108));
    expect(withIds(full(109, 108, 70_100, 108), (id) => id - 100)).toEqual(value);
    expect(value).toEqual(full(9, 8, 70_000, 8));
    const without = list(owner, group, mask, other);
    expect(kept(without)).toEqual(without);
  });

  it('of one whom nobody names has no id', () => {
    const ids = list([OWNER, 6, 0], user, [GROUP, 4, 1], [MASK, 7, 2], [OTHER, 0, 3]);
    expect(kept(ids)).toEqual(named);
  });

  it('says of owner, mask and others what the mode says', () => {
    const wanted = list([OWNER, 7], user, group, [MASK, 0], [OTHER, 5]);
    expect(kept(named, file('f', { mode: 0o4705 }))).toEqual(wanted);
    expect(kept(named, directory('d', { mode: 0o705 }))).toEqual(wanted);
  });

  it('for new files is that of a folder, and has nothing to do with its mode', () => {
    const folder = directory('d', { mode: 0o1705 });
    const minimal = list(owner, group, other);
    expect(kept(minimal, folder, DEFAULT_LIST)).toEqual(minimal);
    expect(kept(named, folder, DEFAULT_LIST)).toEqual(named);
    expect(kept(list(owner, user, group, other), folder, DEFAULT_LIST)).toBeUndefined();
    expect(kept(named, file('f'), DEFAULT_LIST)).toBeUndefined();
  });

  it('can be one of a device, and none of a link', () => {
    expect(kept(named, file('n', { type: 'char', mode: 0o670 }))).toEqual(named);
    expect(kept(named, symlink('l', 'f'))).toBeUndefined();
  });

  it.each<[string, Buffer]>([
    ['says no more than the mode', list(owner, group, other)],
    ['is empty', list()],
    ['is no list', Buffer.alloc(3)],
    ['is nothing', Buffer.alloc(0)],
    ['is cut', named.subarray(0, -1)],
    ['is of another version', Buffer.concat([Buffer.from([3]), named.subarray(1)])],
    ['has no owner', list(user, group, mask, other)],
    ['has no group', list(owner, user, mask, other)],
    ['has no others', list(owner, user, group, mask)],
    ['names a user and has no mask', list(owner, user, group, other)],
    ['names a group and has no mask', list(owner, group, [NAMED_GROUP, 7, 7], other)],
    ['names a user that can be nobody', list(owner, [USER, 7, NO_ID], group, mask, other)],
    ['has two owners', list(owner, owner, group, mask, other)],
    ['has two masks', list(owner, group, mask, mask, other)],
    ['is in another order', list(owner, group, user, mask, other)],
    ['has an unknown entry', list(owner, group, mask, other, [0x40, 0])],
    ['has an unknown right', list(owner, [USER, 8, 7], group, mask, other)],
  ])('that %s is none', (_what, value) => {
    expect(kept(value)).toBeUndefined();
  });
});

describe('a file system', () => {
  const keeps = async (type: number, mounts?: string | Error): Promise<boolean> => {
    vi.mocked(statfs).mockResolvedValueOnce({ type } as Awaited<ReturnType<typeof statfs>>);
    if (typeof mounts === 'string') vi.mocked(readFile).mockResolvedValueOnce(mounts);
    else if (mounts !== undefined) vi.mocked(readFile).mockRejectedValueOnce(mounts);
    return await keepsAcls('/some/where');
  };
  const ext4 = '22 1 8:1 / / rw - ext4 /dev/a rw';

  it('of the kinds that have access lists has kept those that were written', async () => {
    for (const type of [0xef53, 0x5846_5342, 0x9123_683e | 0, 0xf2f5_2010, 0x0102_1994])
      expect(await keeps(type, ext4)).toBe(true);
    // NFS and vfat: some do, some do not.
    for (const type of [0x6969, 0x4d44]) expect(await keeps(type)).toBe(false);
    expect(vi.mocked(statfs)).toHaveBeenCalledWith('/some/where');
  });

  it('may have kept none where one is mounted so, or nobody can say', async () => {
    expect(await keeps(0xef53, `${ext4},noacl`)).toBe(false);
    expect(await keeps(0xef53, new Error('no /proc'))).toBe(false);
  });
});

describe.skipIf(process.geteuid?.() !== 0)('a folder that says access lists for new files', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'skycap-acl-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  /** Another program's verdict: lists for new files, and whom the lists name. */
  const shown = (path: string): string => {
    execFileSync('tar', ['-cf', join(folder, 'seen.tar'), '--acls', '--no-recursion', '-C', path, '.']);
    const text = readFileSync(join(folder, 'seen.tar'), 'latin1');
    return [...text.matchAll(/SCHILY\.acl\.default=|user:70000/g)].join(' ');
  };

  it('says none any more, and is as it was in all else', async () => {
    const path = join(folder, 'd');
    await mkdir(path);
    const lists = list([OWNER, 7], [USER, 7, 70_000], [GROUP, 5], [MASK, 7], [OTHER, 5]);
    const { GnuTarSink } = await import('./gnu-tar.ts');
    const sink = new GnuTarSink(path);
    const xattrs = new Map([[DEFAULT_LIST, lists]]);
    await sink.put(directory('.', { mode: 0o755, xattrs }), async () => undefined);
    await sink.finish();
    await chmod(path, 0o2751);
    await utimes(path, 77, 77);
    expect(shown(path)).toBe('SCHILY.acl.default= user:70000');
    await dropDefaultList(path);
    expect(shown(path)).toBe('');
    const { mode, mtimeMs } = await stat(path);
    expect([(mode & 0o7777).toString(8), mtimeMs]).toEqual(['2751', 77_000]);
    await mkdir(join(path, 'new'));
    expect(shown(join(path, 'new'))).toBe('');
  });
});
