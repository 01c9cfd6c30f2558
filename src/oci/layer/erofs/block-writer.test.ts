import { constants } from 'node:fs';
import { type FileHandle, mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { BlockWriter } from './block-writer.ts';

const MIB = 1 << 20;

/** A file of which the disk takes its time. */
function slowFile() {
  const asked: PromiseWithResolvers<void>[] = [];
  const handle = {
    write: async (_part: Buffer, _at: number, length: number) => ({ bytesWritten: length }),
    datasync: () => {
      asked.push(Promise.withResolvers());
      return (asked.at(-1) as PromiseWithResolvers<void>).promise;
    },
  };
  return { asked, handle: handle as unknown as FileHandle };
}

async function write(writer: BlockWriter, mebibytes: number): Promise<void> {
  for (let count = 0; count < mebibytes; count++) await writer.append(Buffer.alloc(MIB));
  for (let count = 0; count < 10; count++) await turn();
}

it('lets the disk begin early, once at a time, and is done when it is', async () => {
  const { asked, handle } = slowFile();
  const writer = new BlockWriter(handle, 4096);
  await write(writer, 15);
  expect(asked).toHaveLength(0);
  await write(writer, 40);
  expect(asked).toHaveLength(1);
  let done = false;
  const flushed = writer.flush().then(() => {
    done = true;
  });
  for (let count = 0; count < 10; count++) await turn();
  expect(done).toBe(false);
  asked[0]?.resolve();
  await flushed;
  expect(writer.position).toBe(4096 + 55 * MIB);
});

it('leaves it to who makes the layer durable that the disk cannot', async () => {
  const { asked, handle } = slowFile();
  const writer = new BlockWriter(handle, 0);
  await write(writer, 20);
  asked[0]?.reject(new Error('EIO'));
  await writer.flush();
  await write(writer, 20);
  expect(asked).toHaveLength(2);
  asked[1]?.resolve();
  await writer.flush();
});

describe('past the page cache', () => {
  interface Piece {
    readonly through: 'cache' | 'direct';
    readonly length: number;
    readonly position: number;
  }

  /** Two ways to one file, of which `fails` does so from piece `from` on. */
  function twoWays(code?: string, { fails = 'direct', from = 0 }: { fails?: string; from?: number } = {}) {
    const pieces: Piece[] = [];
    const asked: Piece['through'][] = [];
    const way = (through: Piece['through']) =>
      ({
        write: async (_part: Buffer, _at: number, length: number, position: number) => {
          await turn();
          if (through === fails && code !== undefined && pieces.length >= from)
            throw Object.assign(new Error(code), { code });
          pieces.push({ through, length, position });
          return { bytesWritten: length };
        },
        datasync: async () => void asked.push(through),
      }) as unknown as FileHandle;
    return { pieces, asked, handle: way('cache'), direct: way('direct') };
  }

  it('goes what comes before it is told to keep the rest', async () => {
    const { pieces, handle, direct } = twoWays();
    const writer = new BlockWriter(handle, 4096, direct);
    await writer.append(Buffer.alloc(MIB + 8192));
    await writer.keepRest();
    await writer.append(Buffer.alloc(100));
    await writer.flush();
    expect(pieces).toEqual([
      { through: 'direct', length: MIB, position: 4096 },
      { through: 'direct', length: 8192, position: 4096 + MIB },
      { through: 'cache', length: 100, position: 4096 + MIB + 8192 },
    ]);
  });

  it('goes nothing more where the file system can do it no longer, and all is written', async () => {
    const { pieces, handle, direct } = twoWays('EINVAL', { from: 2 });
    const writer = new BlockWriter(handle, 0, direct);
    await write(writer, 5);
    await writer.flush();
    const through = pieces.toSorted((a, b) => a.position - b.position).map((piece) => piece.through);
    expect(through).toEqual(['direct', 'direct', 'cache', 'cache', 'cache']);
    expect(new Set(pieces.map(({ position }) => position)).size).toBe(5);
  });

  it('asks the disk for nothing: it has it', async () => {
    const { asked, handle, direct } = twoWays();
    const writer = new BlockWriter(handle, 0, direct);
    await write(writer, 40);
    await writer.keepRest();
    expect(asked).toEqual([]);
    await write(writer, 20);
    await writer.flush();
    expect(asked).toEqual(['cache']);
  });

  it.each([
    ['EIO', 'direct'],
    ['EINVAL', 'cache'],
  ])('hides no other fault: %s of what goes %s', async (code, fails) => {
    const { handle, direct } = twoWays(code, { fails });
    const writer = new BlockWriter(handle, 0, fails === 'cache' ? undefined : direct);
    await expect(write(writer, 5).then(() => writer.flush())).rejects.toThrow(code);
  });

  it('has memory that the kernel takes for it', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'skycap-direct-'));
    try {
      const path = join(directory, 'image');
      const handle = await open(path, 'wx');
      const direct = await open(path, constants.O_WRONLY | constants.O_DIRECT).catch(() => undefined);
      const cached: number[] = [];
      const noted = {
        write: async (part: Buffer, at: number, length: number, position: number) => {
          cached.push(length);
          return await handle.write(part, at, length, position);
        },
        datasync: async () => undefined,
      } as unknown as FileHandle;
      const writer = new BlockWriter(noted, 0, direct);
      const bytes = Buffer.alloc(3 * MIB + 4096, 'abc');
      await writer.append(bytes);
      await writer.flush();
      await Promise.all([handle.close(), direct?.close()]);
      expect(bytes.equals(await readFile(path))).toBe(true);
      // Where the folder of temporary files is one of memory, an old kernel has no way past the cache.
      expect(cached).toEqual(direct === undefined ? [MIB, MIB, MIB, 4096] : []);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });
});
