import { rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { ociError } from '../errors.ts';
import { OCI_INDEX } from '../image/media-types.ts';
import { encodeJson } from '../image/value.ts';
import type { TransferOptions } from '../port.ts';
import { readBlobFile } from '../store/ingest.ts';
import { makeOwnFolder, takeTurn } from '../store/turn.ts';
import type { Descriptor, Digest, Reference } from '../types.ts';
import { writeArchive } from './archive-writer.ts';
import { CONVERTED, writeDockerArchive } from './docker-target.ts';
import { type FileSet, openFolder } from './files.ts';
import { blobName } from './layout-source.ts';
import { indexEntryOf, layoutTarget, writing } from './layout-target.ts';
import type { Finished, ImageTarget, ManifestPlace } from './types.ts';

/** What has been put at a target, for writing it out in the end. */
interface Collected {
  readonly files: FileSet;
  readonly blobs: ReadonlySet<Digest>;
  readonly entries: readonly { readonly descriptor: Descriptor; readonly place: ManifestPlace }[];
}

export interface StagedOptions {
  readonly name: string;
  /** A folder that is not there yet, or was left, private, by a copy to the same target that was killed. */
  readonly staging: string;
  readonly signal: AbortSignal;
  readonly single?: string;
  /** Called when no other copy to the same target is at work. */
  check?(): Promise<void>;
  finish(collected: Collected, root: Descriptor, transfer: TransferOptions): Promise<Finished>;
}

/** A target that is written when all parts are there; until then they lie in a layout, so that a killed copy goes on. */
export async function stagedTarget(options: StagedOptions): Promise<ImageTarget> {
  const { staging, signal } = options;
  const turn = await writing(staging, takeTurn(`${staging}.lock`, signal));
  const layout = await begin(options).catch(async (error: unknown) => {
    await turn[Symbol.asyncDispose]();
    throw error;
  });
  const blobs = new Set<Digest>();
  const entries: { descriptor: Descriptor; place: ManifestPlace }[] = [];
  let done = false;
  return {
    ...layout,
    ...(options.single === undefined ? {} : { single: options.single }),
    async putBlob(descriptor, open, transfer) {
      blobs.add(descriptor.digest);
      return await layout.putBlob(descriptor, open, transfer);
    },
    async putManifest(manifest, place, transfer) {
      blobs.add(manifest.descriptor.digest);
      if (place.kind !== 'child') entries.push({ descriptor: manifest.descriptor, place });
      await layout.putManifest(manifest, { kind: 'child' }, transfer);
    },
    async finish(root, transfer) {
      await using files = await openFolder(staging);
      const finished = await options.finish({ files, blobs, entries }, root, transfer);
      done = true;
      return finished;
    },
    async [Symbol.asyncDispose]() {
      await layout[Symbol.asyncDispose]();
      if (done || signal.aborted) await rm(staging, { recursive: true, force: true });
      await turn[Symbol.asyncDispose]();
    },
  };
}

async function begin({ name, staging, signal, check }: StagedOptions): Promise<ImageTarget> {
  await check?.();
  await writing(staging, makeOwnFolder(staging));
  return await layoutTarget({ name, path: staging, signal });
}

export interface ArchiveTargetOptions {
  readonly name: string;
  readonly path: string;
  readonly signal: AbortSignal;
  /** Replace a file that is there already. */
  readonly replace: boolean;
}

/** A name beside the archive that the next copy to it finds again. */
function stagingBeside(path: string): string {
  return join(dirname(path), `.${basename(path)}.skycap-copy`);
}

async function checkFree({ path, replace }: ArchiveTargetOptions): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || (found.isFile() && (replace || found.size === 0))) return;
  const what = found.isFile() ? 'is there already' : 'is not a file';
  throw ociError('OCI_ARCHIVE_WRITE', `${path} ${what}`, {
    hint: found.isFile() ? 'name another file, or replace it with --replace' : 'name a file',
  });
}

/** `oci-archive:FILE[:REF]`: an image layout as one tar. */
export async function ociArchiveTarget(
  options: ArchiveTargetOptions & { readonly ref?: string },
): Promise<ImageTarget> {
  await checkFree(options);
  return await stagedTarget({
    name: options.name,
    check: () => checkFree(options),
    staging: stagingBeside(options.path),
    signal: options.signal,
    async finish({ files, blobs, entries }, root, { signal }) {
      const manifests = entries.map(({ descriptor, place }) => indexEntryOf(descriptor, place, options.ref));
      await writeArchive(options.path, signal, async (tar) => {
        await tar.put('oci-layout', Buffer.from('{"imageLayoutVersion":"1.0.0"}'));
        await tar.put('index.json', encodeJson({ schemaVersion: 2, mediaType: OCI_INDEX, manifests }));
        for (const digest of [...blobs].sort()) {
          await tar.stream(blobName(digest), readBlobFile(join(files.path, blobName(digest)), digest));
        }
      });
      return { digest: root.digest };
    },
  });
}

/** `docker-archive:FILE[:NAME]`: what `docker load` reads. */
export async function dockerArchiveTarget(
  options: ArchiveTargetOptions & { readonly reference?: Reference },
): Promise<ImageTarget> {
  await checkFree(options);
  const { path, reference } = options;
  return await stagedTarget({
    name: options.name,
    staging: stagingBeside(path),
    signal: options.signal,
    single: CONVERTED,
    check: () => checkFree(options),
    finish: ({ files }, root, transfer) => writeDockerArchive(files, root, { ...transfer, path, reference }),
  });
}
