import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { MAX_INPUT_BYTES, readUserFile } from './input.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'skycap-input-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function fifo(): string {
  const path = join(folder, 'fifo');
  execFileSync('mkfifo', [path]);
  return path;
}

it('reads a file, a pipe whose writer comes later, and a device that ends', async () => {
  const file = join(folder, 'file');
  writeFileSync(file, 'text');
  expect((await readUserFile(file, 'file')).toString()).toBe('text');
  expect(await readUserFile('/dev/null', 'file')).toHaveLength(0);
  const path = fifo();
  const read = readUserFile(path, 'file');
  const bytes = Buffer.alloc(1 << 20, 'x');
  await writeFile(path, bytes);
  expect(bytes.equals(await read)).toBe(true);
});

it('reads no device without end, no file that is too large, and no folder', async () => {
  const refused = { code: 'FILE_UNREADABLE', exitCode: 2, place: { file: '/dev/zero' } };
  await expect(readUserFile('/dev/zero', 'parameters file')).rejects.toMatchObject(refused);
  const sparse = join(folder, 'sparse');
  writeFileSync(sparse, '');
  truncateSync(sparse, MAX_INPUT_BYTES + 1);
  await expect(readUserFile(sparse, 'file')).rejects.toThrow(/more than 64 MiB/);
  await expect(readUserFile(folder, 'file')).rejects.toThrow(/it is a folder/);
  await expect(readUserFile(join(folder, 'none'), 'file')).rejects.toThrow(/there is no such file/);
});

it('stops waiting for the writer of a pipe when it is cancelled', async () => {
  const cancel = new AbortController();
  const read = readUserFile(fifo(), 'file', cancel.signal);
  setImmediate(() => cancel.abort());
  await expect(read).rejects.toMatchObject({ code: 'CANCELLED' });
  const before = readUserFile(join(folder, 'fifo'), 'file', AbortSignal.abort());
  await expect(before).rejects.toMatchObject({ code: 'CANCELLED' });
});
