// One pull in a process of its own, so that its memory can be measured.
// Arguments: store folder, reference, `blobs` or `unpack`.
import { shippedLibrary } from './library.ts';

const [directory, reference, what] = process.argv.slice(2) as [string, string, 'blobs' | 'unpack'];
const { loadImages, loadRegistryClient, loadStore } = await shippedLibrary();
const [{ pullImage }, { createRegistryClient }, { openStore }] = await Promise.all([
  loadImages(),
  loadRegistryClient(),
  loadStore(),
]);
const map = { hostBase: 2 ** 30, size: 2 ** 30 };
const platform = { os: 'linux', architecture: process.arch === 'x64' ? 'amd64' : process.arch };
const transfer = { signal: new AbortController().signal, emit: () => {} };
await using store = await openStore({ directory });
await using registry = createRegistryClient({});
const unpack = what === 'unpack' ? { unpack: map } : {};
const image = await pullImage(registry, store, reference, { ...transfer, platform, ...unpack });
if (what === 'unpack') await store.lowers(image, map, transfer);
