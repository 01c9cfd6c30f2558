import { dockerError } from './errors.ts';

export type OutputStream = 'stdout' | 'stderr';

/**
 * The attached stream of a container without a terminal (Engine API, "Attach to a container", "Stream format"): a
 * header of eight bytes, then as many of the payload as it says. Both may be split anywhere.
 */
export class FrameDecoder {
  readonly #onChunk: (stream: OutputStream, chunk: Buffer) => void;
  readonly #header = Buffer.alloc(8);
  #have = 0;
  #left = 0;
  #stream: OutputStream = 'stdout';

  constructor(onChunk: (stream: OutputStream, chunk: Buffer) => void) {
    this.#onChunk = onChunk;
  }

  push(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#left > 0) {
        const part = bytes.subarray(at, at + this.#left);
        this.#left -= part.length;
        at += part.length;
        this.#onChunk(this.#stream, part);
        continue;
      }
      const part = bytes.subarray(at, at + 8 - this.#have);
      part.copy(this.#header, this.#have);
      this.#have += part.length;
      at += part.length;
      if (this.#have < 8) return;
      this.#have = 0;
      this.#left = this.#header.readUInt32BE(4);
      const kind = this.#header[0] as number;
      if (kind > 2 || this.#header.readUIntBE(1, 3) !== 0) {
        throw dockerError('ENGINE_DOCKER_FAILED', 'the Docker daemon sent output that is not framed', {
          hint: 'look at the daemon’s log',
        });
      }
      this.#stream = kind === 2 ? 'stderr' : 'stdout';
    }
  }

  /** False if the stream broke off inside a frame. */
  get whole(): boolean {
    return this.#have === 0 && this.#left === 0;
  }
}

/**
 * Takes the first process's own word out of a container's stderr: `MARK ERRNO` and nothing else, where the command
 * could not be executed. Whatever does not begin like that passes at once.
 */
export class StartReport {
  readonly #mark: string;
  readonly #pass: (chunk: Uint8Array) => void;
  #held: Buffer | undefined = Buffer.alloc(0);

  constructor(mark: string, pass: (chunk: Uint8Array) => void) {
    this.#mark = `${mark} `;
    this.#pass = pass;
  }

  push(chunk: Buffer): void {
    if (this.#held === undefined) {
      this.#pass(chunk);
      return;
    }
    const held = Buffer.concat([this.#held, chunk]);
    const text = held.toString('latin1', 0, this.#mark.length + 6);
    const fits =
      text.length < this.#mark.length
        ? this.#mark.startsWith(text)
        : /^\d*\n?$/.test(text.slice(this.#mark.length)) && text.startsWith(this.#mark);
    if (fits && held.length <= this.#mark.length + 5) {
      this.#held = held;
      return;
    }
    this.#held = undefined;
    this.#pass(held);
  }

  /** At the end of the stream: the errno, or undefined. */
  end(): number | undefined {
    const held = this.#held;
    if (held === undefined || held.length === 0) return undefined;
    const report = /^(\d+)\n$/.exec(held.toString('latin1', this.#mark.length));
    if (report !== null && held.toString('latin1').startsWith(this.#mark)) return Number(report[1]);
    this.#pass(held);
    return undefined;
  }
}
