import { isSkycapError } from '../../kernel/index.ts';
import {
  DEFAULT_LIMITS,
  encodeEntry,
  endOfArchive,
  padding,
  readTar,
  type TarEntry,
  toBytes,
} from '../../oci/layer/index.ts';
import { engineError } from '../errors.ts';

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

export interface ArchiveItem {
  /** Relative byte string; the root is the empty string. */
  readonly path: string;
  readonly entry: TarEntry;
  /** Must be read or left before the next item is asked for. */
  readonly body: AsyncIterable<Buffer>;
}

/** Sizes are the business of whoever takes the items: a sparse file of a terabyte is a name until it is read. */
const LIMITS = { ...DEFAULT_LIMITS, maxBytes: Number.MAX_SAFE_INTEGER };
const NO_TIME = { seconds: 0, nanos: 0 };

/**
 * Items of a tar stream with clean relative paths.
 *
 * @throws ENGINE_ARCHIVE_INVALID for damaged archives and for paths that are absolute or leave the root
 */
export async function* readItems(source: AsyncIterable<Uint8Array>): AsyncGenerator<ArchiveItem> {
  try {
    for await (const { entry, body } of readTar(source, LIMITS))
      yield { path: cleanPath(entry.path), entry, body };
  } catch (error) {
    if (!isSkycapError(error) || !error.code.startsWith('OCI_LAYER')) throw error;
    throw engineError('ENGINE_ARCHIVE_INVALID', error.message.replace(/^the layer/, 'the archive'), {
      cause: error,
    });
  }
}

/** The answer of the daemon's archive endpoint without its first component: paths relative to what was asked for. */
export async function* itemsBelow(source: AsyncIterable<Uint8Array>): AsyncGenerator<ArchiveItem> {
  for await (const item of readItems(source)) {
    const slash = item.path.indexOf('/');
    const { entry } = item;
    // Hard links name their target from the archive's root too.
    const linkPath = entry.type === 'link' ? withoutFirst(entry.linkPath) : entry.linkPath;
    yield { ...item, path: slash === -1 ? '' : item.path.slice(slash + 1), entry: { ...entry, linkPath } };
  }
}

export async function* packItems(
  items: AsyncIterable<ArchiveItem> | Iterable<ArchiveItem>,
): AsyncGenerator<Uint8Array> {
  for await (const { path, entry, body } of items) {
    yield encodeEntry({ ...entry, path: path === '' ? './' : path });
    if (entry.size === 0) continue;
    yield* body;
    yield padding(entry.size);
  }
  yield endOfArchive();
}

export function directoryItem(path: string, mode: number, owner: Owner): ArchiveItem {
  return { path: toBytes(path), entry: entryOf('directory', mode, owner), body: none() };
}

export function fileItem(
  path: string,
  content: Uint8Array,
  options: { readonly mode: number; readonly owner: Owner },
): ArchiveItem {
  const entry = { ...entryOf('file', options.mode, options.owner), size: content.length };
  return { path: toBytes(path), entry, body: one(content) };
}

export function owned(entry: TarEntry, owner: Owner): TarEntry {
  return { ...entry, uid: owner.uid, gid: owner.gid };
}

export function textOf(path: string): string {
  return Buffer.from(path, 'latin1').toString('utf8');
}

function entryOf(type: 'file' | 'directory', mode: number, owner: Owner): TarEntry {
  return { path: '', type, mode, ...owner, size: 0, mtime: NO_TIME, linkPath: '', devMajor: 0, devMinor: 0 };
}

function cleanPath(raw: string): string {
  const parts = raw.split('/').filter((part) => part !== '' && part !== '.');
  if (raw.startsWith('/') || parts.includes('..') || raw.includes('\0')) {
    throw engineError(
      'ENGINE_ARCHIVE_INVALID',
      `the entry ${JSON.stringify(textOf(raw))} leaves the archive's root`,
    );
  }
  return parts.join('/');
}

function withoutFirst(path: string): string {
  const clean = path.replace(/^(\.?\/)+/, '');
  return clean.slice(clean.indexOf('/') + 1);
}

async function* none(): AsyncGenerator<Buffer> {}

async function* one(content: Uint8Array): AsyncGenerator<Buffer> {
  yield Buffer.from(content.buffer, content.byteOffset, content.byteLength);
}

export async function gather<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const value of source) all.push(value);
  return all;
}
