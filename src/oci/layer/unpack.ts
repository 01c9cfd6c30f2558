import { createHash, type Hash } from 'node:crypto';
import { kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { digestParts } from '../names/index.ts';
import type { Digest } from '../types.ts';
import { type CheckedEntry, type CheckOptions, LayerChecker } from './check.ts';
import { decompress, emptyVolume, grow } from './compression.ts';
import { showPath, type TarEntry } from './entry.ts';
import { DEFAULT_LIMITS, type LayerLimits, unsafe } from './limits.ts';
import { letGo } from './memory.ts';
import { TarReader } from './reader.ts';
import type { LayerSink } from './sink.ts';

export interface UnpackOptions extends Omit<CheckOptions, 'limits'> {
  readonly signal: AbortSignal;
  readonly limits?: LayerLimits;
  /** Checked before the promise resolves; the caller shows the folder to no one before that. */
  readonly diffId?: Digest | undefined;
  /** As the manifest has it; one that is not a layer's is refused, and beyond that the bytes decide. */
  readonly mediaType?: string;
}

const SHA256 = { algorithm: 'sha256' } as const;

/** image-spec, media-types.md, and Docker's names for the same. */
const LAYER_TYPE =
  /^application\/vnd\.(oci\.image\.layer\.(v1|nondistributable\.v1)\.tar([+.](gzip|zstd))?|docker\.image\.rootfs\.(foreign\.)?diff\.tar([.+](gzip|zstd))?)$/;

/** What a layer was, once all of it is in its folder. */
export interface Unpacked {
  readonly diffId: Digest;
  readonly entries: number;
  /** Directories that hide the layers below, as byte strings; the root is the empty string. */
  readonly opaque: readonly string[];
}

async function* hashed(
  source: AsyncIterable<Buffer>,
  hash: Hash,
  { signal, copies }: { readonly signal: AbortSignal; readonly copies: boolean },
): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while unpacking a layer');
    hash.update(chunk);
    yield chunk;
    if (copies) letGo(chunk);
  }
}

/**
 * Streams an untrusted layer blob (of any compression) through the checks into `sink`. Memory stays at a few chunks
 * and one map entry for each path; the chunks of `blob` must not be written over. On an error the sink has been
 * stopped.
 *
 * @throws OCI_LAYER_INVALID, OCI_LAYER_UNSAFE, OCI_LAYER_LIMIT, OCI_LAYER_DIFFID, OCI_LAYER_WRITE, DISK_FULL, CANCELLED
 */
export async function unpackLayer(
  blob: AsyncIterable<Uint8Array>,
  sink: LayerSink,
  options: UnpackOptions,
): Promise<Unpacked> {
  const limits = options.limits ?? DEFAULT_LIMITS;
  const { mediaType } = options;
  if (mediaType !== undefined && !LAYER_TYPE.test(mediaType)) {
    await sink.abort();
    throw ociError(
      'OCI_LAYER_INVALID',
      `${JSON.stringify(mediaType.slice(0, 200))} is not the media type of a layer`,
      {
        hint: 'this is an artifact and no image that can run; ask its author',
      },
    );
  }
  const { algorithm } = options.diffId === undefined ? SHA256 : digestParts(options.diffId);
  const hash = createHash(algorithm);
  const volume = emptyVolume();
  const reader = new TarReader(
    hashed(decompress(blob, limits, volume), hash, {
      signal: options.signal,
      copies: sink.copies === true,
    }),
    limits,
  );
  const mayGrow = (bytes: number): void => grow(volume, bytes, limits);
  const checker = new LayerChecker({ map: options.map, lower: options.lower, limits });
  try {
    for (;;) {
      const entry = reader.nextNow() ?? (await reader.next());
      if (entry === undefined) break;
      const taken = checker.take(entry);
      const checked = taken instanceof Promise ? await taken : taken;
      if (!putNow(checked, sink, reader)) await putAll(checked, sink, { reader, mayGrow });
    }
    await putAll(checker.finish(), sink, { reader, mayGrow });
    await reader.drain();
    const diffId = `${algorithm}:${hash.digest('hex')}` as Digest;
    if (options.diffId !== undefined && options.diffId !== diffId) {
      throw ociError(
        'OCI_LAYER_DIFFID',
        `a layer unpacks to ${diffId}, and the image declares ${options.diffId}`,
        {
          hint: 'the image was built wrongly or is hostile; ask its author',
        },
      );
    }
    await sink.finish();
    return { diffId, entries: checker.count, opaque: checker.opaque };
  } catch (error) {
    await sink.abort();
    await reader.close().catch(() => undefined);
    throw error;
  }
}

interface Source {
  readonly reader: TarReader;
  /** Told of bytes that are to be written and are not in the archive. @throws OCI_LAYER_LIMIT */
  readonly mayGrow: (bytes: number) => void;
}

/** Without waiting, where there is one entry, all of its body is at hand, and the sink has room for it. */
function putNow(entries: readonly CheckedEntry[], sink: LayerSink, reader: TarReader): boolean {
  const [only] = entries;
  // A restamp is never alone: it follows its link.
  if (sink.putNow === undefined || only === undefined || entries.length > 1) return false;
  if (only.body !== undefined) return false;
  const body = reader.peekBody();
  return body !== undefined && sink.putNow(only.entry, body);
}

async function putAll(
  entries: readonly CheckedEntry[],
  sink: LayerSink,
  { reader, mayGrow }: Source,
): Promise<void> {
  for (const { entry, body, restamp } of entries) {
    if (restamp === true) await stamp(entry, sink);
    else if (body !== undefined) {
      mayGrow(entry.size);
      await sink.put(entry, pull(body()));
    } else if (reader.isSparse && entry.type === 'file') {
      mayGrow(entry.size - reader.stored.length);
      await sink.put(entry, pull(reader.body()));
    } else await sink.put(entry, () => reader.some());
  }
}

async function stamp(entry: TarEntry, sink: LayerSink): Promise<void> {
  if (sink.restamp === undefined)
    throw unsafe(`${showPath(entry.path)} is a hard link with other attributes than its file`);
  await sink.restamp(entry);
}

function pull(parts: AsyncIterable<Buffer>): () => Promise<Buffer | undefined> {
  const iterator = parts[Symbol.asyncIterator]();
  return async () => {
    const next = await iterator.next();
    return next.done === true ? undefined : next.value;
  };
}
