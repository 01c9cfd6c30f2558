import { join } from 'node:path';
import { loadImages, loadLayers, loadRegistryClient, loadStore } from 'skycap/oci';

/**
 * Pulls an image into a folder and gives the bytes of one file of it, as its container would see the file.
 *
 * usage: node read-file.ts STORE IMAGE PATH
 */
export async function readFile(directory: string, name: string, path: string): Promise<Buffer | undefined> {
  const { openStore } = await loadStore();
  const { pullImage, readTree } = await loadImages();
  const { createRegistryClient } = await loadRegistryClient();
  const { decompress, readTar } = await loadLayers();

  await using store = await openStore({ directory });
  await using registry = createRegistryClient({});
  const options = { signal: AbortSignal.timeout(600_000), emit: () => {} };
  const image = await pullImage(registry, store, name, {
    ...options,
    platform: { os: 'linux', architecture: 'amd64' },
  });

  // Which layer has the last word about the path; deletions and replacements are settled by the tree.
  const tree = await readTree(
    image.layers.map(({ digest, diffId }) => ({ diffId, open: () => store.readBlob(digest) })),
    options,
  );
  const node = tree.get(path.replace(/^\/+/, ''));
  const layer = node === undefined ? undefined : image.layers[node.layer];
  if (node?.entry.type !== 'file' || layer === undefined) return undefined;
  for await (const { entry, body } of readTar(decompress(store.readBlob(layer.digest)))) {
    if (join('/', entry.path) !== join('/', node.entry.path)) continue;
    const parts: Buffer[] = [];
    for await (const part of body) parts.push(Buffer.from(part));
    return Buffer.concat(parts);
  }
  return undefined;
}

if (process.argv[1] === import.meta.filename) {
  const [directory = '', name = '', path = ''] = process.argv.slice(2);
  const bytes = await readFile(directory, name, path);
  if (bytes === undefined) throw new Error(`${name} has no file ${path}`);
  process.stdout.write(bytes);
}
