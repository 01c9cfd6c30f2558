import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import * as system from '../../kernel/system/index.ts';
import { digestOf } from '../names/index.ts';
import { openHidden, showNamed } from './hidden.ts';
import * as locks from './lock.ts';

const { acquireLock: acquire } = await vi.importActual<typeof locks>('./lock.ts');

vi.mock(import('./lock.ts'), async (original) => {
  const actual = await original();
  return { ...actual, acquireLock: vi.fn(actual.acquireLock) };
});

vi.mock(import('../../kernel/system/index.ts'), async (original) => {
  const actual = await original();
  return { ...actual, syncDirectory: vi.fn(actual.syncDirectory) };
});

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'hidden-'));
  vi.mocked(system.syncDirectory).mockClear();
});
afterEach(() => rm(directory, { recursive: true }));

const digest = digestOf('a');

it('the name of the file outlives a power failure as well', async () => {
  const hidden = await openHidden(directory, true);
  expect(system.syncDirectory).not.toHaveBeenCalled();
  await hidden.hide('a', digest);
  expect(vi.mocked(system.syncDirectory).mock.calls).toEqual([[directory]]);
  await hidden.show('a', digest);
  expect(system.syncDirectory).toHaveBeenCalledTimes(1);
});

it('what another server deleted before a long file is made short is heard of', async () => {
  const path = join(directory, '.registry-hidden');
  const gone = `-a@${digest}\n+a@${digest}\n`.repeat(8_000);
  await writeFile(path, gone);
  vi.mocked(locks.acquireLock).mockImplementationOnce(async (...asked) => {
    await writeFile(path, `${gone}-b@${digest}\n`);
    return await acquire(...asked);
  });
  expect((await openHidden(directory, true)).has('b', digest)).toBe(true);
});

const LARGEST = 1024 * 1024;
const file = (): string => join(directory, '.registry-hidden');

it('what is deleted is written down once, a line for each change, for the owner of the store alone', async () => {
  vi.mocked(locks.acquireLock).mockClear();
  const hidden = await openHidden(directory, true);
  expect(hidden.has('a', digest)).toBe(false);
  await hidden.show('a', digest);
  await hidden.hide('a', digest);
  await hidden.hide('a', digest);
  expect([hidden.has('a', digest), hidden.has('b', digest)]).toEqual([true, false]);
  expect(await readFile(file(), 'utf8')).toBe(`\n-a@${digest}\n`);
  await hidden.show('a', digest);
  expect(hidden.has('a', digest)).toBe(false);
  expect(await readFile(file(), 'utf8')).toBe(`\n-a@${digest}\n\n+a@${digest}\n`);
  expect((await stat(file())).mode & 0o777).toBe(0o600);
  expect(vi.mocked(locks.acquireLock).mock.calls).toEqual(
    Array(2).fill([`${file()}.lock`, { signal: expect.any(AbortSignal) }]),
  );
});

it('what is written down is read again, in its order, and what nobody here wrote is not', async () => {
  const other = digestOf('b');
  await writeFile(
    file(),
    [
      `-a@${digest}`,
      `+a@${digest}`,
      `-a@${other}`,
      `-b@${digest}`,
      `xb@${digest}`,
      `-C@${digest}`,
      '-c@sha256:short',
      '-c',
      '',
    ].join('\n'),
  );
  const hidden = await openHidden(directory, false);
  expect([
    hidden.has('a', digest),
    hidden.has('a', other),
    hidden.has('b', digest),
    hidden.has('C', digest),
  ]).toEqual([false, true, true, false]);
});

it('a file is made short once it is longer than a mebibyte, by who may write', async () => {
  const other = digestOf('b');
  const kept = `-a@${digest}\n-b@${other}\n`;
  const lengthAfter = async (length: number, writable: boolean): Promise<number> => {
    await writeFile(file(), kept.padEnd(length, 'x'));
    expect((await openHidden(directory, writable)).has('b', other)).toBe(true);
    return (await readFile(file(), 'utf8')).length;
  };
  expect(await lengthAfter(LARGEST, true)).toBe(LARGEST);
  expect(await lengthAfter(LARGEST + 1, false)).toBe(LARGEST + 1);
  expect(await lengthAfter(LARGEST + 1, true)).toBe(kept.length);
  expect(await readFile(file(), 'utf8')).toBe(kept);
  expect((await stat(file())).mode & 0o777).toBe(0o600);
});

it('what cannot be written down is not done, and what cannot be read is not taken for nothing', async () => {
  const hidden = await openHidden(directory, true);
  await hidden.hide('a', digest);
  await rm(file());
  await mkdir(file());
  await expect(hidden.show('a', digest)).rejects.toMatchObject({ code: 'EISDIR' });
  await expect(hidden.hide('b', digest)).rejects.toMatchObject({ code: 'EISDIR' });
  expect([hidden.has('a', digest), hidden.has('b', digest)]).toEqual([true, false]);
  await expect(openHidden(directory, true)).rejects.toMatchObject({ code: 'EISDIR' });
});

it('what others write meanwhile is heard of, and is not lost by what is written here', async () => {
  const other = digestOf('b');
  const [one, two] = [await openHidden(directory, true), await openHidden(directory, true)];
  const seen = (): readonly boolean[] => [digest, other].map((each) => two.has('a', each));
  await one.hide('a', digest);
  expect(seen()).toEqual([false, false]);
  await two.refresh();
  expect(seen()).toEqual([true, false]);
  await one.show('a', digest);
  await two.hide('a', other);
  expect(seen()).toEqual([false, true]);
  await rm(file());
  await two.refresh();
  expect(seen()).toEqual([false, true]);
});

it('what is named in the store is hidden nowhere, and nothing is written for what never was', async () => {
  const other = digestOf('b');
  const named = vi.fn(async () => new Set([digest, digestOf('c')]));
  await showNamed(directory, named);
  await expect(stat(file())).rejects.toMatchObject({ code: 'ENOENT' });
  const hidden = await openHidden(directory, true);
  await hidden.hide('a', other);
  const before = await readFile(file(), 'utf8');
  await showNamed(directory, named);
  expect(named).toHaveBeenCalledTimes(1);
  expect(await readFile(file(), 'utf8')).toBe(before);
  await hidden.hide('a', digest);
  await hidden.hide('b/c', digest);
  await showNamed(directory, named);
  for (const each of [hidden, await openHidden(directory, false)]) {
    await each.refresh();
    expect([each.has('a', digest), each.has('b/c', digest), each.has('a', other)]).toEqual([
      false,
      false,
      true,
    ]);
  }
  expect((await readFile(file(), 'utf8')).endsWith(`\n\n+*@${digest}\n`)).toBe(true);
  await hidden.hide('a', digest);
  expect((await openHidden(directory, false)).has('a', digest)).toBe(true);
});
