import { isSkycapError } from '../kernel/index.ts';
import {
  type EntryType,
  encodeEntry,
  endOfArchive,
  padding,
  readTar,
  toBytes,
} from '../oci/layer/tar/index.ts';
import { engineError } from './errors.ts';

/** One entry of a tar stream; `content` must be read or left before the next entry is asked for. */
export interface ArchiveEntry {
  /** Relative, without leading `./` and trailing `/`; the root itself is the empty string. */
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'hardlink' | 'fifo' | 'device';
  readonly mode: number;
  readonly sizeBytes: number;
  /** Seconds since 1970. */
  readonly mtime: number;
  readonly linkTarget: string;
  readonly content: AsyncIterable<Uint8Array>;
}

/** What `packArchive` needs of an entry; `content` of files must hold `sizeBytes` bytes. */
export type PackEntry = Pick<ArchiveEntry, 'path' | 'type'> & Partial<Omit<ArchiveEntry, 'path' | 'type'>>;

const TYPES: Readonly<Record<EntryType, ArchiveEntry['type']>> = {
  file: 'file',
  directory: 'directory',
  symlink: 'symlink',
  link: 'hardlink',
  fifo: 'fifo',
  char: 'device',
  block: 'device',
};
const WRITTEN: Readonly<Record<ArchiveEntry['type'], EntryType>> = {
  file: 'file',
  directory: 'directory',
  symlink: 'symlink',
  hardlink: 'link',
  fifo: 'fifo',
  device: 'char',
};

/**
 * Reads ustar, PAX and GNU archives with the codec of layers.
 *
 * @throws ENGINE_ARCHIVE_INVALID for damaged archives and for paths that are absolute or leave the root
 */
export async function* readArchive(source: AsyncIterable<Uint8Array>): AsyncIterable<ArchiveEntry> {
  try {
    for await (const { entry, body } of readTar(source)) {
      yield {
        path: cleanPath(fromBytes(entry.path)),
        type: TYPES[entry.type],
        mode: entry.mode,
        sizeBytes: entry.size,
        mtime: entry.mtime.seconds + entry.mtime.nanos / 1e9,
        linkTarget: fromBytes(entry.linkPath),
        content: explained(body),
      };
    }
  } catch (error) {
    throw explain(error);
  }
}

async function* explained(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (error) {
    throw explain(error);
  }
}

function explain(error: unknown): unknown {
  if (!isSkycapError(error) || !error.code.startsWith('OCI_LAYER_')) return error;
  const what = error.message
    .replace(/^the layer is not a valid tar archive: /, '')
    .replace(/^the layer/, 'the archive');
  return engineError('ENGINE_ARCHIVE_INVALID', `the archive is damaged: ${what}`, { cause: error });
}

/** Writes entries as ustar with PAX records where a name, link or size does not fit. */
export async function* packArchive(
  entries: AsyncIterable<PackEntry> | Iterable<PackEntry>,
): AsyncIterable<Uint8Array> {
  for await (const entry of entries) {
    const size = entry.type === 'file' ? (entry.sizeBytes ?? 0) : 0;
    yield encodeEntry({
      path: toBytes(entry.path),
      type: WRITTEN[entry.type],
      mode: (entry.mode ?? (entry.type === 'directory' ? 0o755 : 0o644)) & 0o7777,
      uid: 0,
      gid: 0,
      size,
      mtime: { seconds: Math.max(0, Math.floor(entry.mtime ?? 0)), nanos: 0 },
      linkPath: toBytes(entry.linkTarget ?? ''),
      devMajor: 0,
      devMinor: 0,
    });
    let written = 0;
    if (size > 0 && entry.content !== undefined) {
      for await (const chunk of entry.content) {
        // A file that grows or shrinks while it is read must not shift what follows.
        const part = chunk.subarray(0, size - written);
        written += part.length;
        if (part.length > 0) yield part;
      }
    }
    while (written < size) {
      const fill = Buffer.alloc(Math.min(size - written, 1 << 16));
      written += fill.length;
      yield fill;
    }
    yield padding(size);
  }
  yield endOfArchive();
}

/** An archive of files given by name: for tests, generated files and the like. */
export function packFiles(
  files: Readonly<
    Record<string, string | Uint8Array | { readonly content: string | Uint8Array; readonly mode: number }>
  >,
): AsyncIterable<Uint8Array> {
  return packArchive(
    Object.entries(files).map(([path, value]): PackEntry => {
      const plain = typeof value === 'string' || value instanceof Uint8Array;
      const content = Buffer.from(plain ? value : value.content);
      return {
        path,
        type: 'file',
        mode: plain ? 0o644 : value.mode,
        sizeBytes: content.length,
        content: oneChunk(content),
      };
    }),
  );
}

/** Everything of a byte stream; for small ones. */
export async function readAll(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts);
}

export async function* oneChunk(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

function cleanPath(raw: string): string {
  const parts = raw.split('/').filter((part) => part !== '' && part !== '.');
  if (raw.startsWith('/') || parts.includes('..') || raw.includes('\0')) {
    throw engineError('ENGINE_ARCHIVE_INVALID', `the entry ${JSON.stringify(raw)} leaves the archive's root`);
  }
  return parts.join('/');
}

function fromBytes(path: string): string {
  return Buffer.from(path, 'latin1').toString('utf8');
}
