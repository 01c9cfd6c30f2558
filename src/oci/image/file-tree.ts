import { createHash } from 'node:crypto';
import { kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import {
  type ByteString,
  type CheckedEntry,
  DEFAULT_LIMITS,
  decompress,
  emptyVolume,
  grow,
  LayerChecker,
  type LayerLimits,
  showPath,
  type TarEntry,
  TarReader,
} from '../layer/index.ts';
import { digestParts } from '../names/index.ts';
import type { Digest } from '../types.ts';

const SHA256 = { algorithm: 'sha256' } as const;

/** One file of an image as its container would see it. */
export interface FileNode {
  readonly entry: TarEntry;
  /** The layer that it is from, counted from 0 below. */
  readonly layer: number;
  /** Which entry of that layer; hard links of one file share layer and ordinal. */
  readonly ordinal: number;
  /** SHA-256 of the content; of regular files only, and only where it was asked for. */
  readonly content?: string;
  /** Of a directory: it hides what lower layers have there. Only in trees that keep whiteouts. */
  readonly opaque?: boolean;
}

/** Files by path (byte strings, no leading slash; the root is the empty string), parents first. */
export type FileTree = ReadonlyMap<ByteString, FileNode>;

/** The bytes of one layer blob, in any compression that layers have. */
export interface LayerInput {
  readonly diffId: Digest | undefined;
  open(): AsyncIterable<Uint8Array>;
}

export interface ReadTreeOptions {
  readonly signal: AbortSignal;
  /** Take the digest of each file's content. */
  readonly hash?: boolean;
  /** Keep what says "deleted below": for merging some layers of an image and not those under them. */
  readonly keepWhiteouts?: boolean;
  readonly limits?: LayerLimits;
}

const OPAQUE = 'trusted.overlay.opaque';

interface Folder {
  node: FileNode | undefined;
  readonly children: Map<ByteString, Folder | FileNode>;
}

/** A deletion, as the checks of layers write it: overlayfs's character device 0:0. */
export function isWhiteout(entry: TarEntry): boolean {
  return entry.type === 'char' && entry.devMajor === 0 && entry.devMinor === 0;
}

/**
 * What an image's files come to when its layers are put on each other (image-spec, layer.md, "Applying Changesets"),
 * read from untrusted layers through the same checks as unpacking. Nothing is written. Memory: one entry a path.
 *
 * @param layers Lowest first.
 * @throws OCI_LAYER_INVALID, OCI_LAYER_UNSAFE, OCI_LAYER_LIMIT, OCI_LAYER_DIFFID, CANCELLED
 */
export async function readTree(layers: readonly LayerInput[], options: ReadTreeOptions): Promise<FileTree> {
  const root: Folder = { node: undefined, children: new Map() };
  for (const [layer, input] of layers.entries()) await addLayer(root, { ...options, input, layer });
  return flat(root);
}

async function addLayer(
  root: Folder,
  given: ReadTreeOptions & { readonly input: LayerInput; readonly layer: number },
): Promise<void> {
  const own = new Map<ByteString, FileNode>();
  const keepWhiteouts = given.keepWhiteouts === true;
  const lower = (path: ByteString): ReturnType<typeof find> => {
    const found = find(root, path);
    if (found === undefined && keepWhiteouts) throw linksBelow(path);
    return found;
  };
  for await (const item of checkedEntries(given.input, given, lower)) {
    const { entry } = item.checked;
    const path = entry.path === '.' ? '' : entry.path;
    if (item.checked.restamp === true) {
      restamp(root, own, { entry, path });
      continue;
    }
    const opaque = entry.type === 'directory' && entry.xattrs?.has(OPAQUE) === true;
    const target = item.from ?? (entry.type === 'link' ? own.get(entry.linkPath) : undefined);
    const hashed = target === undefined && entry.type === 'file' && given.hash === true;
    const content = hashed ? await digestBody(item.body) : undefined;
    const node: FileNode = target ?? {
      entry: opaque ? withoutOpaque(entry) : entry,
      layer: given.layer,
      ordinal: item.ordinal,
      ...(content === undefined ? {} : { content }),
    };
    if (entry.type !== 'directory') own.set(path, node);
    if (isWhiteout(entry) && !keepWhiteouts) remove(root, path);
    else {
      const clearing = opaque ? given.layer : undefined;
      place(root, path, { node, implied: item.implied, clearing, keepWhiteouts });
    }
  }
}

/** A hard link told other attributes of its file: all names of the file in this layer have them. */
function restamp(
  root: Folder,
  own: Map<ByteString, FileNode>,
  { entry, path }: { readonly entry: TarEntry; readonly path: ByteString },
): void {
  const before = own.get(path);
  if (before === undefined) return;
  const { mode, uid, gid, mtime, xattrs } = entry;
  for (const [name, node] of own) {
    if (node.layer !== before.layer || node.ordinal !== before.ordinal) continue;
    const changed = { ...node.entry, mode, uid, gid, mtime, ...(xattrs === undefined ? {} : { xattrs }) };
    const after: FileNode = { ...node, entry: changed };
    own.set(name, after);
    place(root, name, { node: after, implied: false, clearing: undefined, keepWhiteouts: false });
  }
}

export interface ReadEntry {
  readonly checked: CheckedEntry;
  /** Counts the entries that the checks gave, whiteouts and implied directories included. */
  readonly ordinal: number;
  /** A directory that the layer does not name, and that is needed for what it names. */
  readonly implied: boolean;
  /** Set where the layer links to a file of a lower layer: that file. */
  readonly from?: FileNode;
  readonly body: () => AsyncIterable<Buffer>;
}

/**
 * The entries of one layer as they may be written, with hard links into lower layers left as links. The whole blob
 * is read and its diffID compared at the end.
 */
export async function* checkedEntries(
  input: LayerInput,
  options: Pick<ReadTreeOptions, 'signal' | 'limits'>,
  lower: (path: ByteString) => { readonly path: ByteString; readonly node: FileNode } | undefined,
): AsyncGenerator<ReadEntry> {
  const limits = options.limits ?? DEFAULT_LIMITS;
  const { algorithm } = input.diffId === undefined ? SHA256 : digestParts(input.diffId);
  const hash = createHash(algorithm);
  const { signal } = options;
  const volume = emptyVolume();
  async function* tapped(): AsyncGenerator<Buffer> {
    for await (const chunk of decompress(input.open(), limits, volume)) {
      if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while a layer was read');
      hash.update(chunk);
      yield chunk;
    }
  }
  const borrowed = new Map<unknown, FileNode>();
  const checker = new LayerChecker({
    map: undefined,
    limits,
    lower: async (path) => {
      const found = lower(path);
      if (found === undefined || found.node.entry.type === 'directory') return undefined;
      const body = async function* (): AsyncGenerator<Buffer> {};
      borrowed.set(body, found.node);
      return { path: found.path, entry: { ...found.node.entry, path: found.path }, body };
    },
  });
  const reader = new TarReader(tapped(), limits);
  let ordinal = 0;
  const give = (checked: CheckedEntry, implied: boolean): ReadEntry => {
    const from = checked.body === undefined ? undefined : borrowed.get(checked.body);
    return {
      checked,
      implied: implied && checked.entry.type === 'directory',
      ordinal: ordinal++,
      ...(from === undefined ? {} : { from }),
      body: () => reader.body(),
    };
  };
  try {
    for (let entry = await reader.next(); entry !== undefined; entry = await reader.next()) {
      const all = await checker.take(entry);
      if (reader.isSparse) grow(volume, entry.size - reader.stored.length, limits);
      for (const [at, checked] of all.entries()) yield give(checked, at < all.length - 1);
    }
    for (const checked of checker.finish()) yield give(checked, looksImplied(checked.entry));
    await reader.drain();
  } finally {
    await reader.close();
  }
  const diffId = `${algorithm}:${hash.digest('hex')}`;
  if (input.diffId === undefined || diffId === input.diffId) return;
  throw ociError('OCI_LAYER_DIFFID', `a layer unpacks to ${diffId}, and the image declares ${input.diffId}`, {
    hint: 'the image was built wrongly or is hostile; ask its author',
  });
}

function linksBelow(path: ByteString): Error {
  return ociError(
    'OCI_EDIT_INVALID',
    `a layer has a hard link to ${shownPath(path)} of a layer that is to stay`,
    {
      hint: 'merge that layer too',
    },
  );
}

function looksImplied({ mode, uid, gid, mtime }: TarEntry): boolean {
  return mode === 0o755 && uid === 0 && gid === 0 && mtime.seconds === 0 && mtime.nanos === 0;
}

async function digestBody(body: () => AsyncIterable<Buffer>): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of body()) hash.update(chunk);
  return hash.digest('hex');
}

function withoutOpaque(entry: TarEntry): TarEntry {
  const { xattrs, ...rest } = entry;
  const kept = new Map([...(xattrs ?? [])].filter(([name]) => name !== OPAQUE));
  return kept.size === 0 ? rest : { ...rest, xattrs: kept };
}

function isFolder(item: Folder | FileNode | undefined): item is Folder {
  return item !== undefined && 'children' in item;
}

function find(
  root: Folder,
  path: ByteString,
): { readonly path: ByteString; readonly node: FileNode } | undefined {
  let at: Folder | FileNode | undefined = root;
  for (const part of path.split('/')) at = isFolder(at) ? at.children.get(part) : undefined;
  if (at === undefined || isFolder(at) || isWhiteout(at.entry)) return undefined;
  return { path, node: at };
}

function folderOf(root: Folder, path: ByteString): Folder {
  let at = root;
  for (const part of path.split('/').slice(0, -1)) {
    const next = at.children.get(part);
    // A link or file of a lower layer gives way: each layer is a tree of its own for overlayfs and for Docker.
    const folder: Folder = isFolder(next) ? next : { node: undefined, children: new Map() };
    at.children.set(part, folder);
    at = folder;
  }
  return at;
}

interface Placing {
  readonly node: FileNode;
  /** A directory that no entry names: one that is there keeps its attributes. */
  readonly implied: boolean;
  /** The layer that empties the folder; what that layer itself has put there stays. */
  readonly clearing: number | undefined;
  readonly keepWhiteouts: boolean;
}

function place(root: Folder, path: ByteString, { node, implied, clearing, keepWhiteouts }: Placing): void {
  const parent = path === '' ? undefined : folderOf(root, path);
  const name = path.slice(path.lastIndexOf('/') + 1);
  if (node.entry.type !== 'directory') {
    parent?.children.set(name, node);
    return;
  }
  const known = parent === undefined ? root : parent.children.get(name);
  const folder: Folder = isFolder(known) ? known : { node: undefined, children: new Map() };
  if (clearing !== undefined) keepOnly(folder, clearing);
  // A file or deletion hid what is below the merged layers, and the directory in its place has to go on doing so.
  const hides =
    clearing !== undefined || folder.node?.opaque === true || (known !== undefined && !isFolder(known));
  const shown = implied && folder.node !== undefined ? folder.node : node;
  folder.node = hides && keepWhiteouts ? { ...shown, opaque: true } : shown;
  parent?.children.set(name, folder);
}

/** Drops what is not of `layer`; folders that only hold such things go too. */
function keepOnly(folder: Folder, layer: number): void {
  for (const [name, child] of [...folder.children]) {
    if (!isFolder(child)) {
      if (child.layer !== layer) folder.children.delete(name);
      continue;
    }
    keepOnly(child, layer);
    if (child.children.size === 0 && child.node?.layer !== layer) folder.children.delete(name);
  }
}

function remove(root: Folder, path: ByteString): void {
  let at: Folder = root;
  const parts = path.split('/');
  for (const part of parts.slice(0, -1)) {
    const next = at.children.get(part);
    if (!isFolder(next)) return;
    at = next;
  }
  at.children.delete(parts.at(-1) as string);
}

function flat(root: Folder): FileTree {
  const tree = new Map<ByteString, FileNode>();
  const visit = (folder: Folder, path: ByteString): void => {
    if (folder.node !== undefined) tree.set(path, folder.node);
    const prefix = path === '' ? '' : `${path}/`;
    for (const name of [...folder.children.keys()].sort()) {
      const child = folder.children.get(name) as Folder | FileNode;
      if (isFolder(child)) visit(child, prefix + name);
      else tree.set(prefix + name, child);
    }
  };
  visit(root, '');
  return tree;
}

/** `/path` as people write it, for messages and lists; bytes that are no UTF-8 are shown escaped. */
export function shownPath(path: ByteString): string {
  const text = Buffer.from(`/${path}`, 'latin1').toString('utf8');
  return text.includes('\uFFFD') ? showPath(`/${path}`).slice(1, -1) : text;
}
