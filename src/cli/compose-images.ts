import type { ImageAccess } from '../images/index.ts';
import type {
  Descriptor,
  Digest,
  LayoutStore,
  PinnedImage,
  Reference,
  RegistryClient,
  TransferOptions,
} from '../oci/index.ts';
import { ociError } from '../oci/index.ts';
import { digestOf, formatReference, parseReference, withDefaultTag } from '../oci/names/index.ts';

type Images = Awaited<ReturnType<typeof import('../oci/index.ts').loadImages>>;

export interface ImageParts {
  readonly registry: RegistryClient;
  readonly store: LayoutStore;
  readonly images: Images;
  readonly transfer: TransferOptions;
}

/** No config of a real image is near this. */
const MAX_CONFIG_BYTES = 8 * 1024 * 1024;

/** The registry and the store behind the port of the images room: locking asks the one, running fills the other. */
export function imageAccess({ registry, store, images, transfer }: ImageParts): ImageAccess {
  async function manifestAt(
    reference: Reference,
  ): Promise<{ readonly descriptor: Descriptor; readonly bytes: Uint8Array }> {
    return await registry.getManifest(reference, transfer);
  }

  /** A manifest below the one that the reference led to: by its digest, from the same repository. */
  async function child({ registry: host, repository }: Reference, digest: Digest): Promise<Uint8Array> {
    if (await store.hasBlob(digest)) {
      return await store.readSmall(digest);
    }
    return (await manifestAt({ registry: host, repository, digest })).bytes;
  }

  async function config(reference: Reference, descriptor: Descriptor): Promise<Uint8Array> {
    if (await store.hasBlob(descriptor.digest)) {
      return await store.readSmall(descriptor.digest);
    }
    return await smallBlob(registry, { reference, descriptor, transfer });
  }

  return {
    async describe(text) {
      const reference = withDefaultTag(parseReference(text));
      const root = await manifestAt(reference);
      const parsed = images.parseManifestOrIndex(root.bytes, root.descriptor.mediaType);
      const children = parsed.kind === 'index' ? parsed.manifests.filter(isRunnable) : [root.descriptor];
      const platforms: PinnedImage[] = [];
      for (const descriptor of children) {
        const bytes =
          descriptor.digest === root.descriptor.digest
            ? root.bytes
            : await child(reference, descriptor.digest);
        const manifest = images.parseManifest(bytes, descriptor.mediaType);
        const configBytes = await config(reference, manifest.config);
        const { platform } = images.parseImageConfig(configBytes, manifest.layers.length);
        platforms.push(
          images.pin(reference, root.descriptor, { descriptor, manifest, config: configBytes, platform }),
        );
      }
      return { digest: root.descriptor.digest, platforms };
    },
    async digestOf(text) {
      const reference = withDefaultTag(parseReference(text));
      const head = await registry.headManifest(reference, transfer);
      return (head ?? (await manifestAt(reference)).descriptor).digest;
    },
    fetch: (reference, platform) => images.pullImage(registry, store, reference, { ...transfer, platform }),
  };
}

/** Indexes of builders also list attestations, whose platform is `unknown/unknown`; those run nothing. */
function isRunnable({ platform }: Descriptor): boolean {
  return platform === undefined || (platform.os !== 'unknown' && platform.architecture !== 'unknown');
}

async function smallBlob(
  registry: RegistryClient,
  {
    reference,
    descriptor,
    transfer,
  }: { readonly reference: Reference; readonly descriptor: Descriptor; readonly transfer: TransferOptions },
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of await registry.getBlob(reference, descriptor, 0, transfer)) {
    size += chunk.byteLength;
    if (size > Math.min(descriptor.size, MAX_CONFIG_BYTES)) {
      break;
    }
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  if (digestOf(bytes) !== descriptor.digest) {
    throw ociError(
      'OCI_BLOB_CORRUPT',
      `${formatReference(reference)}: the config does not have the digest ${descriptor.digest}`,
      {
        hint: 'the registry sends wrong bytes: push the image again',
      },
    );
  }
  return bytes;
}
