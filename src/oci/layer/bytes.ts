const EMPTY = Buffer.alloc(0);

/** Pulls bytes out of a stream of chunks in the amounts that a parser wants. Holds one chunk at a time. */
export class ByteSource {
  readonly #iterator: AsyncIterator<Uint8Array>;
  #chunk: Buffer = EMPTY;
  #at = 0;
  /** Of the chunk as it came: who took all of it may have let go of its memory since. */
  #length = 0;
  /** Bytes of the chunks before this one. */
  #before = 0;
  #ended = false;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#iterator = source[Symbol.asyncIterator]();
  }

  /** How many bytes have been taken. */
  get position(): number {
    return this.#before + this.#at;
  }

  /** Makes sure that at least one byte is buffered; false at the end. */
  async #fill(): Promise<boolean> {
    while (this.#at >= this.#chunk.length) {
      if (this.#ended) return false;
      const next = await this.#iterator.next();
      if (next.done === true) {
        this.#ended = true;
        return false;
      }
      const value = next.value;
      this.#before += this.#length;
      this.#chunk = Buffer.isBuffer(value)
        ? value
        : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
      this.#at = 0;
      this.#length = this.#chunk.length;
    }
    return true;
  }

  /** Up to `max` bytes as a view that is good until the next call; undefined at the end. */
  async some(max: number): Promise<Buffer | undefined> {
    if (this.#at >= this.#chunk.length && !(await this.#fill())) return undefined;
    const end = Math.min(this.#chunk.length, this.#at + max);
    const view = this.#chunk.subarray(this.#at, end);
    this.#at = end;
    return view;
  }

  /** `length` bytes that follow the next `ahead` ones, not taken; undefined where they are not all at hand. */
  peek(ahead: number, length: number): Buffer | undefined {
    const start = this.#at + ahead;
    if (start + length > this.#chunk.length) return undefined;
    return this.#chunk.subarray(start, start + length);
  }

  /** Passes over bytes that a `peek` has shown to be at hand. */
  pass(length: number): void {
    this.#at += length;
  }

  /** `length` bytes, or what is left before the end. */
  async exactly(length: number): Promise<Buffer> {
    if (this.#chunk.length - this.#at >= length) {
      this.#at += length;
      return this.#chunk.subarray(this.#at - length, this.#at);
    }
    const parts: Buffer[] = [];
    let missing = length;
    while (missing > 0) {
      const part = await this.some(missing);
      if (part === undefined) break;
      parts.push(Buffer.from(part));
      missing -= part.length;
    }
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
  }

  /** @returns how many bytes there were to skip */
  async skip(length: number): Promise<number> {
    let missing = length;
    while (missing > 0) {
      const part = await this.some(missing);
      if (part === undefined) break;
      missing -= part.length;
    }
    return length - missing;
  }

  /** Tells the source that nothing more is wanted. */
  async close(): Promise<void> {
    this.#ended = true;
    this.#chunk = EMPTY;
    this.#at = 0;
    await this.#iterator.return?.();
  }
}
