import { constants, crc32, createDeflateRaw } from 'node:zlib';
import { isIncompressible, PIECE } from './incompressible.ts';

/** Bytes of input in a block. Part of the format of our output: another size gives other bytes. */
const BLOCK = 512 * 1024;
/** How far back deflate looks, so a block knows the end of the one before. */
const WINDOW = 32 * 1024;
/** Stretches on their way; the pool of libuv has four threads. A constant, but only memory depends on it. */
const AT_ONCE = 16;
/** RFC 1951, section 3.2.4: what a stored block has room for. */
const STORED = 65_535;
/** As `gzip` has it without being asked; the blocks make it 1.5 % larger (libraries of Debian, 150 MB). */
const LEVEL = 6;
/** What a stretch that got no smaller may grow by: Node comes back to its event loop for each 16 KiB if not told. */
const GROWTH = 1024;
/** RFC 1952: deflate, no flags, no time, no extra flags, unknown system. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);

/**
 * gzip on all cores: blocks are deflated beside each other, each with the end of what is before it as its dictionary,
 * and flushed to a byte boundary, so that together they are one member (RFC 1951, section 3.2.3; the way of pigz).
 * What deflate would gain nothing from is stored: trying costs it five times as long as text does. The bytes depend on
 * the input alone, not on its chunks or the number of cores.
 */
export async function* blockGzip(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  yield HEADER;
  const waiting: Promise<readonly Buffer[]>[] = [];
  let checksum = 0;
  let size = 0;
  let before: Buffer | undefined;
  try {
    for await (const block of blocksOf(source)) {
      checksum = crc32(block, checksum);
      size += block.length;
      for (const { start, end, isStored } of stretchesOf(block)) {
        const stretch = block.subarray(start, end);
        waiting.push(
          isStored ? Promise.resolve(stored(stretch)) : deflated(stretch, before, constants.Z_SYNC_FLUSH),
        );
        if (waiting.length >= AT_ONCE) yield* await (waiting.shift() as Promise<readonly Buffer[]>);
        // A dictionary that has mostly what nothing matches costs more than it brings.
        before =
          isStored && stretch.length > WINDOW / 2
            ? undefined
            : block.subarray(Math.max(0, end - WINDOW), end);
      }
    }
    waiting.push(deflated(Buffer.alloc(0), undefined, constants.Z_FINISH));
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) yield* await next;
  } finally {
    // Someone stopped listening: what is under way ends unheard.
    for (const stretch of waiting) stretch.catch(() => undefined);
  }
  const trailer = Buffer.alloc(8);
  trailer.writeUInt32LE(checksum, 0);
  trailer.writeUInt32LE(size % 2 ** 32, 4);
  yield trailer;
}

interface Stretch {
  readonly start: number;
  readonly end: number;
  readonly isStored: boolean;
}

/** Neighbouring pieces of a block that are alike. */
function stretchesOf(block: Buffer): readonly Stretch[] {
  const stretches: Stretch[] = [];
  for (let start = 0; start < block.length; start += PIECE) {
    const end = Math.min(block.length, start + PIECE);
    const isStored = isIncompressible(block, start, end);
    const last = stretches.at(-1);
    if (last?.isStored === isStored) stretches[stretches.length - 1] = { ...last, end };
    else stretches.push({ start, end, isStored });
  }
  return stretches;
}

/** RFC 1951, section 3.2.4, from a byte boundary to the next. */
function stored(stretch: Buffer): readonly Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < stretch.length; at += STORED) {
    const part = stretch.subarray(at, at + STORED);
    const head = Buffer.alloc(5);
    head.writeUInt16LE(part.length, 1);
    head.writeUInt16LE(part.length ^ 0xffff, 3);
    parts.push(head, part);
  }
  return parts;
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

/** One way to the thread pool and back: `deflateRaw` goes twice, which costs as much as a short stretch itself. */
function deflated(
  stretch: Buffer,
  dictionary: Buffer | undefined,
  flush: number,
): Promise<readonly Buffer[]> {
  const deflate = createDeflateRaw({
    level: LEVEL,
    flush,
    chunkSize: stretch.length + GROWTH,
    ...(dictionary === undefined ? {} : { dictionary }),
  });
  const result = new Promise<readonly Buffer[]>((resolve, reject) => {
    const parts: Buffer[] = [];
    deflate.on('error', reject).on('data', (part: Buffer) => parts.push(part));
    deflate.write(stretch, () => {
      deflate.destroy();
      resolve(parts);
    });
  });
  // Awaited in order, and a later one may fail first.
  result.catch(() => undefined);
  return result;
}
