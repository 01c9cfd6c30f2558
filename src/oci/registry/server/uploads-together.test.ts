import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { makeUploads } from './uploads.ts';

/** Called when a folder has been listed. */
const listed = vi.hoisted(() => ({ after: async (_path: string): Promise<void> => {} }));
vi.mock(import('node:fs/promises'), async (original) => {
  const real = await original();
  return {
    ...real,
    readdir: (async (...given: Parameters<typeof real.readdir>) => {
      const names = await real.readdir(...given);
      await listed.after(String(given[0]));
      return names;
    }) as typeof real.readdir,
  };
});

it('a server begins while another one on the same store ends', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'uploads-'));
  try {
    const ending = join(directory, '.uploads-ending');
    await mkdir(ending);
    listed.after = async (path) => {
      if (path === directory) await rm(ending, { recursive: true, force: true });
    };
    {
      await using uploads = makeUploads(directory);
      expect(await uploads.begin('a')).toMatchObject({ repository: 'a', size: 0 });
    }
    expect(await readdir(directory)).toEqual([]);
  } finally {
    listed.after = async () => {};
    await rm(directory, { recursive: true, force: true });
  }
});
