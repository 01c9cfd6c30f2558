import { expect, it } from 'vitest';
import { ByteSource } from './bytes.ts';

it('counts what was taken after its memory was let go of', async () => {
  async function* chunks() {
    yield Buffer.from(new ArrayBuffer(10));
    yield Buffer.from(new ArrayBuffer(5));
  }
  const source = new ByteSource(chunks());
  const first = (await source.some(20)) as Buffer<ArrayBuffer>;
  first.buffer.transfer(0);
  expect((await source.some(20))?.length).toBe(5);
  expect(source.position).toBe(15);
});
