import { pullImage } from '../../oci/image/index.ts';
import type { LayoutStore, LowerForm } from '../../oci/index.ts';
import { openStore } from '../../oci/store/index.ts';
import { noise } from '../noise.ts';
import { makeImage } from './index.ts';
import { storeRegistry } from './store-registry.ts';
import { recordingTransfer } from './transfer.ts';

/** What tests interrupt; each can be done again. */
export type StoreOperation = 'open' | 'pull' | 'pull-erofs' | 'import' | 'prune' | 'fsck';

export const pulledName = 'localhost/test/pulled:1';
export const importedName = 'localhost/test/imported:1';
const platform = { os: 'linux', architecture: 'amd64' };

/** A store that the operation `pull` pulls from, with an image of two layers. */
export async function makeSource(directory: string): Promise<void> {
  await using source = await openStore({ directory });
  const layer = (name: string) => ({ files: [{ path: `d/${name}`, content: noise(name, 300_000) }] });
  await makeImage(source, { reference: pulledName, platform, layers: [layer('one'), layer('two')] });
}

/** Opens the store and does one thing with it, from beginning to end. */
export async function operate(
  operation: StoreOperation,
  { directory, source }: { readonly directory: string; readonly source: string },
): Promise<void> {
  await using store = await openStore({ directory });
  const transfer = recordingTransfer();
  if (operation === 'pull') await pullAndUnpack(store, source, 'folder');
  else if (operation === 'pull-erofs') await pullAndUnpack(store, source, 'erofs');
  else if (operation === 'import') {
    await makeImage(store, {
      reference: importedName,
      platform,
      layers: [{ files: [{ path: 'f', content: noise('f', 200_000) }] }],
    });
  } else if (operation === 'prune') await store.prune({ olderThanMs: 0, keep: [] });
  else if (operation === 'fsck') await store.fsck({ repair: true, ...transfer });
}

async function pullAndUnpack(store: LayoutStore, directory: string, form: LowerForm): Promise<void> {
  const transfer = recordingTransfer();
  await using source = await openStore({ directory });
  const image = await pullImage(storeRegistry(source), store, pulledName, { ...transfer, platform });
  await store.lowers(image, undefined, { ...transfer, form });
}
