import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { storeContract } from '../../testkit/contracts/store.contract.ts';
import { memoryStore } from '../../testkit/registry/memory-store.ts';
import { type LayoutStore, openStore } from './index.ts';

storeContract('the store on disk', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'skycap-contract-'));
  const opened: LayoutStore[] = [];
  const open = async (): Promise<LayoutStore> => {
    const store = await openStore({ directory: join(directory, 'store') });
    opened.push(store);
    return store;
  };
  return {
    open,
    reopen: open,
    close: async () => {
      for (const store of opened) await store[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
});

storeContract(
  'the memory of the registry tests',
  async () => ({ open: async () => memoryStore(tmpdir()), close: async () => {} }),
  { partial: true },
);
