import { isSkycapError } from '../../kernel/index.ts';
import { parseIndex } from '../image/parse.ts';
import { referrersTag } from '../image/referrers-tag.ts';
import { formatReference } from '../names/index.ts';
import type { ManifestBytes, RegistryClient, TransferOptions } from '../port.ts';
import type { DistributionClient } from '../registry/client/types.ts';
import type { Descriptor, Digest, Reference } from '../types.ts';
import { sending } from './send.ts';
import type { ImageSource, ImageTarget } from './types.ts';

/** What of a registry client a copy calls; `referrers` where the client knows that part of the protocol. */
export type CopyRegistry = RegistryClient & Partial<Pick<DistributionClient, 'listReferrers'>>;

function at(reference: Reference, digest: Digest): Reference {
  const { tag: _tag, ...repository } = reference;
  return { ...repository, digest };
}

async function orMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isSkycapError(error, 'REGISTRY_NOT_FOUND')) return undefined;
    throw error;
  }
}

/** An image of a registry. */
export function registrySource(registry: CopyRegistry, reference: Reference): ImageSource {
  /** The answer to the name brings the bytes of the root with it. */
  let asked: ManifestBytes | undefined;
  const tagged = async (tag: string, options: TransferOptions): Promise<ManifestBytes | undefined> => {
    const { digest: _digest, ...repository } = reference;
    return await orMissing(registry.getManifest({ ...repository, tag }, options));
  };
  const fallback = async (subject: Digest, options: TransferOptions): Promise<readonly Descriptor[]> => {
    const found = await tagged(referrersTag(subject), options);
    return found === undefined ? [] : parseIndex(found.bytes).manifests;
  };
  return {
    name: `docker://${formatReference(reference)}`,
    repository: reference,
    async root(options) {
      asked = await registry.getManifest(reference, options);
      return { ...asked.descriptor, size: asked.bytes.length };
    },
    async manifest(descriptor, options) {
      if (asked?.descriptor.digest === descriptor.digest) return asked.bytes;
      return (await registry.getManifest(at(reference, descriptor.digest), options)).bytes;
    },
    blob: (descriptor, offset, options) => registry.getBlob(reference, descriptor, offset, options),
    has: async () => true,
    referrers: async (subject, options) =>
      registry.listReferrers === undefined
        ? await fallback(subject, options)
        : await registry.listReferrers(at(reference, subject), options),
    tagged: async (tag, options) => (await tagged(tag, options))?.descriptor,
    async [Symbol.asyncDispose]() {},
  };
}

/** A repository of a registry. Blobs that the registry has elsewhere are mounted, not sent. */
export function registryTarget(registry: CopyRegistry, reference: Reference): ImageTarget {
  return {
    name: `docker://${formatReference(reference)}`,
    repository: reference,
    // What a mirror of it has says nothing of the target.
    hasManifest: async ({ digest }, options) =>
      (await registry.headManifest(at(reference, digest), { ...options, mirrors: false })) !== undefined,
    async putBlob(descriptor, open, options) {
      const send = (offset: number): AsyncIterable<Uint8Array> =>
        sending(descriptor, open, { ...options, offset });
      const how = await registry.putBlob(reference, descriptor, send, options);
      return how === 'uploaded' ? 'copied' : how;
    },
    async putManifest(manifest, place, options) {
      const { digest } = manifest.descriptor;
      const { digest: _digest, ...repository } = reference;
      const named =
        place.kind === 'root'
          ? reference
          : place.kind === 'tag'
            ? { ...repository, tag: place.tag }
            : at(reference, digest);
      await registry.putManifest(named, manifest, options);
    },
    finish: async (root) => ({ digest: root.digest }),
    async [Symbol.asyncDispose]() {},
  };
}
