import { kernelError } from '../../kernel/index.ts';
import { eachLimited } from '../image/parallel.ts';
import { pastWrongMirror } from '../image/past-mirror.ts';
import type { TransferOptions } from '../port.ts';
import type { Descriptor, Digest, Platform } from '../types.ts';
import { type CopyPlan, planCopy } from './plan.ts';
import type { ImageSource, ImageTarget } from './types.ts';

export interface CopyOptions extends TransferOptions {
  /** Empty: all of an index. One: that image alone, without the index. Several: the index cut to them. */
  readonly platforms: readonly Platform[];
  /** Taken where the target holds one platform only and none is asked for. */
  readonly defaultPlatform: Platform;
  /** What refers to the image and its platforms too: referrers, and cosign's tags. */
  readonly referrers: boolean;
  /** Blobs at once; default 4. */
  readonly concurrency?: number;
}

export interface Copied {
  readonly source: string;
  readonly target: string;
  /** What the source's name led to. */
  readonly sourceDigest: Digest;
  /** What the target's name leads to. */
  readonly digest: Digest;
  /** Why the two differ; undefined where they do not. */
  readonly changed?: string;
  /** Why the source's digest is nobody's but ours: archives of Docker and its daemon have no manifest. */
  readonly made?: string;
  /** Of a target that is Docker's. */
  readonly imageId?: Digest;
  readonly manifests: number;
  /** Referrers and signatures among them. */
  readonly referrers: number;
  readonly blobs: { readonly copied: number; readonly present: number; readonly mounted: number };
  /** Bytes of the blobs that moved. */
  readonly copiedBytes: number;
}

/**
 * Copies an image from anywhere to anywhere: blobs first, then manifests from the leaves up, the name last, so that
 * who reads the target meanwhile never finds half an image. What the target has is not sent again; a copy that was
 * broken off goes on where it ended. Bytes that do not have their digest are never named at the target.
 *
 * Memory: the manifests (bounded in sum), and a few chunks for each blob on its way.
 *
 * @throws OCI_MANIFEST_INVALID, OCI_PLATFORM_MISSING, OCI_BLOB_CORRUPT, OCI_BLOB_INCOMPLETE, OCI_BLOB_MISSING,
 *   OCI_CONVERSION_IMPOSSIBLE, DISK_FULL, CANCELLED, and what source and target throw
 */
export async function copyImage(
  source: ImageSource,
  target: ImageTarget,
  options: CopyOptions,
): Promise<Copied> {
  const plan = await planCopy(source, target, options);
  const blobs = [...plan.blobs.values()];
  options.emit({
    type: 'image.copying',
    source: source.name,
    target: target.name,
    manifests: plan.manifests.length,
    blobs: blobs.length,
    sizeBytes: blobs.reduce((sum, blob) => sum + blob.size, 0),
  });
  const counted = await copyBlobs(source, target, { ...options, blobs });
  await putManifests(target, plan, options);
  const finished = await target.finish(plan.root, options);
  options.emit({ type: 'image.copied', source: source.name, target: target.name, digest: finished.digest });
  const why = [...plan.changes, ...(finished.because === undefined ? [] : [finished.because])];
  return {
    source: source.name,
    target: target.name,
    sourceDigest: plan.sourceDigest,
    digest: finished.digest,
    ...(finished.digest === plan.sourceDigest ? {} : { changed: why.join('; ') }),
    ...(source.made === undefined ? {} : { made: source.made }),
    ...(finished.imageId === undefined ? {} : { imageId: finished.imageId }),
    manifests: plan.manifests.length,
    referrers: plan.manifests.filter(({ place }) => place.kind === 'referrer' || place.kind === 'tag').length,
    ...counted,
  };
}

/** The first fault stops the rest. */
async function copyBlobs(
  source: ImageSource,
  target: ImageTarget,
  options: CopyOptions & { readonly blobs: readonly Descriptor[] },
): Promise<Pick<Copied, 'blobs' | 'copiedBytes'>> {
  const blobs = { copied: 0, present: 0, mounted: 0 };
  let copiedBytes = 0;
  const from = mountSource(source, target);
  const mount = from === undefined ? {} : { mountFrom: from };
  // Large ones first: the last to arrive decides.
  const ordered = options.blobs.toSorted((a, b) => b.size - a.size);
  const limited = { limit: options.concurrency ?? 4, signal: options.signal };
  try {
    await eachLimited(ordered, limited, async (blob, signal) => {
      const transfer = { signal, emit: options.emit };
      const how = await pastWrongMirror(
        (offset, read) => source.blob(blob, offset, read),
        transfer,
        (open) => target.putBlob(blob, (offset) => opened(open, offset), { ...transfer, ...mount }),
      );
      blobs[how] += 1;
      if (how === 'copied') copiedBytes += blob.size;
      options.emit({ type: 'blob.copied', digest: blob.digest, sizeBytes: blob.size, how });
    });
  } catch (error) {
    if (options.signal.aborted) throw kernelError('CANCELLED', 'cancelled while an image was copied');
    throw error;
  }
  if (options.signal.aborted) throw kernelError('CANCELLED', 'cancelled while an image was copied');
  return { blobs, copiedBytes };
}

/** Nothing is asked for before the first byte is. */
async function* opened(
  open: (offset: number) => Promise<AsyncIterable<Uint8Array>>,
  offset: number,
): AsyncGenerator<Uint8Array> {
  yield* await open(offset);
}

function mountSource(source: ImageSource, target: ImageTarget): string | undefined {
  const [from, to] = [source.repository, target.repository];
  if (from === undefined || to === undefined || from.registry !== to.registry) return undefined;
  return from.repository === to.repository ? undefined : from.repository;
}

async function putManifests(target: ImageTarget, plan: CopyPlan, options: CopyOptions): Promise<void> {
  const image = plan.manifests.filter(({ place }) => place.kind === 'child');
  const root = plan.manifests.filter(({ place }) => place.kind === 'root');
  const others = plan.manifests.filter(({ place }) => place.kind === 'referrer' || place.kind === 'tag');
  for (const { manifest, place } of image) await target.putManifest(manifest, place, options);
  // A subject first, as some registries ask for, and its name last: who finds it finds its signatures.
  if (others.length > 0) {
    for (const { manifest } of root) await target.putManifest(manifest, { kind: 'child' }, options);
  }
  for (const { manifest, place } of others) await target.putManifest(manifest, place, options);
  for (const { manifest, place } of root) await target.putManifest(manifest, place, options);
}
