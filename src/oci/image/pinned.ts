import { ociError } from '../errors.ts';
import {
  formatPlatform,
  formatReference,
  matchPlatform,
  normalizePlatform,
  parseReference,
  repositoryOf,
} from '../names/index.ts';
import type { Store } from '../port.ts';
import type { Descriptor, Digest, PinnedImage, Platform, Reference } from '../types.ts';
import { isIndexType, isManifestType, MAX_INDEX_DEPTH } from './media-types.ts';
import { type Index, type Manifest, parseImageConfig, parseManifestOrIndex } from './parse.ts';

export interface ChosenManifest {
  readonly descriptor: Descriptor;
  readonly manifest: Manifest;
}

/** Gives the verified bytes of a manifest; a pull fetches them, the store reads them. */
export type ReadManifest = (descriptor: Descriptor) => Promise<Uint8Array>;

/**
 * From what a reference led to down to one platform's manifest. Each step follows a digest of verified bytes, so the
 * manifest is a child of that very index.
 *
 * @throws OCI_PLATFORM_MISSING, OCI_MANIFEST_INVALID
 */
export async function chooseManifest(
  root: Descriptor,
  platform: Platform,
  read: ReadManifest,
): Promise<ChosenManifest> {
  let descriptor = root;
  for (let depth = 0; depth <= MAX_INDEX_DEPTH; depth++) {
    const parsed = parseManifestOrIndex(await read(descriptor), descriptor.mediaType || undefined);
    if (parsed.kind === 'manifest') return { descriptor, manifest: parsed };
    descriptor = chooseChild(parsed, platform, descriptor.digest);
  }
  throw ociError(
    'OCI_MANIFEST_INVALID',
    `${root.digest} is nested more than ${MAX_INDEX_DEPTH} indexes deep`,
  );
}

function chooseChild(index: Index, platform: Platform, digest: Digest): Descriptor {
  const children = index.manifests.filter(
    (child) => isManifestType(child.mediaType) || isIndexType(child.mediaType),
  );
  const found = matchPlatform(children, platform);
  if (found !== undefined) return found;
  // One child without a platform is what tools write that know only one.
  const only = children.length === 1 ? children[0] : undefined;
  if (only !== undefined && only.platform === undefined) return only;
  const offered = children.flatMap((child) =>
    child.platform === undefined ? [] : [formatPlatform(child.platform)],
  );
  throw ociError('OCI_PLATFORM_MISSING', `${digest} has no image for ${formatPlatform(platform)}`, {
    hint: offered.length > 0 ? `it has ${offered.join(', ')}` : 'it names no platforms',
    details: { offered },
  });
}

/** Descriptors of everything below a manifest that has to be there to run it. */
export function contentOf(manifest: Manifest): readonly Descriptor[] {
  return [manifest.config, ...manifest.layers];
}

/**
 * What runs, read from verified bytes only.
 *
 * @throws OCI_MANIFEST_INVALID, OCI_PLATFORM_MISSING where the config is for another platform than was asked for
 */
export function pin(
  reference: Reference,
  root: Descriptor,
  chosen: ChosenManifest & { readonly config: Uint8Array; readonly platform: Platform },
): PinnedImage {
  const { manifest, descriptor } = chosen;
  const config = parseImageConfig(chosen.config, manifest.layers.length);
  const candidate = { platform: config.platform };
  if (matchPlatform([candidate], chosen.platform) === undefined) {
    const own = formatPlatform(config.platform);
    throw ociError('OCI_PLATFORM_MISSING', `${formatReference(reference)} is for ${own}`, {
      hint: `${formatPlatform(chosen.platform)} was asked for`,
    });
  }
  return {
    reference: formatReference(reference),
    repository: repositoryOf(reference),
    digest: root.digest,
    manifestDigest: descriptor.digest,
    configDigest: manifest.config.digest,
    platform: normalizePlatform(config.platform),
    config: config.run,
    layers: manifest.layers.map((layer, index) => ({
      digest: layer.digest,
      diffId: config.diffIds[index] as Digest,
      size: layer.size,
      mediaType: layer.mediaType,
    })),
    size: contentOf(manifest).reduce((sum, item) => sum + item.size, 0),
  };
}

/**
 * An image that is in the store whole, without asking anyone.
 *
 * @param reference As written; one with a digest is found by the digest even where no name leads to it.
 * @returns undefined where it, or part of it, is not there
 * @throws OCI_PLATFORM_MISSING, OCI_MANIFEST_INVALID, OCI_BLOB_CORRUPT
 */
export async function pinnedFromStore(
  store: Store,
  reference: Reference | string,
  platform: Platform,
): Promise<PinnedImage | undefined> {
  const parsed = typeof reference === 'string' ? parseReference(reference) : reference;
  const root = await findRoot(store, parsed);
  if (root === undefined || !(await store.hasBlob(root.digest))) return undefined;
  let chosen: ChosenManifest;
  try {
    chosen = await chooseManifest(root, platform, (descriptor) => store.readSmall(descriptor.digest));
  } catch (error) {
    if ((error as { code?: string }).code === 'OCI_BLOB_MISSING') return undefined;
    throw error;
  }
  for (const item of contentOf(chosen.manifest)) {
    if ((await store.blobSize(item.digest)) !== item.size) return undefined;
  }
  const config = await store.readSmall(chosen.manifest.config.digest);
  return pin(parsed, root, { ...chosen, config, platform });
}

async function findRoot(store: Store, reference: Reference): Promise<Descriptor | undefined> {
  if (reference.digest === undefined) return await store.resolve(formatReference(reference));
  const size = await store.blobSize(reference.digest);
  if (size === undefined) return undefined;
  const parsed = parseManifestOrIndex(await store.readSmall(reference.digest), undefined);
  return { mediaType: parsed.mediaType, digest: reference.digest, size };
}
