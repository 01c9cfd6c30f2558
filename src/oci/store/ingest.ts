import { constants } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isSkycapError, kernelError } from '../../kernel/index.ts';
import { ensurePrivateDirectory, syncDirectory } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import { createDigester, type Digester, digestParts } from '../names/index.ts';
import type { TransferOptions } from '../port.ts';
import type { Descriptor, Digest } from '../types.ts';
import type { Layout } from './layout.ts';
import { acquireLock } from './lock.ts';
import { damaged, missing, storeError, unreadableFile } from './problems.ts';
import { step } from './steps.ts';

type Opener = (offset: number) => Promise<AsyncIterable<Uint8Array>>;

/** Broken transfers in a row that brought nothing new. */
const MAX_FRUITLESS = 5;
/** After these a partial file is not worth keeping. */
const FINAL = new Set(['CANCELLED', 'DISK_FULL', 'OCI_BLOB_CORRUPT']);
const READ_CHUNK = 1 << 20;
const PROGRESS_BYTES = 1 << 20;
/** One system call for so much: networks bring pieces of 64 KiB, and handing each to the thread pool costs more. */
const WRITE_BYTES = 1 << 20;
const NO_BYTES = Buffer.allocUnsafeSlow(0);

export async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return undefined;
    throw error;
  }
}

export function corrupt(digest: Digest, what: string): Error {
  return ociError('OCI_BLOB_CORRUPT', `${digest}: ${what}`, {
    hint: 'try again; if it stays, the registry or the network changes the bytes',
    details: { digest },
  });
}

/**
 * Writes one blob: into a partial file under the blob's lock, verified while it comes in, then synced and renamed.
 * A partial file of an earlier try, also of a process that was killed, is read into the digest and continued.
 *
 * @throws OCI_BLOB_CORRUPT, DISK_FULL, CANCELLED, and whatever `open` throws
 */
export async function ingestBlob(
  layout: Layout,
  blob: Descriptor,
  { open: source, signal, emit }: TransferOptions & { readonly open: Opener },
): Promise<void> {
  const target = layout.blob(blob.digest);
  if ((await sizeOf(target)) === blob.size) return;
  using _lock = await acquireLock(layout.blobLock(blob.digest), { signal });
  const present = await sizeOf(target);
  if (present === blob.size) return;
  if (present !== undefined) throw await otherSize(target, blob, present);

  const path = layout.partial(blob.digest);
  const handle = await openPartial(path).catch((error: unknown) => {
    throw storeError(error, layout.directory);
  });
  let keep = false;
  const transfer = new Transfer(handle, blob, { signal, emit });
  try {
    step('blob.begin');
    await transfer.resume();
    await transfer.run(source);
    step('blob.sync');
    await handle.sync();
    await ensurePrivateDirectory(dirname(target));
    step('blob.rename');
    await rename(path, target);
    keep = true;
    step('blob.renamed');
  } catch (error) {
    // What a broken connection left is worth resuming; what the user stopped or a full disk cut is not left lying.
    const coded = error === transfer.refusal ? error : storeError(error, layout.directory);
    keep = !(isSkycapError(coded) && FINAL.has(coded.code));
    throw coded;
  } finally {
    await handle.close();
    if (!keep) await rm(path, { force: true });
  }
  await syncDirectory(dirname(target));
}

/** Who is wrong, the manifest that announces the size or our disk? Only reading it tells. */
async function otherSize(path: string, blob: Descriptor, present: number): Promise<Error> {
  try {
    for await (const _chunk of readBlobFile(path, blob.digest));
  } catch (error) {
    return error as Error;
  }
  return ociError(
    'OCI_BLOB_CORRUPT',
    `${blob.digest} has ${present} bytes, and the image announces ${blob.size}`,
    { hint: 'the image was built wrongly or is hostile; ask its author', details: { digest: blob.digest } },
  );
}

async function openPartial(path: string): Promise<FileHandle> {
  return await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
}

class Transfer {
  readonly #handle: FileHandle;
  readonly #blob: Descriptor;
  readonly #options: TransferOptions;
  #digester: Digester;
  /** What the one who was to bring the bytes threw: no fault of the store's. */
  refusal: unknown;
  /** Bytes that came and are in the digest. */
  #done = 0;
  #resumed = false;
  #told = 0;
  /** Pieces are copied, since whoever brings them may lend them only. */
  #filling = NO_BYTES;
  #filled = 0;
  /** On its way to the disk, or free. */
  #other = NO_BYTES;
  #writing: Promise<void> = Promise.resolve();

  constructor(handle: FileHandle, blob: Descriptor, options: TransferOptions) {
    this.#handle = handle;
    this.#blob = blob;
    this.#options = options;
    this.#digester = createDigester(digestParts(blob.digest).algorithm);
  }

  async resume(): Promise<void> {
    const size = (await this.#handle.stat()).size;
    if (size === 0) return;
    if (size > this.#blob.size) return await this.#restart();
    for await (const chunk of readAll(this.#handle)) {
      this.#digester.update(chunk);
      this.#done += chunk.length;
    }
    this.#resumed = true;
  }

  async run(open: Opener): Promise<void> {
    for (;;) {
      await this.#fetch(open);
      if (this.#digester.digest() === this.#blob.digest) return;
      // Bytes of an earlier try may be bad though those of this one are good.
      if (!this.#resumed) throw corrupt(this.#blob.digest, 'the bytes that came have another digest');
      await this.#restart();
    }
  }

  async #restart(): Promise<void> {
    await this.#handle.truncate(0);
    this.#digester = createDigester(digestParts(this.#blob.digest).algorithm);
    this.#done = 0;
    this.#told = 0;
    this.#resumed = false;
  }

  async #fetch(open: Opener): Promise<void> {
    let fruitless = 0;
    while (this.#done < this.#blob.size) {
      const before = this.#done;
      const reason = await this.#attempt(open);
      if (this.#done >= this.#blob.size) return;
      fruitless = this.#done > before ? 0 : fruitless + 1;
      if (fruitless >= MAX_FRUITLESS) {
        const { digest, size } = this.#blob;
        throw ociError(
          'OCI_BLOB_INCOMPLETE',
          `${digest}: the transfer ends at byte ${this.#done} of ${size} again and again`,
          {
            hint: 'run the same command again; it continues where this one stopped',
          },
        );
      }
      this.#options.emit({ type: 'blob.retry', digest: this.#blob.digest, reason, offset: this.#done });
    }
  }

  /** @returns why it ended early */
  async #attempt(open: Opener): Promise<string> {
    const { signal } = this.#options;
    const chunks = await open(this.#done).catch((error: unknown) => {
      this.refusal = error;
      throw error;
    });
    const iterator = chunks[Symbol.asyncIterator]();
    try {
      for (;;) {
        if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while a blob came in');
        const next = await this.#next(iterator);
        if (typeof next === 'string') {
          await this.#flush();
          return next;
        }
        await this.#take(next);
      }
    } finally {
      await iterator.return?.().catch(() => undefined);
    }
  }

  /** Faults of the connection end the attempt; coded errors are final. */
  async #next(iterator: AsyncIterator<Uint8Array>): Promise<Uint8Array | string> {
    try {
      const next = await iterator.next();
      return next.done === true ? 'the transfer ended early' : next.value;
    } catch (error) {
      if (isSkycapError(error)) throw error;
      if (this.#options.signal.aborted) throw kernelError('CANCELLED', 'cancelled while a blob came in');
      return error instanceof Error ? error.message : String(error);
    }
  }

  async #take(chunk: Uint8Array): Promise<void> {
    if (this.#done + chunk.length > this.#blob.size) {
      throw corrupt(this.#blob.digest, `more than the announced ${this.#blob.size} bytes came`);
    }
    this.#digester.update(chunk);
    this.#done += chunk.length;
    await this.#gather(chunk);
    if (this.#done - this.#told < PROGRESS_BYTES && this.#done < this.#blob.size) return;
    this.#told = this.#done;
    const { digest, size: sizeBytes } = this.#blob;
    this.#options.emit({ type: 'blob.progress', digest, doneBytes: this.#done, sizeBytes });
  }

  async #gather(chunk: Uint8Array): Promise<void> {
    const before = this.#done - chunk.length;
    for (let at = 0; at < chunk.length; ) {
      if (this.#filling.length === 0)
        this.#filling = Buffer.allocUnsafeSlow(Math.min(WRITE_BYTES, this.#blob.size));
      const part = chunk.subarray(at, at + this.#filling.length - this.#filled);
      this.#filling.set(part, this.#filled);
      this.#filled += part.length;
      at += part.length;
      if (this.#filled === this.#filling.length) await this.#write(before + at);
    }
  }

  /** Hands over what is gathered and waits only for what was handed over before: more comes in meanwhile. */
  async #write(end: number): Promise<void> {
    await this.#writing;
    if (this.#filled === 0) return;
    const bytes = this.#filling.subarray(0, this.#filled);
    [this.#filling, this.#other] = [this.#other, this.#filling];
    this.#filled = 0;
    this.#writing = writeAll(this.#handle, bytes, end - bytes.length).then(() => step('blob.write'));
    // Whoever writes next, or ends, gets the error.
    this.#writing.catch(() => {});
  }

  async #flush(): Promise<void> {
    await this.#write(this.#done);
    await this.#writing;
  }
}

/** A write may take less than it was given. */
export async function writeAll(
  handle: Pick<FileHandle, 'write'>,
  bytes: Uint8Array,
  position: number,
): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    at += (await handle.write(bytes, at, bytes.length - at, position + at)).bytesWritten;
  }
}

async function* readAll(handle: FileHandle): AsyncGenerator<Buffer> {
  const chunk = Buffer.allocUnsafe(READ_CHUNK);
  for (let at = 0; ; ) {
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

/**
 * The bytes of a blob file, hashed while read; the error comes after the last chunk.
 *
 * @throws OCI_BLOB_MISSING, OCI_BLOB_CORRUPT where the file is damaged, is none, or cannot be read
 */
export async function* readBlobFile(path: string, digest: Digest, offset = 0): AsyncGenerator<Uint8Array> {
  const handle = await openBlob(path, digest);
  try {
    const digester = createDigester(digestParts(digest).algorithm);
    for (let at = 0; ; ) {
      const chunk = Buffer.allocUnsafe(READ_CHUNK / 4);
      const { bytesRead } = await handle.read(chunk, 0, chunk.length, at).catch((error: unknown) => {
        throw unreadableFile(error, path, digest);
      });
      if (bytesRead === 0) break;
      const part = chunk.subarray(0, bytesRead);
      digester.update(part);
      if (at + bytesRead > offset) yield part.subarray(Math.max(0, offset - at));
      at += bytesRead;
    }
    if (digester.digest() !== digest) throw damaged(path, digest);
  } finally {
    await handle.close();
  }
}

/** Never waits on a FIFO and follows no link: what is no plain file is damaged. */
async function openBlob(path: string, digest: Digest): Promise<FileHandle> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(path, flags).catch((error: unknown) => {
    throw (error as { code?: string }).code === 'ENOENT'
      ? missing(digest)
      : unreadableFile(error, path, digest);
  });
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw damaged(path, digest, 'it is no file');
}
