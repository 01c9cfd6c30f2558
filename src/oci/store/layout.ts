import { constants } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ensurePrivateDirectory, writeFileAtomic } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import { digestParts, isDigest } from '../names/index.ts';
import type { Digest } from '../types.ts';
import { attempt } from './attempt.ts';
import { NAME_ANOTHER, storeError } from './problems.ts';
import { step } from './steps.ts';

/**
 * The store's folder: an OCI image layout (image-spec, image-layout.md) with folders of our own beside it, which
 * other tools ignore.
 */
export class Layout {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  get index(): string {
    return join(this.directory, 'index.json');
  }
  get blobs(): string {
    return join(this.directory, 'blobs');
  }
  get ingest(): string {
    return join(this.directory, 'ingest');
  }
  get layers(): string {
    return join(this.directory, 'layers');
  }
  get leases(): string {
    return join(this.directory, 'leases');
  }
  get trash(): string {
    return join(this.directory, 'trash');
  }
  get locks(): string {
    return join(this.directory, 'locks');
  }

  blob(digest: Digest): string {
    const { algorithm, hex } = digestParts(digest);
    return join(this.blobs, algorithm, hex);
  }

  partial(digest: Digest): string {
    const { algorithm, hex } = digestParts(digest);
    return join(this.ingest, `${algorithm}-${hex}.part`);
  }

  /** Whose partial file has this name; undefined where it is none. */
  partialDigest(name: string): Digest | undefined {
    const digest = name.replace(/\.part$/, '').replace('-', ':');
    return isDigest(digest) ? digest : undefined;
  }

  /** Guards index.json, the leases and the choice of what to prune. Held for moments. */
  get storeLock(): string {
    return join(this.locks, 'store');
  }

  /** A fixed number of lock files, because removing a lock file is a race. Nobody holds two of one kind. */
  blobLock(digest: Digest): string {
    return join(this.locks, `blob-${digestParts(digest).hex.slice(0, 2)}`);
  }

  layerLock(key: string): string {
    return join(this.locks, `layer-${key.slice(0, 2)}`);
  }
}

const LAYOUT_FILE = '{"imageLayoutVersion":"1.0.0"}';
const VERSION = 1;
export const EMPTY_INDEX =
  '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}';

const MOST_BYTES = 64 * 2 ** 20;

/**
 * A whole small file. What is no plain file is an error at once: a FIFO would make us wait for ever.
 *
 * @throws the system's error; EISDIR for everything that is no file
 */
export async function readPlainFile(path: string): Promise<Buffer> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const info = await handle.stat();
    if (!info.isFile() || info.size > MOST_BYTES)
      throw Object.assign(new Error(`${path} is no plain file`), { code: 'EISDIR', path });
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

async function readOrUndefined(path: string): Promise<string | undefined> {
  try {
    return (await readPlainFile(path)).toString('utf8');
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Opens the layout in `directory`, or makes one. A folder with something else in it is left alone.
 *
 * @throws OCI_STORE_INVALID, OCI_STORE_BUSY, DISK_FULL
 */
export async function openLayout(directory: string): Promise<Layout> {
  try {
    return await openOrMake(new Layout(directory));
  } catch (error) {
    throw storeError(error, directory);
  }
}

async function openOrMake(layout: Layout): Promise<Layout> {
  const { directory } = layout;
  const own = await readOrUndefined(join(directory, 'skycap-store.json'));
  if (own !== undefined) checkOwnVersion(own, directory);
  // The names before the mark: another process may be making the same store, and its mark comes after its folders.
  const names = own === undefined ? await namesIn(directory) : [];
  const file = await readOrUndefined(join(directory, 'oci-layout'));
  if (file !== undefined) checkVersion(file, directory);
  if (own !== undefined && file !== undefined) return layout;
  if (file === undefined) refuseForeign(names, directory);
  await ensurePrivateDirectory(directory);
  await makeFolders(layout);
  const { dropDefaultList } = await import('../layer/index.ts');
  await dropDefaultList(layout.layers);
  step('store.folders');
  const { acquireLock } = await import('./lock.ts');
  using _lock = await acquireLock(layout.storeLock, {
    signal: new AbortController().signal,
    timeoutMs: 30_000,
  });
  if (!(await exists(layout.index))) await writeFileAtomic(layout.index, EMPTY_INDEX, { mode: 0o644 });
  step('store.index');
  if (file === undefined) await writeFileAtomic(join(directory, 'oci-layout'), LAYOUT_FILE, { mode: 0o644 });
  step('store.layout');
  // Last: with it the store is whole, and from now on an index.json that is gone is damage.
  await writeFileAtomic(join(directory, 'skycap-store.json'), `{"version":${VERSION}}`);
  return layout;
}

/** Those that are there stay as they are. */
export async function makeFolders(layout: Layout): Promise<void> {
  for (const path of [
    join(layout.blobs, 'sha256'),
    layout.ingest,
    layout.layers,
    layout.leases,
    layout.trash,
    layout.locks,
  ]) {
    await ensurePrivateDirectory(path);
  }
}

/** A store that was being made when its process died has our names only. */
const OURS = /^(blobs|ingest|layers|leases|trash|locks|index\.json|skycap-store\.json|\..*\.tmp)$/;

async function namesIn(directory: string): Promise<readonly string[]> {
  return await readdir(directory).catch((error: { code?: string }) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
}

function refuseForeign(names: readonly string[], directory: string): void {
  const foreign = names.find((name) => !OURS.test(name));
  if (foreign === undefined) return;
  throw ociError('OCI_STORE_INVALID', `${directory} is no store, and not empty (${foreign})`, {
    hint: NAME_ANOTHER,
    place: { file: directory },
  });
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}

function checkVersion(text: string, directory: string): void {
  const version = readVersion(text, 'imageLayoutVersion');
  if (version === '1.0.0') return;
  throw ociError('OCI_STORE_INVALID', `${directory} is not an OCI image layout of version 1.0.0`, {
    hint: NAME_ANOTHER,
    place: { file: join(directory, 'oci-layout') },
  });
}

function checkOwnVersion(text: string, directory: string): void {
  const version = readVersion(text, 'version');
  if (version === VERSION) return;
  throw ociError(
    'OCI_STORE_INVALID',
    `${directory} was made by another version of Skycap (store version ${String(version)})`,
    {
      hint: 'use that version, or name another folder for the store',
      place: { file: join(directory, 'skycap-store.json') },
    },
  );
}

function readVersion(text: string, key: string): unknown {
  return attempt(() => (JSON.parse(text) as Record<string, unknown>)[key]);
}
