// Layers of one image in one form, and the paths of what came of them, one a line and the lowest first.
// Arguments: folder, erofs; store folder; reference; file for the paths; registry (pull and unpack), store (unpack what is there), pull (do not unpack).

import { writeFile } from 'node:fs/promises';
import { pinnedFromStore, pullImage } from '../../src/oci/image/index.ts';
import type { LowerForm } from '../../src/oci/index.ts';
import { hostPlatform } from '../../src/oci/names/index.ts';
import { createRegistryClient } from '../../src/oci/registry/client/index.ts';
import { openStore } from '../../src/oci/store/index.ts';

const [form, directory, reference, paths, from] = process.argv.slice(2) as [
  LowerForm,
  string,
  string,
  string,
  'registry' | 'store' | 'pull',
];
const map = { hostBase: 2 ** 30, size: 2 ** 30 };
const platform = hostPlatform({ platform: process.platform, arch: process.arch });
const transfer = { signal: new AbortController().signal, emit: () => {} };
await using store = await openStore({ directory });
if (from !== 'store') {
  await using registry = createRegistryClient({});
  const unpack = from === 'registry' ? { unpack: map, form } : {};
  await pullImage(registry, store, reference, { ...transfer, platform, ...unpack });
}
if (from !== 'pull') {
  const image = await pinnedFromStore(store, reference, platform);
  if (image === undefined) throw new Error(`${reference} is not in the store`);
  const lowers = await store.lowers(image, map, { ...transfer, form });
  await writeFile(paths, lowers.map(({ path }) => `${path}\n`).join(''));
}
