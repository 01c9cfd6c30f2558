import type { FileHandle } from 'node:fs/promises';
import { BLOCK } from './format.ts';

const BUFFER = 1 << 20;
/** One is filled while the others are written. */
const IN_FLIGHT = 2;
/** After so many bytes the disk begins with them: else all of an image would be waited for at its end. */
const SYNC_EVERY = 16 << 20;

/**
 * Appends to a file in large pieces: nobody waits for a write unless the disk is that far behind.
 *
 * What few will read goes past the page cache where the file system can (O_DIRECT): no memory is taken for it from what
 * runs, and nothing is copied once more.
 */
export class BlockWriter {
  readonly #handle: FileHandle;
  #direct: FileHandle | undefined;
  readonly #free: Buffer[] = [];
  readonly #writing: Promise<void>[] = [];
  #buffer = wholePages();
  #used = 0;
  #flushed: number;
  /** Written and not asked of the disk. */
  #unsynced = 0;
  #syncing: Promise<void> | undefined;
  #failure: Error | undefined;

  /**
   * Starts behind what is reserved at the start of the file, whole blocks.
   *
   * @param direct The same file opened with O_DIRECT.
   */
  constructor(handle: FileHandle, reserved: number, direct?: FileHandle) {
    this.#handle = handle;
    this.#direct = direct;
    this.#flushed = reserved;
  }

  get position(): number {
    return this.#flushed + this.#used;
  }

  /** The bytes are copied. A promise only where the caller has to wait. */
  append(part: Buffer): Promise<void> | undefined {
    if (this.#used + part.length < BUFFER) {
      part.copy(this.#buffer, this.#used);
      this.#used += part.length;
      return undefined;
    }
    return this.#appendLong(part);
  }

  /** Zeros up to the next block. */
  align(): Promise<void> | undefined {
    const rest = this.position % BLOCK;
    return rest === 0 ? undefined : this.append(ZEROS.subarray(rest));
  }

  /** What follows is soon read, so it stays in the page cache. To be called at the end of a block. */
  async keepRest(): Promise<void> {
    await this.#send();
    await Promise.all(this.#writing);
    this.#direct = undefined;
  }

  async flush(): Promise<void> {
    await this.#send();
    await Promise.all(this.#writing);
    await this.#syncing;
    this.#check();
  }

  async #appendLong(part: Buffer): Promise<void> {
    for (let at = 0; at < part.length; ) {
      const taken = part.copy(this.#buffer, this.#used, at);
      at += taken;
      this.#used += taken;
      if (this.#used === BUFFER) await this.#send();
    }
  }

  async #send(): Promise<void> {
    this.#check();
    if (this.#used === 0) return;
    const full = this.#buffer;
    const part = full.subarray(0, this.#used);
    const at = this.#flushed;
    this.#flushed += this.#used;
    this.#used = 0;
    while (this.#writing.length >= IN_FLIGHT) await this.#writing[0];
    this.#buffer = this.#free.pop() ?? wholePages();
    const written = this.#write(part, at).then(
      () => undefined,
      (error: unknown) => {
        this.#failure ??= error as Error;
      },
    );
    const done = written.then(() => {
      void this.#writing.splice(this.#writing.indexOf(done), 1);
      this.#free.push(full);
      if (this.#direct === undefined) this.#sync(part.length);
    });
    this.#writing.push(done);
  }

  #sync(bytes: number): void {
    this.#unsynced += bytes;
    if (this.#syncing !== undefined || this.#unsynced < SYNC_EVERY) return;
    this.#unsynced = 0;
    const over = (): void => {
      this.#syncing = undefined;
    };
    // What the disk cannot take it says again to whoever makes the layer durable.
    this.#syncing = this.#handle.datasync().then(over, over);
  }

  async #write(part: Buffer, position: number): Promise<void> {
    for (let at = 0; at < part.length; ) {
      const direct = this.#direct;
      try {
        const handle = direct ?? this.#handle;
        at += (await handle.write(part, at, part.length - at, position + at)).bytesWritten;
      } catch (error) {
        // Some file systems let a file be opened so and then do not write it, or not from there on.
        if (direct === undefined || (error as NodeJS.ErrnoException).code !== 'EINVAL') throw error;
        this.#direct = undefined;
      }
    }
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}

/** O_DIRECT wants memory that begins with a page, and V8 gives whole pages to what may change its size alone. */
function wholePages(): Buffer {
  return Buffer.from(new ArrayBuffer(BUFFER, { maxByteLength: BUFFER }));
}

const ZEROS = Buffer.alloc(BLOCK);
