import { readdir, readFile, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isSkycapError, kernelError } from '../../kernel/index.ts';
import { diskError, ensureDirectory, writeFileAtomic } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';
import { isObject, type JsonObject, parseStrictJson } from '../image/json.ts';
import { OCI_INDEX } from '../image/media-types.ts';
import type { TransferOptions } from '../port.ts';
import { ingestBlob, readBlobFile, sizeOf } from '../store/ingest.ts';
import { Layout } from '../store/layout.ts';
import { takeTurn } from '../store/turn.ts';
import type { Descriptor, Digest } from '../types.ts';
import { REF_NAME } from './layout-source.ts';
import type { ImageTarget, ManifestPlace } from './types.ts';

/** Folder in which what is not yet complete lies; gone when the copy is done. Until there is a mark it says who began. */
const OWN = '.skycap-copy';

/** Its turn (store/turn.ts). */
const LOCK = `${OWN}.lock`;

/** What a writer that was killed has left of the two files of a layout. */
const LEFT = /^\.(?:index\.json|oci-layout)\.\d+\.[0-9a-f]{12}\.tmp$/;

/** A layout that other tools own too: nothing of ours stays in it. */
class PlainLayout extends Layout {
  override get ingest(): string {
    return join(this.directory, OWN);
  }
  override get locks(): string {
    return join(this.directory, OWN);
  }
}

export interface LayoutTargetOptions {
  readonly name: string;
  readonly path: string;
  readonly ref?: string;
  readonly signal: AbortSignal;
}

/**
 * An OCI image layout in a folder (image-spec, image-layout.md), made where there is none. Images that it holds under
 * other names stay. A copy that was killed goes on where it ended.
 *
 * @throws OCI_LAYOUT_INVALID where the folder holds something else; OCI_ARCHIVE_WRITE, DISK_FULL
 */
export async function layoutTarget(options: LayoutTargetOptions): Promise<ImageTarget> {
  const layout = new PlainLayout(options.path);
  // Where the folder holds something else nothing of ours is made in it.
  if (!(await isOurs(options.path))) throw foreign(options.path);
  // One copy at a time writes to a layout, so that none tidies away what another is writing.
  const turn = await writing(options.path, takeTurn(join(options.path, LOCK), options.signal));
  try {
    await begin(layout, options.path);
  } catch (error) {
    await turn[Symbol.asyncDispose]();
    throw error;
  }
  const written = new Set<Digest>();
  let isNamed = false;
  const put = async (
    descriptor: Descriptor,
    open: (offset: number) => AsyncIterable<Uint8Array>,
    transfer: TransferOptions,
  ): Promise<'present' | 'copied'> => {
    if (written.has(descriptor.digest)) return 'present';
    if (await writing(options.path, isThere(layout, descriptor, transfer.signal))) return 'present';
    const ingested = ingestBlob(layout, descriptor, { ...transfer, open: async (at) => open(at) });
    await writing(options.path, ingested);
    written.add(descriptor.digest);
    return 'copied';
  };
  return {
    name: options.name,
    hasManifest: async () => false,
    putBlob: put,
    async putManifest({ descriptor, bytes }, place, transfer) {
      await put(descriptor, (at) => once(bytes.subarray(at)), transfer);
      if (place.kind === 'child') return;
      isNamed = true;
      await writing(options.path, enter(layout, indexEntryOf(descriptor, place, options.ref)));
    },
    finish: async (root) => ({ digest: root.digest }),
    async [Symbol.asyncDispose]() {
      // What was stopped on purpose leaves nothing; what broke off keeps what the next try can go on with.
      if (options.signal.aborted && !isNamed) {
        for (const digest of written) await rm(layout.blob(digest), { force: true });
      }
      await tidy(layout);
      await turn[Symbol.asyncDispose]();
      await removeEmpty(layout);
    },
  };
}

/** How an index.json names what was put there. */
export function indexEntryOf(
  descriptor: Descriptor,
  place: ManifestPlace,
  ref: string | undefined,
): JsonObject {
  const { mediaType, digest, size, artifactType } = descriptor;
  const name = place.kind === 'tag' ? place.tag : place.kind === 'root' ? ref : undefined;
  return {
    mediaType,
    digest,
    size,
    ...(artifactType === undefined ? {} : { artifactType }),
    ...(name === undefined ? {} : { annotations: { [REF_NAME]: name } }),
  };
}

/** What somebody else wrote is there once it was read and has its digest; wrong bytes make room for the right ones. */
async function isThere(layout: Layout, { digest, size }: Descriptor, signal: AbortSignal): Promise<boolean> {
  const path = layout.blob(digest);
  if ((await sizeOf(path)) !== size) return false;
  try {
    for await (const _chunk of readBlobFile(path, digest)) {
      if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while a blob was read');
    }
    return true;
  } catch (error) {
    if (!isSkycapError(error, 'OCI_BLOB_CORRUPT')) throw error;
    await rm(path, { force: true });
    return false;
  }
}

async function begin(layout: Layout, path: string): Promise<void> {
  if (!(await isOurs(path))) throw foreign(path);
  const marker = await textOf(join(path, 'oci-layout'));
  if (marker !== undefined && versionOf(marker) !== '1.0.0') {
    throw ociError('OCI_LAYOUT_INVALID', `${path} is a layout of another version than 1.0.0`, {
      hint: 'name another folder',
    });
  }
  if ((await textOf(join(path, 'skycap-store.json'))) !== undefined) {
    throw ociError('OCI_LAYOUT_INVALID', `${path} is a store of Skycap`, {
      hint: 'write store:NAME instead',
    });
  }
  await writing(path, ensureDirectory(layout.ingest));
  await writing(path, ensureDirectory(join(layout.blobs, 'sha256')));
}

/** A layout, or nothing yet, or what another copy is making, or was when it was killed. */
async function isOurs(path: string): Promise<boolean> {
  try {
    // The names before the mark: whoever is making the layout makes its mark last.
    const names = await readdir(path);
    if ((await textOf(join(path, 'oci-layout'))) !== undefined) return true;
    const begun = names.includes(OWN);
    return names.every(
      (name) => [OWN, LOCK, 'blobs'].includes(name) || (begun && (name === 'index.json' || LEFT.test(name))),
    );
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return true;
    throw ociError('OCI_LAYOUT_INVALID', `${path} is not a folder that can be read (${code})`, {
      hint: 'name another folder',
      cause: error,
    });
  }
}

function versionOf(text: string): unknown {
  try {
    return (JSON.parse(text) as { readonly imageLayoutVersion?: unknown } | null)?.imageLayoutVersion;
  } catch {
    return undefined;
  }
}

function foreign(path: string): Error {
  return ociError('OCI_LAYOUT_INVALID', `${path} holds something, and is no OCI image layout`, {
    hint: 'name a new or empty folder',
  });
}

/**
 * The folder stays while it holds a partial blob that is worth going on with, and where an index has no mark beside it
 * yet: without the folder, the next copy would take that for somebody else's.
 */
async function tidy(layout: Layout): Promise<void> {
  const all = await readdir(layout.directory).catch(() => [] as string[]);
  for (const name of all) {
    if (LEFT.test(name)) await rm(join(layout.directory, name), { force: true });
  }
  if (all.includes('index.json') && !all.includes('oci-layout')) return;
  const names = await readdir(layout.ingest).catch(() => [] as string[]);
  if (names.some((name) => name.endsWith('.part'))) return;
  await rm(layout.ingest, { recursive: true, force: true });
  // Nothing came of it: what was made for it and is empty goes again.
  for (const path of [join(layout.blobs, 'sha256'), layout.blobs]) await rmdir(path).catch(() => undefined);
}

/** After its turn: another copy may have begun, and then it is not empty. */
async function removeEmpty(layout: Layout): Promise<void> {
  await rmdir(layout.directory).catch(() => undefined);
}

/** One entry a name; without one, one a digest. What else stands in the file stays. */
async function enter(layout: Layout, entry: JsonObject): Promise<void> {
  const text = await textOf(layout.index);
  const before = text === undefined ? emptyIndex() : readIndex(layout, text);
  const nameOf = (item: unknown): unknown =>
    isObject(item) && isObject(item.annotations) ? item.annotations[REF_NAME] : undefined;
  const name = nameOf(entry);
  const others = (before.manifests as readonly unknown[]).filter((item) => {
    const isSame = isObject(item) && item.digest === entry.digest;
    return name === undefined ? nameOf(item) !== undefined || !isSame : nameOf(item) !== name;
  });
  const bytes = JSON.stringify({ ...before, manifests: [...others, entry] });
  if (bytes !== text) await writeFileAtomic(layout.index, bytes, { mode: 0o644 });
  // Last, for it is what makes the folder a layout.
  const marker = join(layout.directory, 'oci-layout');
  if ((await textOf(marker)) === undefined) {
    await writeFileAtomic(marker, '{"imageLayoutVersion":"1.0.0"}', { mode: 0o644 });
  }
}

function emptyIndex(): JsonObject {
  return { schemaVersion: 2, mediaType: OCI_INDEX, manifests: [] };
}

function readIndex(layout: Layout, text: string): JsonObject {
  const value = parseStrictJson(Buffer.from(text), 'index.json');
  if (isObject(value) && Array.isArray(value.manifests)) return value;
  throw ociError('OCI_LAYOUT_INVALID', `${layout.index} is damaged`, { hint: 'name another folder' });
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw error;
  }
}

/** Faults of the target's file system as a coded error. */
export async function writing<T>(path: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const coded = diskError(error, path);
    const { code } = error as NodeJS.ErrnoException;
    if (isSkycapError(coded) || typeof code !== 'string') throw coded;
    throw ociError('OCI_ARCHIVE_WRITE', `${path} cannot be written (${code})`, {
      hint: `check that ${dirname(path)} is a folder that you may write to`,
      cause: error,
    });
  }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
