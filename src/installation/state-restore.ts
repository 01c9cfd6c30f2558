import { encodeEntry, endOfArchive, padding, readTar, type TarEntry } from '../oci/layer/index.ts';

/**
 * Saved state as it goes into a new workspace. Where the bundle's files changed since it was saved, what the bundle
 * ships now wins over what a run had changed (docs/bundle.md, "State"); `onDropped` names what was left out.
 */
export async function* restorableState(
  saved: AsyncIterable<Uint8Array>,
  keeps: (path: string) => boolean,
  onDropped: (path: string) => void,
): AsyncGenerator<Uint8Array> {
  for await (const { entry, body } of entriesOf(saved)) {
    const path = Buffer.from(entry.path, 'latin1').toString('utf8').replace(/\/$/, '');
    if (!keeps(path) && entry.type !== 'directory') {
      onDropped(path);
      continue;
    }
    yield encodeEntry(entry);
    if (entry.size === 0) continue;
    for await (const chunk of body) yield chunk;
    yield padding(entry.size);
  }
  yield endOfArchive();
}

/** Contents of the regular files in a tar stream, by path; for a few small files. */
export async function tarFiles(
  archive: AsyncIterable<Uint8Array>,
  isWanted: (path: string) => boolean = () => true,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const files = new Map<string, Uint8Array>();
  for await (const { entry, body } of entriesOf(archive)) {
    const path = Buffer.from(entry.path, 'latin1').toString('utf8');
    if (entry.type !== 'file' || !isWanted(path)) continue;
    const chunks: Uint8Array[] = [];
    for await (const chunk of body) chunks.push(chunk);
    files.set(path, Buffer.concat(chunks));
  }
  return files;
}

function entriesOf(
  archive: AsyncIterable<Uint8Array>,
): AsyncIterable<{ entry: TarEntry; body: AsyncIterable<Uint8Array> }> {
  return readTar(archive);
}
