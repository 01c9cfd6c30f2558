import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import * as system from '../../../kernel/system/index.ts';
import { digestOf } from '../../names/index.ts';
import * as locks from '../../store/lock.ts';
import { openHidden } from './hidden.ts';

const { acquireLock: acquire } = await vi.importActual<typeof locks>('../../store/lock.ts');

vi.mock(import('../../store/lock.ts'), async (original) => {
  const actual = await original();
  return { ...actual, acquireLock: vi.fn(actual.acquireLock) };
});

vi.mock(import('../../../kernel/system/index.ts'), async (original) => {
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
