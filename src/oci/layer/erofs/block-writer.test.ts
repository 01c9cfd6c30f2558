import type { FileHandle } from 'node:fs/promises';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, it } from 'vitest';
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
