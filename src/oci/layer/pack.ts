import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { createZstdCompress } from 'node:zlib';
import { spawnError } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import { blockGzip } from './block-gzip.ts';
import type { Compression } from './compression.ts';
import { type TarEntry, toBytes } from './entry.ts';
import { readTar } from './reader.ts';
import { tarEnvironment } from './tar-process.ts';
import { encodeEntry, endOfArchive, padding } from './writer.ts';

export interface PackOptions {
  /** Later times are cut to this (seconds since 1970), as SOURCE_DATE_EPOCH has it. */
  readonly maxTime?: number;
  /** Begins with an entry for the folder itself. */
  readonly root?: boolean;
}

/**
 * A folder as a layer tar. Equal trees give equal bytes: names sorted by their bytes, parents first, numeric owners,
 * modification times only, hard links to the first name. Owners and device files are kept as they are on disk.
 * Read by GNU tar (Node cannot see extended attributes), written by us.
 *
 * @throws OCI_LAYER_WRITE where the folder cannot be read
 */
export async function* packFolder(folder: string, options: PackOptions = {}): AsyncGenerator<Buffer> {
  const args = [
    '--create',
    '--file=-',
    '--format=posix',
    '--sort=name',
    '--numeric-owner',
    '--xattrs',
    '--xattrs-include=*',
    '--no-acls',
    '--no-selinux',
    '--blocking-factor=256',
    '--directory',
    folder,
    '.',
  ];
  // In a group of its own: Ctrl-C in a terminal would reach tar first, and its half archive would be the error.
  const child = spawn('tar', args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: tarEnvironment(),
    detached: true,
  });
  let stderr = '';
  let missing: Error | undefined;
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    stderr = (stderr + chunk).slice(0, 4096);
  });
  const closed = new Promise<boolean>((resolve) => {
    child.on('error', (cause) => {
      missing = cause;
      resolve(false);
    });
    // The archive's end has been read: what tar still writes then is padding, and nobody listens.
    child.on('close', (code, signal) => resolve(code === 0 || signal === 'SIGPIPE'));
  });
  try {
    yield* normaliseTar(child.stdout, options);
    if (await closed) return;
  } catch (cause) {
    if (missing === undefined) throw cause;
  } finally {
    child.kill('SIGKILL');
  }
  if (missing !== undefined) throw spawnError('tar', missing);
  throw ociError('OCI_LAYER_WRITE', `${folder} could not be read whole: ${stderr.split('\n')[0] ?? ''}`, {
    hint: 'nothing may change the folder while it is packed',
  });
}

/** The same tree as our own deterministic bytes; times of access, user names and, unless it is asked for, the root's entry go. */
export async function* normaliseTar(
  source: AsyncIterable<Uint8Array>,
  options: PackOptions = {},
): AsyncGenerator<Buffer> {
  for await (const { entry, body } of readTar(source)) {
    const path = entry.path.replace(/^(\.?\/)+/, '').replace(/\/+$/, '');
    const isRoot = path === '' || path === '.';
    if (isRoot && options.root !== true) continue;
    yield encodeEntry(normalised(entry, isRoot ? '.' : path, options));
    if (entry.size === 0) continue;
    yield* body;
    yield padding(entry.size);
  }
  yield endOfArchive();
}

function normalised(entry: TarEntry, path: string, options: PackOptions): TarEntry {
  const seconds = entry.mtime.seconds;
  const late = options.maxTime !== undefined && seconds >= options.maxTime;
  const mtime = late ? { seconds: options.maxTime as number, nanos: 0 } : { seconds, nanos: 0 };
  const linkPath = entry.type === 'link' ? entry.linkPath.replace(/^(\.?\/)+/, '') : entry.linkPath;
  return { ...entry, path, mtime, linkPath };
}

export interface VirtualFile {
  readonly path: string;
  readonly content?: string | Uint8Array;
  readonly mode?: number;
  readonly type?: TarEntry['type'];
  readonly linkPath?: string;
  readonly uid?: number;
  readonly gid?: number;
}

/** A layer tar from files in memory; parents that are not named get 0755, owner 0 and time 0. */
export function* packFiles(files: Iterable<VirtualFile>): Generator<Buffer> {
  const seen = new Set<string>();
  const entry = (file: VirtualFile, size: number): TarEntry => ({
    path: toBytes(file.path),
    type: file.type ?? 'file',
    mode: file.mode ?? (file.type === 'directory' ? 0o755 : 0o644),
    uid: file.uid ?? 0,
    gid: file.gid ?? 0,
    size,
    mtime: { seconds: 0, nanos: 0 },
    linkPath: toBytes(file.linkPath ?? ''),
    devMajor: 0,
    devMinor: 0,
  });
  for (const file of files) {
    const parts = file.path.split('/').filter((part) => part !== '');
    for (let depth = 1; depth < parts.length; depth++) {
      const parent = parts.slice(0, depth).join('/');
      if (seen.has(parent)) continue;
      seen.add(parent);
      yield encodeEntry(entry({ path: parent, type: 'directory' }, 0));
    }
    const path = parts.join('/');
    seen.add(path);
    const body = Buffer.from(file.content ?? '');
    yield encodeEntry(entry({ ...file, path }, body.length));
    yield body;
    yield padding(body.length);
  }
  yield endOfArchive();
}

export interface PackedLayer {
  readonly mediaType: string;
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Known when `bytes` has been read to its end: digest of the uncompressed tar. */
  readonly diffId: () => string;
}

const MEDIA_TYPES: Readonly<Record<Compression, string>> = {
  none: 'application/vnd.oci.image.layer.v1.tar',
  gzip: 'application/vnd.oci.image.layer.v1.tar+gzip',
  zstd: 'application/vnd.oci.image.layer.v1.tar+zstd',
};

/**
 * Compresses a layer tar on all cores and takes its diffID on the way. Equal input gives equal bytes for one version
 * of zlib.
 */
export function compressLayer(
  tar: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  kind: Compression,
): PackedLayer {
  const hash = createHash('sha256');
  async function* tap(): AsyncGenerator<Uint8Array> {
    for await (const chunk of tar) {
      hash.update(chunk);
      yield chunk;
    }
  }
  const bytes = kind === 'gzip' ? blockGzip(tap()) : kind === 'zstd' ? zstd(tap()) : tap();
  return { mediaType: MEDIA_TYPES[kind], bytes, diffId: () => `sha256:${hash.digest('hex')}` };
}

async function* zstd(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const encoder = createZstdCompress();
  const input = Readable.from(source, { objectMode: false });
  input.on('error', (error) => encoder.destroy(error));
  input.pipe(encoder);
  for await (const chunk of encoder) yield chunk as Uint8Array;
}
