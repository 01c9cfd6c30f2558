import { ignoreEvents } from '../kernel/index.ts';
import {
  type Descriptor,
  type Digest,
  imageFault,
  loadImages,
  type ManifestBytes,
  type PinnedImage,
  type Platform,
  type Reference,
  type RegistryClient,
  type Store,
  type TransferOptions,
} from '../oci/index.ts';
import {
  digestOf,
  digestParts,
  formatReference,
  LARGEST_DOCUMENT,
  normalizePlatform,
  parseReference,
  withDefaultTag,
} from '../oci/names/index.ts';
import type { DescribedImage, ImageAccess } from './access.ts';
import { imagesError } from './errors.ts';

/** Images of registries and of the store, as `lock` and `pinImages` need them. */
export function createImageAccess(
  registry: () => Promise<RegistryClient>,
  store: Store,
  options: TransferOptions,
): ImageAccess {
  return {
    describe: async (text) => named(text, async () => describe(await registry(), parse(text), options)),
    async digestOf(text) {
      const reference = parse(text);
      if (reference.digest !== undefined) return reference.digest;
      const client = await registry();
      const head = await client.headManifest(reference, options);
      return (head ?? (await client.getManifest(reference, options)).descriptor).digest;
    },
    fetch: async (text, platform, own) =>
      named(text, async () => {
        const reference = parseReference(text);
        const { pinnedFromStore, pullImage } = await loadImages();
        const present = await pinnedFromStore(store, reference, platform);
        // A name keeps it from a prune; a pull of what is there gives it one and asks no registry.
        const kept = await store.resolve(formatReference(reference));
        if (present !== undefined && kept?.digest === present.digest) return present;
        const signal = AbortSignal.any([options.signal, own]);
        return await pullImage(await registry(), store, reference, { ...options, platform, signal });
      }),
  };
}

/** An action has several images: which one is wrong is said of each fault. */
async function named<T>(text: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw imageFault(text, error);
  }
}

function parse(text: string): Reference {
  return withDefaultTag(parseReference(text));
}

async function describe(
  registry: RegistryClient,
  reference: Reference,
  options: TransferOptions,
): Promise<DescribedImage> {
  const { parseManifestOrIndex } = await loadImages();
  const root = await registry.getManifest(reference, options);
  const parsed = parseManifestOrIndex(root.bytes, root.descriptor.mediaType);
  options.emit({
    type: 'image.resolved',
    reference: formatReference(reference),
    digest: root.descriptor.digest,
  });
  const quiet: TransferOptions = { signal: options.signal, emit: ignoreEvents };
  if (parsed.kind === 'manifest') {
    return {
      digest: root.descriptor.digest,
      platforms: [
        await describeManifest(registry, reference, {
          root: root.descriptor,
          manifest: root,
          options: quiet,
        }),
      ],
    };
  }
  const children = parsed.manifests.filter(isRunnable);
  const platforms = await Promise.all(
    children.map(async (child) => {
      const manifest = await registry.getManifest({ ...withoutTag(reference), digest: child.digest }, quiet);
      return describeManifest(registry, reference, { root: root.descriptor, manifest, options: quiet });
    }),
  );
  if (platforms.length === 0) {
    throw imagesError(
      'IMAGE_PLATFORM',
      `${formatReference(reference)} is an index without an image for any platform`,
      {
        hint: 'name an image that can be run',
      },
    );
  }
  return { digest: root.descriptor.digest, platforms };
}

async function describeManifest(
  registry: RegistryClient,
  reference: Reference,
  context: { readonly root: Descriptor; readonly manifest: ManifestBytes; readonly options: TransferOptions },
): Promise<PinnedImage> {
  const { contentOf, parseImageConfig, parseManifest, pin } = await loadImages();
  const manifest = parseManifest(context.manifest.bytes, context.manifest.descriptor.mediaType);
  const config = await readConfig(registry, reference, { config: manifest.config, options: context.options });
  const platform: Platform = normalizePlatform(parseImageConfig(config, manifest.layers.length).platform);
  const pinned = pin(reference, context.root, {
    descriptor: context.manifest.descriptor,
    manifest,
    config,
    platform,
  });
  return { ...pinned, size: contentOf(manifest).reduce((sum, item) => sum + item.size, 0) };
}

async function readConfig(
  registry: RegistryClient,
  reference: Reference,
  { config, options }: { readonly config: Descriptor; readonly options: TransferOptions },
): Promise<Uint8Array> {
  if (config.size > LARGEST_DOCUMENT) {
    throw imagesError(
      'IMAGE_PLATFORM',
      `${formatReference(reference)}: its config has ${config.size} bytes; ${LARGEST_DOCUMENT} are read`,
    );
  }
  for (const mirrors of [true, false]) {
    const chunks: Uint8Array[] = [];
    let size = 0;
    const blob = await registry.getBlob(withoutTag(reference), config, 0, { ...options, mirrors });
    for await (const chunk of blob) {
      size += chunk.byteLength;
      if (size > config.size) break;
      chunks.push(chunk);
    }
    const bytes = Buffer.concat(chunks);
    const found: Digest = digestOf(bytes, digestParts(config.digest).algorithm);
    if (size === config.size && found === config.digest) return bytes;
    // What a mirror gives wrongly the registry itself may have.
    if (blob.mirror === undefined) break;
  }
  throw imagesError(
    'LOCK_MISMATCH',
    `${formatReference(reference)}: the registry sent a config that is not ${config.digest}`,
    {
      hint: 'the registry or something before it alters content; try again, or pull from a mirror that you trust',
    },
  );
}

function withoutTag({ tag: _, ...rest }: Reference): Reference {
  return rest;
}

/** Indexes of builders also list attestations, whose platform is `unknown/unknown`; those run nothing. */
function isRunnable({ mediaType, platform }: Descriptor): boolean {
  return (
    platform?.os !== 'unknown' && /manifest\.v\d+\+json$|distribution\.manifest\.v2\+json$/.test(mediaType)
  );
}
