import { readFile, stat, statfs } from 'node:fs/promises';
import { runProcess } from '../../kernel/system/index.ts';
import type { TarEntry } from './entry.ts';
import { hasGnuTar } from './gnu-tar.ts';
import { tarEnvironment } from './tar-process.ts';
import { encodeEntry, endOfArchive } from './writer.ts';

/** linux/posix_acl_xattr.h: a version, and entries of tag, rights and id. */
const HEADER = 4;
const ENTRY = 8;
const VERSION = 2;
/** What stands for no id, and can be nobody's. */
const NO_ID = 0xffff_ffff;

const OWNER = 0x01;
const USER = 0x02;
const GROUP = 0x04;
const NAMED_GROUP = 0x08;
const MASK = 0x10;
const OTHER = 0x20;
/** In this order, and all but the named at most once. */
const ORDER: readonly number[] = [OWNER, USER, GROUP, NAMED_GROUP, MASK, OTHER];

/** Attributes that hold access control lists (acl(5)). */
export const ACCESS_LIST = 'system.posix_acl_access';
export const DEFAULT_LIST = 'system.posix_acl_default';

/**
 * An access control list as the kernel gives it back of a file that was made with it (fs/posix_acl.c): undefined where
 * it takes none of the kind, or keeps none, for it says no more than the mode does. The mode is what counts where the
 * two differ, as after the chmod with which Docker ends each file.
 *
 * @param shift Gives the id that stands on disk.
 */
export function keepAcl(
  name: string,
  value: Buffer,
  { entry, shift }: { readonly entry: TarEntry; readonly shift: (id: number) => number },
): Buffer | undefined {
  const isDefault = name === DEFAULT_LIST;
  if (entry.type === 'symlink' || (isDefault && entry.type !== 'directory')) return undefined;
  const tags = tagsOf(value);
  if (tags === undefined || (!isDefault && !tags.includes(MASK))) return undefined;
  const kept = Buffer.from(value);
  for (const [index, tag] of tags.entries()) {
    const at = HEADER + index * ENTRY;
    const rights = isDefault ? undefined : rightsOf(tag, entry.mode);
    if (rights !== undefined) kept.writeUInt16LE(rights, at + 2);
    kept.writeUInt32LE(isNamed(tag) ? shift(value.readUInt32LE(at + 4)) : NO_ID, at + 4);
  }
  return kept;
}

/** The same list with other ids of the users and groups that it names. */
export function withIds(value: Buffer, shift: (id: number) => number): Buffer {
  const changed = Buffer.from(value);
  for (let at = HEADER; at + ENTRY <= changed.length; at += ENTRY)
    if (isNamed(changed.readUInt16LE(at))) changed.writeUInt32LE(shift(changed.readUInt32LE(at + 4)), at + 4);
  return changed;
}

const isNamed = (tag: number): boolean => tag === USER || tag === NAMED_GROUP;

/** What the mode says of them; with a mask its group bits are the mask. */
function rightsOf(tag: number, mode: number): number | undefined {
  if (tag === OWNER) return (mode >>> 6) & 7;
  if (tag === MASK) return (mode >>> 3) & 7;
  return tag === OTHER ? mode & 7 : undefined;
}

/** undefined where the kernel refuses the list. */
function tagsOf(value: Buffer): readonly number[] | undefined {
  if (value.length < HEADER || (value.length - HEADER) % ENTRY !== 0) return undefined;
  if (value.readUInt32LE(0) !== VERSION) return undefined;
  const tags: number[] = [];
  let last = -1;
  for (let at = HEADER; at < value.length; at += ENTRY) {
    const tag = value.readUInt16LE(at);
    const place = ORDER.indexOf(tag);
    if (value.readUInt16LE(at + 2) > 7 || place < last || (place === last && !isNamed(tag))) return undefined;
    if (isNamed(tag) && value.readUInt32LE(at + 4) === NO_ID) return undefined;
    last = place;
    tags.push(tag);
  }
  const needed = tags.some(isNamed) ? [OWNER, GROUP, MASK, OTHER] : [OWNER, GROUP, OTHER];
  return needed.every((tag) => tags.includes(tag)) ? tags : undefined;
}

/** linux/magic.h: ext2 to ext4, XFS, Btrfs, F2FS and tmpfs have access control lists unless they are told not to. */
const KEEPING: ReadonlySet<number> = new Set([0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994]);

/** Whether an access list that is not there was taken away: false where the file system may have kept none. */
export async function keepsAcls(folder: string): Promise<boolean> {
  const { type } = await statfs(folder);
  if (!KEEPING.has(type >>> 0)) return false;
  const mounts = await readFile('/proc/self/mountinfo', 'utf8').catch(() => 'noacl');
  return !/\bnoacl\b/.test(mounts);
}

/**
 * Files that are made in a folder have the access lists that it says for new files, and an image's files none but their
 * own: so it is to say none. By GNU tar, for Node has no call for it; without it the folder stays as it is.
 */
export async function dropDefaultList(folder: string): Promise<void> {
  if (process.geteuid?.() !== 0 || !(await hasGnuTar())) return;
  const { mode, uid, gid, mtimeMs } = await stat(folder);
  const mtime = { seconds: Math.floor(mtimeMs / 1000), nanos: 0 };
  const entry = { path: './', type: 'directory', mode: mode & 0o7777, uid, gid, size: 0, mtime } as const;
  const input = Buffer.concat([
    encodeEntry({ ...entry, linkPath: '', devMajor: 0, devMinor: 0 }),
    endOfArchive(),
  ]);
  const args = ['--extract', '--file=-', '--acls', '--numeric-owner', '--preserve-permissions', '-C', folder];
  await runProcess('tar', args, { input, env: tarEnvironment() });
}
