/** Memory that nobody else has: of what decompressing made, and of what the store read. Everybody else's is theirs. */
const ours = new WeakSet<ArrayBufferLike>();

/** Nobody but who reads the layer has this chunk. */
export function ownMemory(chunk: Buffer): void {
  ours.add(chunk.buffer);
}

/** The chunks of a file that was opened for nothing else. */
export async function* owned(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    ownMemory(chunk);
    yield chunk;
  }
}

/**
 * Gives memory back of which nothing is needed any more: V8 waits for 64 MiB outside of its heap before it collects, as
 * much as one large file would take, and memory just freed is still in the processor's cache. Nothing happens to what
 * shares its memory with others.
 */
export function letGo({ buffer, byteLength }: Buffer): void {
  if (byteLength === buffer.byteLength && ours.has(buffer)) (buffer as ArrayBuffer).transfer(0);
}
