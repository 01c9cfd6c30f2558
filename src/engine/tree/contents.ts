import {
  closeSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  futimesSync,
  lchownSync,
  readSync,
  writeSync,
} from 'node:fs';
import { type ArchiveEntry, type PackEntry, packArchive, readArchive } from '../archive.ts';
import { engineError } from '../errors.ts';
import type { WorkspaceEntry } from '../port.ts';
import { descend, Folder, type Owner, parts } from './folder.ts';

const CHUNK = 1 << 16;
/** Setuid and setgid say something about the owner on this host, which no archive may. */
const MODE_BITS = 0o1777;

/**
 * Unpacks below `root`; all becomes `owner`'s. Components that are links are an error and never followed.
 *
 * @throws ENGINE_ARCHIVE_INVALID
 */
export async function unpackInto(
  root: string,
  archive: AsyncIterable<Uint8Array>,
  owner: Owner,
): Promise<void> {
  for await (const entry of readArchive(archive)) {
    if (entry.path === '') continue;
    const names = parts(entry.path);
    const name = names.pop() as string;
    using folder = enter(root, names, owner);
    if (entry.type === 'directory') unpackFolder(folder, name, entry, owner);
    else {
      folder.remove(name);
      await unpackEntry(folder, name, entry, { root, owner });
    }
  }
}

function unpackFolder(folder: Folder, name: string, entry: ArchiveEntry, owner: Owner): void {
  const there = folder.stat(name);
  if (there !== undefined && !there.isDirectory()) folder.remove(name);
  if (there?.isDirectory() === true) folder.chmodChild(name, entry.mode & MODE_BITS);
  else folder.makeChild(name, entry.mode & MODE_BITS, owner)[Symbol.dispose]();
}

async function unpackEntry(
  folder: Folder,
  name: string,
  entry: ArchiveEntry,
  target: { readonly root: string; readonly owner: Owner },
): Promise<void> {
  if (entry.type === 'symlink') {
    folder.symlink(name, entry.linkTarget);
    lchownSync(folder.at(name), target.owner.uid, target.owner.gid);
    return;
  }
  if (entry.type === 'hardlink') {
    const names = parts(entry.linkTarget);
    const linked = names.pop() as string;
    using from = descend(target.root, names);
    if (from === undefined || names.includes('..') || from.stat(linked)?.isFile() !== true) {
      throw engineError(
        'ENGINE_ARCHIVE_INVALID',
        `${entry.path} is a hard link to ${entry.linkTarget}, which is not there`,
      );
    }
    folder.hardLink(name, from, linked);
    return;
  }
  if (entry.type !== 'file') {
    throw engineError(
      'ENGINE_ARCHIVE_INVALID',
      `${entry.path} is a ${entry.type}, which a workspace may not be given`,
    );
  }
  const fd = folder.createFile(name);
  try {
    for await (const chunk of entry.content) {
      for (let done = 0; done < chunk.length; ) done += writeSync(fd, chunk, done);
    }
    fchownSync(fd, target.owner.uid, target.owner.gid);
    fchmodSync(fd, entry.mode & MODE_BITS);
    if (Number.isFinite(entry.mtime)) futimesSync(fd, entry.mtime, entry.mtime);
  } finally {
    closeSync(fd);
  }
}

/** The folder at `names`, made where it is missing. */
function enter(root: string, names: readonly string[], owner: Owner): Folder {
  let folder = Folder.open(root);
  for (const [index, name] of names.entries()) {
    using above = folder;
    const there = above.stat(name);
    if (there !== undefined && !there.isDirectory()) {
      throw engineError(
        'ENGINE_ARCHIVE_INVALID',
        `${names.slice(0, index + 1).join('/')} is no folder, and links are not followed`,
      );
    }
    folder = there === undefined ? above.makeChild(name, 0o755, owner) : above.child(name);
  }
  return folder;
}

export interface WalkedEntry {
  /** Relative to the root of the walk. */
  readonly path: string;
  readonly folder: Folder;
  readonly name: string;
}

/** Every entry at and below the given relative paths, folders before what is in them, links not followed. */
export function* walk(root: string, from: readonly string[] = []): Generator<WalkedEntry> {
  if (from.length === 0) {
    using folder = Folder.open(root);
    yield* walkFolder(folder, '');
    return;
  }
  const name = from.at(-1) as string;
  using folder = descend(root, from.slice(0, -1));
  if (folder === undefined || folder.stat(name) === undefined) return;
  const path = from.join('/');
  yield { path, folder, name };
  using inner = folder.childIfAny(name);
  if (inner !== undefined) yield* walkFolder(inner, path);
}

function* walkFolder(folder: Folder, at: string): Generator<WalkedEntry> {
  for (const name of folder.names()) {
    const path = at === '' ? name : `${at}/${name}`;
    yield { path, folder, name };
    using inner = folder.childIfAny(name);
    if (inner !== undefined) yield* walkFolder(inner, path);
  }
}

/** The given paths as an archive; `hidden` says which entries are no content. */
export function packFrom(
  root: string,
  paths: readonly string[],
  hidden: (entry: WalkedEntry) => boolean = () => false,
): AsyncIterable<Uint8Array> {
  return packArchive(entriesOf(root, paths, hidden));
}

function* entriesOf(
  root: string,
  paths: readonly string[],
  hidden: (entry: WalkedEntry) => boolean,
): Iterable<PackEntry> {
  const links = new Map<string, string>();
  for (const wanted of paths) {
    for (const entry of walk(root, parts(wanted))) {
      if (hidden(entry)) continue;
      const { path, folder, name } = entry;
      const stat = folder.stat(name);
      if (stat === undefined) continue;
      const common = { path, mode: stat.mode & 0o7777, mtime: Math.floor(stat.mtimeMs / 1000) };
      if (stat.isDirectory()) yield { ...common, type: 'directory' };
      else if (stat.isSymbolicLink()) yield { ...common, type: 'symlink', linkTarget: folder.readLink(name) };
      else if (stat.isFile()) {
        const inode = `${stat.dev}:${stat.ino}`;
        const first = stat.nlink > 1 ? links.get(inode) : undefined;
        if (first !== undefined) yield { ...common, type: 'hardlink', linkTarget: first };
        else {
          links.set(inode, path);
          yield* openedFile(folder, name, common);
        }
      }
    }
  }
}

function* openedFile(folder: Folder, name: string, common: Pick<PackEntry, 'path'>): Iterable<PackEntry> {
  const fd = folder.openFile(name);
  try {
    const stat = fstatSync(fd);
    if (stat.isFile()) yield { ...common, type: 'file', sizeBytes: stat.size, content: fileContent(fd) };
  } finally {
    closeSync(fd);
  }
}

async function* fileContent(fd: number): AsyncIterable<Uint8Array> {
  for (let at = 0; ; ) {
    const buffer = Buffer.allocUnsafe(CHUNK);
    const read = readSync(fd, buffer, 0, CHUNK, at);
    if (read === 0) return;
    at += read;
    yield buffer.subarray(0, read);
  }
}

/**
 * Every entry. The fingerprint is made of what the kernel alone writes (inode, ctime) and of size, mode and mtime:
 * a container cannot set its ctime back, so equal fingerprints mean equal content without reading it.
 */
export function snapshotOf(root: string, hidden: (entry: WalkedEntry) => boolean): readonly WorkspaceEntry[] {
  const entries: WorkspaceEntry[] = [];
  for (const entry of walk(root)) {
    if (hidden(entry)) continue;
    const stat = entry.folder.bigStat(entry.name);
    if (stat === undefined) continue;
    const type = stat.isFile()
      ? 'file'
      : stat.isDirectory()
        ? 'directory'
        : stat.isSymbolicLink()
          ? 'symlink'
          : 'other';
    const link = type === 'symlink' ? `:${entry.folder.readLink(entry.name)}` : '';
    // A folder's times change with its entries, which stand for themselves.
    const times = type === 'directory' ? '' : `:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
    entries.push({
      path: entry.path,
      type,
      sizeBytes: type === 'file' ? Number(stat.size) : 0,
      mode: Number(stat.mode) & 0o7777,
      fingerprint: `${stat.ino}:${stat.mode}${times}${link}`,
    });
  }
  return entries;
}

export function removeFrom(root: string, paths: readonly string[]): void {
  for (const path of paths) {
    const names = parts(path);
    const name = names.pop();
    if (name === undefined || names.includes('..')) continue;
    using folder = descend(root, names);
    folder?.remove(name);
  }
}

/** Gives everything below `root` to `owner`; links are changed themselves. */
export function giveTo(root: string, owner: Owner): void {
  for (const { folder, name } of walk(root)) {
    const stat = folder.stat(name);
    if (stat !== undefined && (stat.uid !== owner.uid || stat.gid !== owner.gid)) {
      lchownSync(folder.at(name), owner.uid, owner.gid);
      // chown clears these bits for ordinary users only.
      if (!stat.isSymbolicLink() && (stat.mode & 0o6000) !== 0)
        folder.chmodChild(name, stat.mode & MODE_BITS);
    }
  }
}
