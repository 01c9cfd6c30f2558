import type { FileHandle } from 'node:fs/promises';
import { BLOCK } from './format.ts';

const BUFFER = 1 << 20;
/** One is filled while the others are written. */
const IN_FLIGHT = 2;
/** After so many bytes the disk begins with them: else all of an image would be waited for at its end. */
const SYNC_EVERY = 16 << 20;

/** Appends to a file in large pieces: nobody waits for a write unless the disk is that far behind. */
export class BlockWriter {
  readonly #handle: FileHandle;
  readonly #free: Buffer[] = [];
  readonly #writing: Promise<void>[] = [];
  #buffer: Buffer = Buffer.allocUnsafe(BUFFER);
  #used = 0;
  #flushed: number;
  /** Written and not asked of the disk. */
  #unsynced = 0;
  #syncing: Promise<void> | undefined;
  #failure: Error | undefined;

  /** Starts behind what is reserved at the start of the file. */
  constructor(handle: FileHandle, reserved: number) {
    this.#handle = handle;
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
    this.#buffer = this.#free.pop() ?? Buffer.allocUnsafe(BUFFER);
    const written = this.#write(part, at).then(
      () => undefined,
      (error: unknown) => {
        this.#failure ??= error as Error;
      },
    );
    const done = written.then(() => {
      void this.#writing.splice(this.#writing.indexOf(done), 1);
      this.#free.push(full);
      this.#sync(part.length);
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
      at += (await this.#handle.write(part, at, part.length - at, position + at)).bytesWritten;
    }
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }
}

const ZEROS = Buffer.alloc(BLOCK);
