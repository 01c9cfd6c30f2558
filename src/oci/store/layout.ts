import { mkdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { diskError, ensurePrivateDirectory, writeFileAtomic } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import { digestParts } from '../names/index.ts';
import type { Digest } from '../types.ts';

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
const EMPTY_INDEX =
  '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}';

async function readOrUndefined(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Opens the layout in `directory`, or makes one. A folder with something else in it is left alone.
 *
 * @throws OCI_STORE_INVALID, DISK_FULL
 */
export async function openLayout(directory: string): Promise<Layout> {
  const layout = new Layout(directory);
  const file = await readOrUndefined(join(directory, 'oci-layout'));
  if (file !== undefined) checkVersion(file, directory);
  const own = await readOrUndefined(join(directory, 'skycap-store.json'));
  if (own !== undefined) {
    checkOwnVersion(own, directory);
    if (file !== undefined && (await exists(layout.index))) return layout;
  }
  await ensurePrivateDirectory(directory);
  try {
    for (const path of [
      join(layout.blobs, 'sha256'),
      layout.ingest,
      layout.layers,
      layout.leases,
      layout.trash,
      layout.locks,
    ]) {
      await mkdir(path, { recursive: true, mode: 0o700 });
    }
  } catch (error) {
    throw diskError(error, directory);
  }
  const { acquireLock } = await import('./lock.ts');
  using _lock = await acquireLock(layout.storeLock, {
    signal: new AbortController().signal,
    timeoutMs: 60_000,
  });
  if (!(await exists(layout.index))) await writeFileAtomic(layout.index, EMPTY_INDEX, { mode: 0o644 });
  if (file === undefined) await writeFileAtomic(join(directory, 'oci-layout'), LAYOUT_FILE, { mode: 0o644 });
  await writeFileAtomic(join(directory, 'skycap-store.json'), `{"version":${VERSION}}`);
  return layout;
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
    hint: 'name another folder for the store',
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
    },
  );
}

function readVersion(text: string, key: string): unknown {
  try {
    return (JSON.parse(text) as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}
