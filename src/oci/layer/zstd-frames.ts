import { ByteSource } from './bytes.ts';
import { invalid } from './limits.ts';

/** RFC 8878, "Zstandard Frames" and "Blocks". */
const MAGIC = 0xfd2fb528;
const GATHER = 64 * 1024;
const DICTIONARY_BYTES = [0, 1, 2, 4];
const CONTENT_SIZE_BYTES = [0, 2, 4, 8];

export function isSkippable(magic: number): boolean {
  return magic >= 0x184d2a50 && magic <= 0x184d2a5f;
}

/**
 * Cuts a zstd stream where its frames end and leaves skippable frames out. Node's decoder stops for good, and
 * quietly, when a chunk goes on behind the end of a frame; cut there, it takes the next frame as it should.
 */
export async function* zstdFrames(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const bytes = new ByteSource(source);
  try {
    for (;;) {
      const head = await bytes.exactly(4);
      if (head.length === 0) return;
      const magic = head.length < 4 ? 0 : head.readUInt32LE(0);
      if (isSkippable(magic)) {
        const size = (await needed(bytes, 4)).readUInt32LE(0);
        if ((await bytes.skip(size)) < size) throw cut();
      } else if (magic === MAGIC) yield* frame(bytes, head);
      else throw invalid('rubbish follows the zstd stream');
    }
  } finally {
    await bytes.close();
  }
}

async function* frame(bytes: ByteSource, magic: Buffer): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [magic];
  let gathered = 0;
  const descriptor = await needed(bytes, 1);
  const flags = descriptor[0] as number;
  const single = (flags & 0x20) !== 0;
  const contentSize = (CONTENT_SIZE_BYTES[flags >> 6] as number) || (single ? 1 : 0);
  parts.push(
    descriptor,
    await needed(bytes, (single ? 0 : 1) + (DICTIONARY_BYTES[flags & 3] as number) + contentSize),
  );
  for (let last = false; !last; ) {
    const header = await needed(bytes, 3);
    const word = header.readUIntLE(0, 3);
    last = (word & 1) !== 0;
    const type = (word >> 1) & 3;
    if (type === 3) throw invalid('a zstd block has a reserved type');
    parts.push(header);
    for (let left = type === 1 ? 1 : word >> 3; left > 0; ) {
      const part = await bytes.some(left);
      if (part === undefined) throw cut();
      parts.push(part);
      left -= part.length;
      gathered += part.length;
      if (gathered < GATHER) continue;
      yield Buffer.concat(parts);
      parts = [];
      gathered = 0;
    }
  }
  if ((flags & 4) !== 0) parts.push(await needed(bytes, 4));
  if (parts.length > 0) yield Buffer.concat(parts);
}

async function needed(bytes: ByteSource, length: number): Promise<Buffer> {
  const part = await bytes.exactly(length);
  if (part.length < length) throw cut();
  return part;
}

function cut(): Error {
  return invalid('its zstd stream is cut short');
}
