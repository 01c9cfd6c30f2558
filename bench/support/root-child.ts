// Layers of one image in one form, and the paths of what came of them, one a line and the lowest first.
// Arguments: `folder` or `erofs`; store folder; reference; file for the paths; `registry` (pull and unpack), `store`
// (unpack what is there) or `blobs` (pull and do not unpack); file for the milliseconds that the process took before.
import { writeFile } from 'node:fs/promises';
import type { LowerForm } from '../../src/oci/index.ts';
import { shippedLibrary } from './library.ts';

const [form, directory, reference, paths, from, begun] = process.argv.slice(2) as [
  LowerForm,
  string,
  string,
  string,
  'registry' | 'store' | 'blobs',
  string | undefined,
];
const { loadImages, loadRegistryClient, loadStore } = await shippedLibrary();
const [{ pinnedFromStore, pullImage }, { openStore }] = await Promise.all([loadImages(), loadStore()]);
const map = { hostBase: 2 ** 30, size: 2 ** 30 };
const platform = { os: 'linux', architecture: process.arch === 'x64' ? 'amd64' : process.arch };
const transfer = { signal: new AbortController().signal, emit: () => {} };
await using store = await openStore({ directory });
if (from !== 'store') {
  const { createRegistryClient } = await loadRegistryClient();
  await using registry = createRegistryClient({});
  const unpack = from === 'registry' ? { unpack: map, form } : {};
  await pullImage(registry, store, reference, { ...transfer, platform, ...unpack });
}
if (from !== 'blobs') {
  // For who asks what the unpacking takes: milliseconds from the start of the process until it begins.
  if (begun !== undefined) await writeFile(begun, String(performance.now()));
  const image = await pinnedFromStore(store, reference, platform);
  if (image === undefined) throw new Error(`${reference} is not in the store`);
  const lowers = await store.lowers(image, map, { ...transfer, form });
  await writeFile(paths, lowers.map(({ path }) => `${path}\n`).join(''));
}
