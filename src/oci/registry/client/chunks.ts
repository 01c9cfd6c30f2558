/** Reads a source in pieces of a given size; goes back by opening it anew, forward by reading on. */
export interface Chunks extends AsyncDisposable {
  /** Up to `length` bytes from `offset`; the same offset again gives the same bytes without reading. */
  at(offset: number, length: number): Promise<Uint8Array>;
}

export interface ChunkOptions {
  readonly size: number;
  readonly onMismatch: () => Error;
}

export function openChunks(
  source: (offset: number) => AsyncIterable<Uint8Array>,
  options: ChunkOptions,
): Chunks {
  let iterator: AsyncIterator<Uint8Array> | undefined;
  /** Where the iterator stands, and what it gave beyond the last chunk. */
  let position = 0;
  let rest: Uint8Array = new Uint8Array(0);
  let last: { readonly offset: number; readonly bytes: Uint8Array } | undefined;

  async function close(): Promise<void> {
    const open = iterator;
    iterator = undefined;
    await open?.return?.();
  }

  async function fill(length: number): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    let have = 0;
    while (have < length) {
      if (rest.length === 0) {
        const step = await (iterator as AsyncIterator<Uint8Array>).next();
        if (step.done === true) throw options.onMismatch();
        rest = step.value;
        continue;
      }
      const part = rest.subarray(0, length - have);
      rest = rest.subarray(part.length);
      have += part.length;
      parts.push(part);
    }
    return parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts, have);
  }

  return {
    at: async (offset, length) => {
      const wanted = Math.min(length, options.size - offset);
      if (wanted === 0) return new Uint8Array(0);
      if (last !== undefined && last.offset === offset && last.bytes.length === wanted) return last.bytes;
      if (iterator === undefined || position !== offset) {
        await close();
        iterator = source(offset)[Symbol.asyncIterator]();
        position = offset;
        rest = new Uint8Array(0);
      }
      const bytes = await fill(wanted);
      position += wanted;
      last = { offset, bytes };
      return bytes;
    },
    [Symbol.asyncDispose]: close,
  };
}
