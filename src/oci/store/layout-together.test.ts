import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { openLayout } from './layout.ts';

/** Called before the store's files are looked at, so that another process can be quicker. */
const before = vi.hoisted(() => ({ open: async (_path: string): Promise<void> => {}, list: async () => {} }));
vi.mock(import('node:fs/promises'), async (original) => {
  const real = await original();
  return {
    ...real,
    open: (async (...given: Parameters<typeof real.open>) => {
      await before.open(String(given[0]));
      return await real.open(...given);
    }) as typeof real.open,
    readdir: (async (...given: Parameters<typeof real.readdir>) => {
      await before.list();
      return await real.readdir(...given);
    }) as typeof real.readdir,
  };
});

/** What is to happen once, at the first call. */
function once(work: () => Promise<unknown>): () => Promise<void> {
  let done = false;
  return async () => {
    if (done) return;
    done = true;
    await work();
  };
}

it.each([
  ['before its mark as ours is looked for', 'skycap-store.json'],
  ['before its names are listed', undefined],
  ['before its mark as a layout is looked for', 'oci-layout'],
])('a store that another process makes %s is no foreign folder', async (_, name) => {
  const directory = await mkdtemp(join(tmpdir(), 'skycap-together-'));
  try {
    const make = once(() => openLayout(join(directory, 'store')));
    before.open = async (path) => (name !== undefined && path.endsWith(name) ? await make() : undefined);
    before.list = async () => (name === undefined ? await make() : undefined);
    expect((await openLayout(join(directory, 'store'))).directory).toBe(join(directory, 'store'));
  } finally {
    before.open = async () => {};
    before.list = async () => {};
    await rm(directory, { recursive: true, force: true });
  }
});
