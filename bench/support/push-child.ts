// One push in a process of its own. Arguments: store folder, reference in the store, reference at the registry.
import { shippedLibrary } from './library.ts';

const [directory, reference, target] = process.argv.slice(2) as [string, string, string];
const { loadImages, loadRegistryClient, loadStore } = await shippedLibrary();
const [{ pushImage }, { createRegistryClient }, { openStore }] = await Promise.all([
  loadImages(),
  loadRegistryClient(),
  loadStore(),
]);
await using store = await openStore({ directory });
await using registry = createRegistryClient({});
const signal = new AbortController().signal;
await pushImage(registry, store, reference, { target, signal, emit: () => {} });
