import { createHash, type Hash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { ociError } from '../errors.ts';
import { type DigestAlgorithm, digestParts } from '../names/index.ts';
import type { Digest } from '../types.ts';
import { LayerChecker } from './check.ts';
import { decompress } from './compression.ts';
import type { ByteString, TarEntry } from './entry.ts';
import { DEFAULT_LIMITS, type LayerLimits, overLimit } from './limits.ts';
import { PlainSink } from './plain-sink.ts';
import { type StoredBody, TarReader } from './reader.ts';
import { type Unpacked, type UnpackOptions, unpackLayer } from './unpack.ts';
import { pathIn } from './write-attributes.ts';
import { encodeEntry, padding } from './writer.ts';

/**
 * What a folder of an ordinary user cannot hold of a layer: owners, modes, attributes, devices, whiteouts, and every
 * byte of the archive that is no file's content. Folder and model together are the layer. Memory: the headers.
 */
export interface LayerModel {
  readonly parts: readonly ModelPart[];
}

/** Bytes of the archive as they stood; then, where `file` is set, the content of that file. */
export interface ModelPart {
  readonly raw: Buffer;
  readonly file?: ModelFile;
}

export interface ModelFile {
  /** Its path in the folder. */
  readonly path: ByteString;
  /** As the archive has it, for a header of another size. */
  readonly entry: TarEntry;
  readonly body: Omit<StoredBody, 'start'>;
  /** Bytes at the end of `raw` that are the entry's headers. */
  readonly header: number;
}

/** What is no file's content and yet long: no sound archive has that. */
const MAX_RAW = 16 * 2 ** 20;

/**
 * Unpacks a layer as an ordinary user, who can neither give files away nor make devices: contents into the folder,
 * readable and writable for that user, all else into the model. `packModel` gives the same bytes back.
 *
 * @param blob Opens the layer; asked twice.
 * @throws What `unpackLayer` throws
 */
export async function unpackWithModel(
  blob: () => AsyncIterable<Uint8Array>,
  folder: string,
  options: UnpackOptions,
): Promise<Unpacked & { readonly model: LayerModel }> {
  const unpacked = await unpackLayer(blob(), new PlainSink(folder), options);
  const { model, diffId } = await readModel(blob(), { ...options, diffId: unpacked.diffId });
  if (diffId !== unpacked.diffId) throw changed();
  return { ...unpacked, model };
}

async function readModel(
  blob: AsyncIterable<Uint8Array>,
  { diffId, ...options }: UnpackOptions & { readonly diffId: Digest },
): Promise<{ readonly model: LayerModel; readonly diffId: Digest }> {
  const limits = options.limits ?? DEFAULT_LIMITS;
  const { algorithm } = digestParts(diffId);
  const held = new Held(decompress(blob, limits), algorithm);
  const reader = new TarReader(held, limits);
  const checker = new LayerChecker({ map: options.map, lower: options.lower, limits });
  const parts: ModelPart[] = [];
  // What still belongs to the entry before.
  let before = 0;
  try {
    for (let entry = await reader.next(); entry !== undefined; entry = await reader.next()) {
      const { start, ...body } = reader.stored;
      const written = (await checker.take(entry)).find(
        (made) => made.entry.type === 'file' && made.body === undefined,
      );
      const raw = held.take(start);
      if (written === undefined || entry.type !== 'file') {
        parts.push({ raw });
        await skipped(reader, body.length, limits);
        before = body.length + body.padding;
        continue;
      }
      parts.push({ raw, file: { path: written.entry.path, entry, body, header: raw.length - before } });
      before = body.padding;
      while ((await reader.some()) !== undefined) held.take(reader.stored.start);
    }
    await reader.drain();
    parts.push({ raw: held.take(held.given) });
    return { model: { parts }, diffId: held.digest() };
  } finally {
    await reader.close();
  }
}

/** The content of what is not written, a whiteout's, stays in the model, and is not to fill the memory. */
async function skipped(reader: TarReader, length: number, limits: LayerLimits): Promise<void> {
  if (length > limits.maxMetaBytes) throw overLimit(`a whiteout of ${length} bytes`);
  while ((await reader.some()) !== undefined);
}

/** Passes an archive on, and keeps what nobody has asked for yet. */
class Held implements AsyncIterable<Buffer> {
  readonly #source: AsyncIterable<Buffer>;
  readonly #algorithm: DigestAlgorithm;
  readonly #hash: Hash;
  #chunks: Buffer[] = [];
  #from = 0;
  given = 0;

  constructor(source: AsyncIterable<Buffer>, algorithm: DigestAlgorithm) {
    this.#source = source;
    this.#algorithm = algorithm;
    this.#hash = createHash(algorithm);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for await (const chunk of this.#source) {
      this.#hash.update(chunk);
      this.#chunks.push(Buffer.from(chunk));
      this.given += chunk.length;
      if (this.given - this.#from > MAX_RAW) throw overLimit(`${MAX_RAW} bytes that belong to no file`);
      yield chunk;
    }
  }

  digest(): Digest {
    return `${this.#algorithm}:${this.#hash.digest('hex')}` as Digest;
  }

  /** The bytes up to this offset, which are not kept any longer. */
  take(to: number): Buffer {
    const length = Math.max(0, to - this.#from);
    const all = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
    this.#chunks = length < all.length ? [all.subarray(length)] : [];
    this.#from += length;
    return Buffer.from(all.subarray(0, length));
  }
}

/**
 * The layer's archive from folder and model: the very bytes that were unpacked, if nothing has changed. A file whose
 * size has changed gets a header for it, one that is gone is left out; new files are not looked for.
 *
 * @throws OCI_LAYER_WRITE where the folder cannot be read
 */
export async function* packModel(folder: string, model: LayerModel): AsyncGenerator<Buffer> {
  let skip = 0;
  for (const { raw, file } of model.parts) {
    const bytes = raw.subarray(Math.min(skip, raw.length));
    skip = 0;
    if (file === undefined) {
      yield bytes;
      continue;
    }
    const before = bytes.subarray(0, bytes.length - file.header);
    await using handle = await open(pathIn(folder, file.path), 'r').catch(absent);
    const size = handle === undefined ? undefined : (await handle.stat()).size;
    yield before;
    if (handle === undefined || size !== file.entry.size) skip = file.body.padding;
    if (handle === undefined || size === undefined) continue;
    const same = size === file.entry.size;
    yield same ? bytes.subarray(bytes.length - file.header) : encodeEntry({ ...file.entry, size });
    for (const piece of same ? file.body.pieces : [{ offset: 0, length: size }]) {
      if (piece.length === 0) continue;
      const range = { start: piece.offset, end: piece.offset + piece.length - 1, autoClose: false };
      yield* handle.createReadStream(range) as AsyncIterable<Buffer>;
    }
    if (!same) yield padding(size);
  }
}

function absent(error: unknown): undefined {
  if ((error as { code?: unknown }).code === 'ENOENT') return undefined;
  throw ociError('OCI_LAYER_WRITE', `an unpacked layer cannot be read: ${(error as Error).message}`, {
    cause: error,
  });
}

function changed(): Error {
  return ociError('OCI_LAYER_DIFFID', 'a layer was not the same when it was read again', {
    hint: 'run the same command again; if it stays, check the disk',
  });
}
