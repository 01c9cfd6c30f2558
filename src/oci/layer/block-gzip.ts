import { constants, crc32, deflateRaw } from 'node:zlib';

/** Bytes of input in a block. Part of the format of our output: another size gives other bytes. */
const BLOCK = 512 * 1024;
/** How far back deflate looks, so a block knows the end of the one before. */
const WINDOW = 32 * 1024;
/** Blocks on their way; the pool of libuv has four threads. A constant, but only memory depends on it. */
const AT_ONCE = 8;
/** Of libraries of Debian, 150 MB: 19 % less time than level 5 and 2.5 % more bytes, 4.7 % more than `gzip -6`. */
const LEVEL = 4;
/** Room for a deflated block that got no smaller: Node comes back to its event loop for each 16 KiB if not told. */
const ROOM = BLOCK + 16 * 1024;
/** RFC 1952: deflate, no flags, no time, no extra flags, unknown system. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);

/**
 * gzip on all cores: blocks are deflated beside each other, each with the end of the one before as its dictionary, and
 * flushed to a byte boundary, so that together they are one member (RFC 1951, section 3.2.3; the way of pigz). The
 * bytes depend on the input alone, not on its chunks or the number of cores.
 */
export async function* blockGzip(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  yield HEADER;
  const waiting: Promise<Buffer>[] = [];
  let checksum = 0;
  let size = 0;
  let before: Buffer | undefined;
  try {
    for await (const block of blocksOf(source)) {
      checksum = crc32(block, checksum);
      size += block.length;
      waiting.push(deflated(block, before, constants.Z_SYNC_FLUSH));
      before = block.subarray(-WINDOW);
      if (waiting.length >= AT_ONCE) yield await (waiting.shift() as Promise<Buffer>);
    }
    waiting.push(deflated(Buffer.alloc(0), undefined, constants.Z_FINISH));
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) yield await next;
  } finally {
    // Someone stopped listening: what is under way ends unheard.
    for (const block of waiting) block.catch(() => undefined);
  }
  const trailer = Buffer.alloc(8);
  trailer.writeUInt32LE(checksum, 0);
  trailer.writeUInt32LE(size % 2 ** 32, 4);
  yield trailer;
}

/** The same blocks, whatever chunks they come in. */
async function* blocksOf(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Buffer> {
  let block = Buffer.allocUnsafe(BLOCK);
  let used = 0;
  for await (const chunk of source) {
    for (let at = 0; at < chunk.length; ) {
      const part = chunk.subarray(at, at + BLOCK - used);
      block.set(part, used);
      used += part.length;
      at += part.length;
      if (used < BLOCK) continue;
      yield block;
      block = Buffer.allocUnsafe(BLOCK);
      used = 0;
    }
  }
  if (used > 0) yield block.subarray(0, used);
}

function deflated(block: Buffer, dictionary: Buffer | undefined, finishFlush: number): Promise<Buffer> {
  const options = {
    level: LEVEL,
    finishFlush,
    chunkSize: ROOM,
    ...(dictionary === undefined ? {} : { dictionary }),
  };
  const result = new Promise<Buffer>((resolve, reject) => {
    deflateRaw(block, options, (error, bytes) => (error === null ? resolve(bytes) : reject(error)));
  });
  // Awaited in order, and a later one may fail first.
  result.catch(() => undefined);
  return result;
}
