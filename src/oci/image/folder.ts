import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { isSkycapError, kernelError } from '../../kernel/index.ts';
import { diskError, openBeneath } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import {
  type ByteString,
  dropDefaultList,
  encodeEntry,
  endOfArchive,
  isCopyable,
  keepsAcls,
  openSink,
  PlainSink,
  packFolder,
  padding,
  plainMode,
  readTar,
  showPath,
  type TarEntry,
  unpackLayer,
} from '../layer/index.ts';
import { type FileNode, type FileTree, type LayerInput, readTree } from './file-tree.ts';
import { mergeLayers } from './merge.ts';

/**
 * Who a folder's owners are: `image` where they, modes, attributes and devices are those of the image, which takes
 * root, and `user` where everything is the user's, and the image is the model that says what it was.
 */
export type FolderOwners = 'image' | 'user';

export interface FolderOptions {
  readonly owners: FolderOwners;
  readonly signal: AbortSignal;
}

/**
 * The files of an image in one folder, as a container would see them. As `user` there are files, folders and links,
 * never closed to that user; devices and pipes are left out.
 *
 * @param layers Lowest first.
 * @param folder Is empty, or made in a folder that is there.
 * @throws OCI_LAYER_WRITE where it cannot be made; what `readTree` and `unpackLayer` throw
 */
export async function unpackImage(
  layers: readonly LayerInput[],
  folder: string,
  { owners, signal }: FolderOptions,
): Promise<{ readonly entries: number }> {
  await makeFolder(folder);
  if (owners === 'image') await dropDefaultList(folder);
  const sink = owners === 'image' ? await openSink(folder) : new PlainSink(folder);
  const merged = mergeLayers(layers, { signal, keepWhiteouts: false });
  const { entries } = await unpackLayer(merged, sink, { map: undefined, signal });
  return { entries };
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o755 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    const coded = diskError(error, path);
    if (isSkycapError(coded)) throw coded;
    throw ociError('OCI_LAYER_WRITE', `${path} could not be made (${code ?? 'unknown reason'})`, {
      hint: 'name a folder in one that is there and that you may write to',
      cause: error,
    });
  }
}

/** One path of the folder, as the image would have it. */
interface Found {
  readonly entry: TarEntry;
  /** SHA-256 of a file's content. */
  readonly content: string;
  /** The name that comes first of those that one file has. */
  readonly file: ByteString;
}

/**
 * What was changed in a folder that `unpackImage` made, as a layer above the image: content, kinds, link targets,
 * modes and, with the owners of the image, owners and attributes. Times alone are no change, and neither is a file
 * that took the place of a second name of an equal one.
 *
 * @returns undefined where nothing was changed
 * @throws OCI_LAYER_WRITE where the folder cannot be read or changes meanwhile; what `readTree` throws
 */
export async function changedLayer(
  layers: readonly LayerInput[],
  folder: string,
  options: FolderOptions,
): Promise<AsyncIterable<Buffer> | undefined> {
  const before = await readTree(layers, { signal: options.signal, hash: true });
  const after = await readFolder(folder, before, options);
  const changed = changedPaths(before, after, await showsAcls(folder, after));
  const removed = removedPaths(before, after);
  if (changed.size === 0 && removed.length === 0) return undefined;
  return writeLayer(folder, { before, after, changed, removed });
}

async function readFolder(
  folder: string,
  before: FileTree,
  { owners, signal }: FolderOptions,
): Promise<ReadonlyMap<ByteString, Found>> {
  const found = new Map<ByteString, Found>();
  for await (const { entry, body } of readTar(packFolder(folder))) {
    if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while a folder was read');
    const path = entry.path.replace(/\/+$/, '');
    if (path.slice(path.lastIndexOf('/') + 1).startsWith('.wh.')) throw looksDeleted(path);
    const file = entry.type === 'link' ? found.get(entry.linkPath) : undefined;
    if (file !== undefined) {
      found.set(path, { ...file, entry: { ...file.entry, path } });
      continue;
    }
    const hash = createHash('sha256');
    for await (const part of body) hash.update(part);
    const own = owners === 'user' ? ofImage(entry, before.get(path)?.entry) : kept(entry);
    found.set(path, { entry: { ...own, path }, content: hash.digest('hex'), file: path });
  }
  if (owners === 'user') addLeftOut(found, before);
  return found;
}

/** What an ordinary user's folder cannot say of a file is as it was; what is new is the container's root's. */
function ofImage({ xattrs: _xattrs, ...entry }: TarEntry, was: TarEntry | undefined): TarEntry {
  if (was === undefined || was.type !== entry.type) return { ...entry, uid: 0, gid: 0 };
  const plain = plainMode(was);
  const mode = (entry.mode & 0o777) === plain ? was.mode : (was.mode & 0o7000) | (entry.mode & 0o777);
  const { uid, gid, xattrs } = was;
  return { ...entry, mode, uid, gid, ...(xattrs === undefined ? {} : { xattrs }) };
}

/** Attributes that a layer may have (docs/layers.md, L19). */
const KEPT = /^(user\.(?!overlay\.)|security\.capability$|system\.posix_acl_)/;

function kept({ xattrs, ...entry }: TarEntry): TarEntry {
  const left = new Map([...(xattrs ?? [])].filter(([name]) => KEPT.test(name)));
  return left.size === 0 ? entry : { ...entry, xattrs: left };
}

/** Devices and pipes are in no folder of an ordinary user: they are still there, as long as nothing else is. */
function addLeftOut(found: Map<ByteString, Found>, before: FileTree): void {
  for (const [path, { entry }] of before) {
    if (!['char', 'block', 'fifo'].includes(entry.type) || found.has(path)) continue;
    const parent = parentOf(path);
    if (parent === '' || found.get(parent)?.entry.type === 'directory')
      found.set(path, { entry, content: '', file: path });
  }
}

/** Whether a list that is not there was taken away. */
async function showsAcls(folder: string, after: ReadonlyMap<ByteString, Found>): Promise<boolean> {
  for (const { entry } of after.values()) if ([...(entry.xattrs?.keys() ?? [])].some(isAcl)) return true;
  return await keepsAcls(folder);
}

const isAcl = (name: string): boolean => name.startsWith('system.');

function changedPaths(
  before: FileTree,
  after: ReadonlyMap<ByteString, Found>,
  withAcls: boolean,
): ReadonlySet<ByteString> {
  const changed = new Set<ByteString>();
  const files = new Set<ByteString>();
  for (const [path, found] of after) {
    const was = before.get(path);
    if (was !== undefined && isSame(was, found, withAcls)) continue;
    changed.add(path);
    files.add(found.file);
  }
  // A hard link cannot lead to a layer below, so all names of a file come along.
  for (const [path, { file, entry }] of after)
    if (entry.type !== 'directory' && files.has(file)) changed.add(path);
  return changed;
}

function isSame(
  { entry: was, content }: FileNode,
  { entry, content: now }: Found,
  withAcls: boolean,
): boolean {
  if (was.type !== entry.type) return false;
  if (was.type === 'symlink') return was.linkPath === entry.linkPath && sameOwner(was, entry);
  if (was.type === 'file' && (was.size !== entry.size || content !== now)) return false;
  if (was.devMajor !== entry.devMajor || was.devMinor !== entry.devMinor) return false;
  return was.mode === entry.mode && sameOwner(was, entry) && sameXattrs(was.xattrs, entry.xattrs, withAcls);
}

function sameOwner(a: TarEntry, b: TarEntry): boolean {
  return a.uid === b.uid && a.gid === b.gid;
}

function sameXattrs(was: TarEntry['xattrs'], now: TarEntry['xattrs'], withAcls: boolean): boolean {
  if (!isCopyable(was)) return true;
  const text = (xattrs: TarEntry['xattrs']): string =>
    [...(xattrs ?? [])]
      .filter(([name]) => withAcls || !isAcl(name))
      .map(([name, value]) => `${name}=${value.toString('hex')}`)
      .toSorted()
      .join();
  return text(was) === text(now);
}

/** The topmost of what is gone; below what is no folder any more nothing has to be said. */
function removedPaths(before: FileTree, after: ReadonlyMap<ByteString, Found>): readonly ByteString[] {
  return [...before.keys()].filter((path) => {
    if (path === '' || after.has(path)) return false;
    const parent = parentOf(path);
    return parent === '' || after.get(parent)?.entry.type === 'directory';
  });
}

interface Changes {
  readonly before: FileTree;
  readonly after: ReadonlyMap<ByteString, Found>;
  readonly changed: ReadonlySet<ByteString>;
  readonly removed: readonly ByteString[];
}

async function* writeLayer(folder: string, changes: Changes): AsyncGenerator<Buffer> {
  const { before, after, changed, removed } = changes;
  const named = new Set<ByteString>();
  for (const path of [...changed, ...removed.map(whiteoutOf)])
    for (let at = path; at !== ''; at = parentOf(at)) named.add(at);
  const written = new Map<ByteString, ByteString>();
  for (const path of [...named].sort()) {
    const found = after.get(path);
    if (found === undefined) {
      yield encodeEntry(whiteout(path));
      continue;
    }
    // A folder on the way to a change is named, for a layer's folder hides what those below say of it.
    const entry = changed.has(path) ? found.entry : (before.get(path)?.entry ?? found.entry);
    const first = written.get(found.file);
    if (entry.type !== 'directory' && first !== undefined) {
      const { xattrs: _first, ...rest } = entry;
      yield encodeEntry({ ...rest, path, type: 'link', size: 0, linkPath: first });
      continue;
    }
    written.set(found.file, path);
    yield encodeEntry({ ...entry, path });
    if (entry.type !== 'file') continue;
    yield* contentOf(folder, entry);
    yield padding(entry.size);
  }
  yield endOfArchive();
}

async function* contentOf(folder: string, { path, size }: TarEntry): AsyncGenerator<Buffer> {
  let left = size;
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW;
  await using handle = await openBeneath(folder, Buffer.from(path, 'latin1'), flags).catch(
    (cause: unknown) => {
      throw unsteady(path, cause);
    },
  );
  for await (const part of handle.createReadStream({ autoClose: false, highWaterMark: 1 << 20 })) {
    left -= (part as Buffer).length;
    if (left < 0) break;
    yield part as Buffer;
  }
  if (left !== 0) throw unsteady(path, undefined);
}

function unsteady(path: ByteString, cause: unknown): Error {
  return ociError('OCI_LAYER_WRITE', `${showPath(path)} could not be read as it was a moment ago`, {
    hint: 'nothing may change the folder while it is packed',
    cause,
  });
}

function looksDeleted(path: ByteString): Error {
  return ociError('OCI_EDIT_INVALID', `no image can have ${showPath(path)}: such a name means a deletion`, {
    hint: 'give it a name that does not begin with .wh.',
  });
}

function whiteout(path: ByteString): TarEntry {
  const mtime = { seconds: 0, nanos: 0 };
  const owner = { uid: 0, gid: 0, devMajor: 0, devMinor: 0 };
  return { path, type: 'file', mode: 0o644, size: 0, mtime, linkPath: '', ...owner };
}

function whiteoutOf(path: ByteString): ByteString {
  const slash = path.lastIndexOf('/') + 1;
  return `${path.slice(0, slash)}.wh.${path.slice(slash)}`;
}

function parentOf(path: ByteString): ByteString {
  const slash = path.lastIndexOf('/');
  return slash === -1 ? '' : path.slice(0, slash);
}
