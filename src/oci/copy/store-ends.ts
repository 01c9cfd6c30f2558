import { ociError } from '../errors.ts';
import { isIndexType, isManifestType } from '../image/media-types.ts';
import { parseManifestOrIndex } from '../image/parse.ts';
import { referrersTag } from '../image/referrers-tag.ts';
import { formatReference, parseReference, repositoryOf } from '../names/index.ts';
import type { Store } from '../port.ts';
import type { Descriptor, Digest, Reference } from '../types.ts';
import { isSubject } from './referrer-tags.ts';
import type { ImageSource, ImageTarget } from './types.ts';

/** An image of the store. @throws OCI_IMAGE_MISSING from `root` */
export function storeSource(store: Store, reference: Reference): ImageSource {
  const name = formatReference(reference);
  const sizeOf = async (digest: Digest): Promise<number | undefined> => await store.blobSize(digest);
  return {
    name: `store:${name}`,
    async root() {
      const named = await store.resolve(name);
      if (named !== undefined) return named;
      const { digest } = reference;
      const size = digest === undefined ? undefined : await sizeOf(digest);
      if (digest === undefined || size === undefined) {
        throw ociError('OCI_IMAGE_MISSING', `${name} is not in the store`, {
          hint: 'pull or import it first; `skycap image list` shows what is there',
        });
      }
      const { mediaType } = parseManifestOrIndex(await store.readSmall(digest), undefined);
      return { mediaType, digest, size };
    },
    manifest: ({ digest }) => store.readSmall(digest),
    blob: async ({ digest }, offset) => store.readBlob(digest, offset),
    has: ({ digest }) => store.hasBlob(digest),
    async referrers(subject) {
      const found = new Map<Digest, Descriptor>();
      const consider = async (descriptor: Descriptor): Promise<void> => {
        if (!isManifestType(descriptor.mediaType) && !isIndexType(descriptor.mediaType)) return;
        if (!(await store.hasBlob(descriptor.digest))) return;
        const { annotations: _name, platform: _platform, ...plain } = descriptor;
        if (isSubject(await store.readSmall(descriptor.digest), subject)) found.set(plain.digest, plain);
      };
      for (const image of await store.list()) {
        if (repositoryName(image.reference) !== repositoryOf(reference)) continue;
        await consider(image.descriptor);
        if (!image.reference.endsWith(`:${referrersTag(subject)}`)) continue;
        const parsed = parseManifestOrIndex(await store.readSmall(image.descriptor.digest), undefined);
        if (parsed.kind === 'index') for (const child of parsed.manifests) await consider(child);
      }
      return [...found.values()];
    },
    tagged: async (tag) => await store.resolve(`${repositoryOf(reference)}:${tag}`),
    async [Symbol.asyncDispose]() {},
  };
}

function repositoryName(reference: string): string | undefined {
  try {
    return repositoryOf(parseReference(reference));
  } catch {
    return undefined;
  }
}

/** The store, under a name. What belongs to an image has names of its own there, so that a prune keeps it. */
export async function storeTarget(store: Store, reference: Reference): Promise<ImageTarget> {
  const repository = repositoryOf(reference);
  const leases = new AsyncDisposableStack();
  const lease = async (digest: Digest): Promise<void> =>
    void leases.use(await store.lease(`copy ${formatReference(reference)}`, [digest]));
  return {
    name: `store:${formatReference(reference)}`,
    hasManifest: async () => false,
    async putBlob(descriptor, open, options) {
      // Before it is looked up, so that what is found there stays there.
      await lease(descriptor.digest);
      if ((await store.blobSize(descriptor.digest)) === descriptor.size) return 'present';
      await store.ingest(descriptor, async (offset) => open(offset), options);
      return 'copied';
    },
    async putManifest({ descriptor, bytes }, place, options) {
      await lease(descriptor.digest);
      await store.ingest(descriptor, async (offset) => once(bytes.subarray(offset)), options);
      if (place.kind === 'root') await store.tag(formatReference(reference), descriptor);
      if (place.kind === 'tag') await store.tag(`${repository}:${place.tag}`, descriptor);
      if (place.kind === 'referrer') await store.tag(`${repository}@${descriptor.digest}`, descriptor);
    },
    finish: async (root) => ({ digest: root.digest }),
    [Symbol.asyncDispose]: () => leases.disposeAsync(),
  };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
