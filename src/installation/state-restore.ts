import type { ContainerFile } from '../engine/index.ts';
import { encodeEntry, endOfArchive, packFiles, padding, readTar, type TarEntry } from '../oci/layer/index.ts';

/**
 * State paths outside the workspace travel in the same archive, below this folder. It exists in archives alone: in
 * the workspace every step that runs could read what is in it.
 */
const outsideFolder = '.skycap-outside';

/** State as it is saved: files of the workspace, and those that lie outside it. */
export async function* savedArchive(
  workspace: AsyncIterable<Uint8Array>,
  outside: readonly ContainerFile[],
): AsyncGenerator<Uint8Array> {
  for await (const { entry, body } of entriesOf(workspace)) {
    // A step's own folder of that name is no way into other containers.
    if (!isOutside(pathOf(entry))) yield* entryBytes(entry, body);
  }
  yield* packFiles(
    outside.map(({ path, content, mode }) => ({ path: `${outsideFolder}${path}`, content, mode })),
  );
}

/**
 * Saved state as it goes into a new workspace. Where the bundle's files changed since it was saved, what the bundle
 * ships now wins over what a run had changed (docs/bundle.md, "State"); `onDropped` names what was left out.
 */
export async function* restorableState(
  saved: AsyncIterable<Uint8Array>,
  to: {
    readonly keeps: (path: string) => boolean;
    readonly onDropped: (path: string) => void;
    /** Absolute paths of files that do not belong into the workspace. */
    readonly onOutside: (path: string, content: Uint8Array) => void;
  },
): AsyncGenerator<Uint8Array> {
  for await (const { entry, body } of entriesOf(saved)) {
    const path = pathOf(entry);
    if (isOutside(path)) {
      if (entry.type === 'file') to.onOutside(path.slice(outsideFolder.length), await contentOf(body));
    } else if (to.keeps(path) || entry.type === 'directory') yield* entryBytes(entry, body);
    else to.onDropped(path);
  }
  yield endOfArchive();
}

/** Saved files that lie outside the workspace, by absolute path. */
export async function outsideFiles(
  saved: AsyncIterable<Uint8Array>,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const files = await tarFiles(saved, isOutside);
  return new Map([...files].map(([path, content]) => [path.slice(outsideFolder.length), content]));
}

/** Whether a path of an archive or a workspace stands for one outside the workspace. */
export function isOutside(path: string): boolean {
  return path === outsideFolder || path.startsWith(`${outsideFolder}/`);
}

/** Contents of the regular files in a tar stream, by path; for a few small files. */
export async function tarFiles(
  archive: AsyncIterable<Uint8Array>,
  isWanted: (path: string) => boolean = () => true,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const files = new Map<string, Uint8Array>();
  for await (const { entry, body } of entriesOf(archive)) {
    const path = pathOf(entry);
    if (entry.type === 'file' && isWanted(path)) files.set(path, await contentOf(body));
  }
  return files;
}

function entriesOf(
  archive: AsyncIterable<Uint8Array>,
): AsyncIterable<{ entry: TarEntry; body: AsyncIterable<Uint8Array> }> {
  return readTar(archive);
}

function pathOf(entry: TarEntry): string {
  return Buffer.from(entry.path, 'latin1').toString('utf8').replace(/\/$/, '');
}

async function* entryBytes(entry: TarEntry, body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield encodeEntry(entry);
  if (entry.size === 0) return;
  yield* body;
  yield padding(entry.size);
}

async function contentOf(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}
