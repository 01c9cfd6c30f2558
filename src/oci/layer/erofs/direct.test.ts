import { constants, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { plainEntry } from '../../../testkit/layers/index.ts';
import { BLOCK } from './format.ts';
import { openErofsSink } from './sink.ts';

const MIB = 1 << 20;

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-direct-'));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(directory, { recursive: true, force: true });
});

/** Whether the kernel writes this descriptor past its page cache. */
function isDirect(fd: number): boolean {
  const [, flags] = /^flags:\t([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? [];
  return (Number.parseInt(flags as string, 8) & constants.O_DIRECT) !== 0;
}

async function canBeDirect(path: string): Promise<boolean> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_DIRECT;
  return await open(path, flags).then(
    async (handle) => {
      await handle.close();
      return true;
    },
    () => false,
  );
}

/** Each write through any handle: its length, and which way it went. */
async function watchWrites(): Promise<readonly (readonly [length: number, direct: boolean])[]> {
  const writes: (readonly [number, boolean])[] = [];
  const probe = await open(join(directory, 'probe'), 'w');
  await probe.close();
  const prototype = Object.getPrototypeOf(probe) as { write(...args: unknown[]): unknown };
  const original = prototype.write;
  vi.spyOn(prototype, 'write').mockImplementation(function (this: unknown, ...args: unknown[]) {
    writes.push([args[2] as number, isDirect((this as FileHandle).fd)]);
    return original.apply(this, args);
  });
  return writes;
}

/** What this process has open below `folder`. */
function openBelow(folder: string): readonly string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      return path.startsWith(folder) ? [path] : [];
    } catch {
      return [];
    }
  });
}

it('writes bodies past the page cache and what every reader wants through it, and leaves nothing open', async () => {
  const can = await canBeDirect(join(directory, 'other'));
  const writes = await watchWrites();
  const sink = await openErofsSink(join(directory, 'image'));
  const size = 2 * MIB;
  const parts = [Buffer.alloc(size)];
  await sink.put(plainEntry('.', 'directory'), async () => undefined);
  await sink.put({ ...plainEntry('f', 'file'), size }, async () => parts.shift());
  expect(openBelow(directory)).toHaveLength(can ? 2 : 1);
  await sink.finish();
  expect(writes).toEqual([
    [MIB, can],
    [MIB, can],
    [BLOCK, false],
    [BLOCK, false],
  ]);
  expect(openBelow(directory)).toEqual([]);
});

it('leaves nothing open where it is stopped', async () => {
  const sink = await openErofsSink(join(directory, 'image'));
  await sink.abort();
  expect(openBelow(directory)).toEqual([]);
});
