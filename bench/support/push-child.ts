// One push in a process of its own. Arguments: store folder, reference in the store, reference at the registry, file for
// the figures: `ms` of the push itself, and `readBytes` that the process read meanwhile, from wherever.
import { readFileSync, writeFileSync } from 'node:fs';
import { shippedLibrary } from './library.ts';

const [directory, reference, target, figures] = process.argv.slice(2) as [string, string, string, string];
const { loadImages, loadRegistryClient, loadStore } = await shippedLibrary();
const [{ pushImage }, { createRegistryClient }, { openStore }] = await Promise.all([
  loadImages(),
  loadRegistryClient(),
  loadStore(),
]);

/** proc_pid_io(5): what read(2) and its like returned. */
function readBytes(): number {
  return Number(/^rchar: ([0-9]+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);
}

const before = readBytes();
const start = performance.now();
{
  await using store = await openStore({ directory });
  await using registry = createRegistryClient({});
  const signal = new AbortController().signal;
  await pushImage(registry, store, reference, { target, signal, emit: () => {} });
}
writeFileSync(figures, JSON.stringify({ ms: performance.now() - start, readBytes: readBytes() - before }));
