import { ociError } from '../errors.ts';
import { formatReference, parseReference, withDefaultTag } from '../names/index.ts';
import type { RegistryClient, Store, TransferOptions } from '../port.ts';
import type { Descriptor, Digest, Platform, Reference } from '../types.ts';
import { isIndexType, isManifestType } from './media-types.ts';
import { eachLimited } from './parallel.ts';
import { parseManifestOrIndex } from './parse.ts';
import { chooseManifest } from './pinned.ts';

export interface PushOptions extends TransferOptions {
  /** Only this platform's manifest; without it all that the reference leads to. */
  readonly platform?: Platform;
  readonly concurrency?: number;
}

interface Planned {
  /** Children before parents. */
  readonly manifests: { readonly descriptor: Descriptor; readonly bytes: Uint8Array }[];
  readonly blobs: Map<Digest, Descriptor>;
}

/**
 * Sends an image of the store to a registry: blobs, then manifests from the leaves up, the name last, so that nobody
 * sees a name without its content. Blobs of a repository of the same registry are mounted, present ones skipped.
 *
 * @returns what the target's tag leads to now
 * @throws OCI_IMAGE_MISSING, OCI_BLOB_MISSING (a platform of the index was never pulled), OCI_PLATFORM_MISSING,
 *   and what the registry client throws
 */
export async function pushImage(
  registry: RegistryClient,
  store: Store,
  reference: Reference | string,
  options: PushOptions & { readonly target: Reference | string },
): Promise<Descriptor> {
  const source = withDefaultTag(typeof reference === 'string' ? parseReference(reference) : reference);
  const target = withDefaultTag(
    typeof options.target === 'string' ? parseReference(options.target) : options.target,
  );
  const named = await rootOf(store, source);
  const read = (descriptor: Descriptor): Promise<Uint8Array> => store.readSmall(descriptor.digest);
  const root =
    options.platform === undefined ? named : (await chooseManifest(named, options.platform, read)).descriptor;
  await using _lease = await store.lease(`push ${formatReference(target)}`, [root.digest]);
  const planned: Planned = { manifests: [], blobs: new Map() };
  await plan(store, root, planned);
  const mount = source.registry === target.registry && source.repository !== target.repository;
  const limited = { limit: options.concurrency ?? 4, signal: options.signal };
  await eachLimited([...planned.blobs.values()], limited, async (blob, signal) => {
    const size = await store.blobSize(blob.digest);
    if (size === undefined) throw notPulled(blob.digest, source);
    await registry.putBlob(target, blob, (offset) => store.readBlob(blob.digest, offset), {
      ...options,
      signal,
      ...(mount ? { mountFrom: source.repository } : {}),
    });
  });
  const { tag: _tag, ...repository } = target;
  for (const manifest of planned.manifests) {
    const last = manifest === planned.manifests.at(-1);
    const { digest } = manifest.descriptor;
    await registry.putManifest(last ? target : { ...repository, digest }, manifest, options);
  }
  return root;
}

async function rootOf(store: Store, reference: Reference): Promise<Descriptor> {
  const tagged = await store.resolve(formatReference(reference));
  if (tagged !== undefined && (reference.digest === undefined || tagged.digest === reference.digest))
    return tagged;
  const { digest } = reference;
  if (digest !== undefined && (await store.hasBlob(digest))) {
    const bytes = await store.readSmall(digest);
    return { mediaType: parseManifestOrIndex(bytes, undefined).mediaType, digest, size: bytes.length };
  }
  throw ociError('OCI_IMAGE_MISSING', `${formatReference(reference)} is not in the store`, {
    hint: 'pull or import it first; `skycap image list` shows what is there',
  });
}

async function plan(store: Store, descriptor: Descriptor, planned: Planned): Promise<void> {
  if (planned.manifests.some((item) => item.descriptor.digest === descriptor.digest)) return;
  const bytes = await store.readSmall(descriptor.digest);
  const parsed = parseManifestOrIndex(bytes, descriptor.mediaType);
  // From the top: what changed is there, and its upload goes on while the registry is asked about the rest.
  const children =
    parsed.kind === 'index' ? parsed.manifests : [parsed.config, ...parsed.layers.toReversed()];
  for (const child of children) {
    if (isManifestType(child.mediaType) || isIndexType(child.mediaType)) await plan(store, child, planned);
    else planned.blobs.set(child.digest, child);
  }
  planned.manifests.push({ descriptor, bytes });
}

function notPulled(digest: Digest, reference: Reference): Error {
  return ociError(
    'OCI_BLOB_MISSING',
    `${formatReference(reference)} is not here whole: ${digest} is missing`,
    {
      hint: 'push one platform with --platform, or pull the others first',
      details: { digest },
    },
  );
}
