import { pipeline, Readable } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { DEFAULT_LIMITS, invalid, type LayerLimits, overLimit } from './limits.ts';
import { ownMemory } from './memory.ts';
import { isSkippable, zstdFrames } from './zstd-frames.ts';

export type Compression = 'none' | 'gzip' | 'zstd';

/** Small output chunks halve the speed of inflate. */
const CHUNK = 256 * 1024;

/** Looks at the bytes: media types lie. Zstandard skippable frames count as zstd (zstd:chunked starts with none). */
export function sniffCompression(head: Uint8Array): Compression {
  if (head.length >= 2 && head[0] === 0x1f && head[1] === 0x8b) return 'gzip';
  if (head.length < 4) return 'none';
  const magic = Buffer.from(head.buffer, head.byteOffset, 4).readUInt32LE(0);
  if (magic === 0xfd2fb528 || isSkippable(magic)) return 'zstd';
  return 'none';
}

function foreignCompression(head: Uint8Array): string | undefined {
  const hex = Buffer.from(head.buffer, head.byteOffset, Math.min(6, head.length)).toString('hex');
  if (hex.startsWith('fd377a585a00')) return 'xz';
  if (hex.startsWith('425a68')) return 'bzip2';
  return undefined;
}

/** RFC 1952 reserves three flags. Every image tool reads on where one is set, zlib does not: so they are cleared. */
function withoutReservedFlags(head: Uint8Array): Uint8Array {
  if (head.length < 4 || ((head[3] as number) & 0xe0) === 0) return head;
  const cleared = Uint8Array.from(head);
  cleared[3] = (cleared[3] as number) & 0x1f;
  return cleared;
}

async function* withHead(
  head: readonly Uint8Array[],
  rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  try {
    yield* head;
    for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value;
  } finally {
    await rest.return?.();
  }
}

/** Bytes of a layer so far. */
export interface Volume {
  packed: number;
  /** Of the archive. */
  unpacked: number;
  /** What files take beyond what the archive has of them: holes of sparse files, copies of files of lower layers. */
  grown: number;
}

/** Where nothing was read yet. */
export function emptyVolume(): Volume {
  return { packed: 0, unpacked: 0, grown: 0 };
}

/** Asked before the bytes are written. @throws OCI_LAYER_LIMIT */
export function grow(volume: Volume, bytes: number, limits: LayerLimits): void {
  volume.grown += bytes;
  checkSize(volume, limits);
}

/**
 * The uncompressed bytes of a layer blob: gzip of any number of members, zstd of any number of frames, or plain.
 * Cut streams, wrong checksums and rubbish after the end are refused.
 *
 * @throws OCI_LAYER_INVALID, OCI_LAYER_LIMIT (size and ratio)
 */
export async function* decompress(
  source: AsyncIterable<Uint8Array>,
  limits: LayerLimits = DEFAULT_LIMITS,
  volume: Volume = emptyVolume(),
): AsyncGenerator<Buffer> {
  const iterator = source[Symbol.asyncIterator]();
  const head: Uint8Array[] = [];
  let size = 0;
  while (size < 6) {
    const next = await iterator.next();
    if (next.done === true) break;
    head.push(next.value);
    size += next.value.length;
  }
  const start = head.length === 1 ? (head[0] as Uint8Array) : Buffer.concat(head);
  const kind = sniffCompression(start);
  const foreign = foreignCompression(start);
  if (foreign !== undefined) {
    await iterator.return?.();
    throw invalid(`it is compressed with ${foreign}; layers are plain, gzip or zstd`);
  }
  const bytes = withHead(kind === 'gzip' ? [withoutReservedFlags(start)] : head, iterator);
  if (kind === 'none') {
    for await (const chunk of bytes) {
      const buffer = Buffer.isBuffer(chunk)
        ? chunk
        : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      volume.packed += buffer.length;
      volume.unpacked += buffer.length;
      checkSize(volume, limits);
      yield buffer;
    }
    return;
  }
  yield* inflate(bytes, kind, { volume, limits });
}

interface Counting {
  readonly volume: Volume;
  readonly limits: LayerLimits;
}

async function* inflate(
  bytes: AsyncIterable<Uint8Array>,
  kind: 'gzip' | 'zstd',
  { volume, limits }: Counting,
): AsyncGenerator<Buffer> {
  const decoder =
    kind === 'gzip' ? createGunzip({ chunkSize: CHUNK }) : createZstdDecompress({ chunkSize: CHUNK });
  let failure: unknown;
  async function* counting(): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes) {
      volume.packed += chunk.length;
      yield chunk;
    }
  }
  const input = kind === 'gzip' ? counting() : zstdFrames(counting());
  const output = pipeline(Readable.from(input, { objectMode: false }), decoder, (error) => {
    failure = error ?? undefined;
  });
  try {
    for await (const chunk of output as AsyncIterable<Buffer>) {
      volume.unpacked += chunk.length;
      checkSize(volume, limits);
      ownMemory(chunk);
      yield chunk;
    }
  } catch (error) {
    throw decodeError(failure ?? error, kind);
  } finally {
    output.destroy();
  }
  // Node stops quietly at the first bytes after a gzip member that are no further member.
  if (kind === 'gzip' && decoder.bytesWritten < volume.packed)
    throw invalid('rubbish follows the gzip stream');
}

function decodeError(error: unknown, kind: string): unknown {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code === 'string' && /^(Z_|ZSTD_|ERR_ZSTD|ERR_BUFFER|ERR_STREAM_PREMATURE)/.test(code)) {
    return invalid(`its ${kind} stream is damaged (${(error as Error).message})`);
  }
  return error;
}

function checkSize({ packed, unpacked, grown }: Volume, limits: LayerLimits): void {
  const bytes = unpacked + grown;
  if (bytes > limits.maxBytes) throw overLimit(`more than ${limits.maxBytes} bytes when unpacked`);
  if (bytes > limits.ratioFreeBytes && bytes > packed * limits.maxRatio) {
    throw overLimit(`more than ${limits.maxRatio} times its packed size`);
  }
}
