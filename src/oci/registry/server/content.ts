import { isSkycapError } from '../../../kernel/index.ts';
import { isDigest, LARGEST_DOCUMENT } from '../../names/index.ts';
import type { Store } from '../../port.ts';
import type { Hidden } from '../../store/hidden.ts';
import type { Descriptor, Digest } from '../../types.ts';
import { manifestMediaType } from '../client/manifest.ts';
import { type Entry, entriesOf, storeNames } from './names.ts';
import { makeQueue, type Queue } from './queue.ts';

const REMEMBERED = 10_000;

/** What a manifest says that the registry needs to know. */
export interface ManifestFacts {
  readonly descriptor: Descriptor;
  readonly subject: Digest | undefined;
  readonly artifactType: string | undefined;
  readonly annotations: Readonly<Record<string, string>> | undefined;
  /** Config, layers or children, those with addresses of their own left out. */
  readonly parts: readonly Digest[];
  readonly isIndex: boolean;
}

export function readFacts(bytes: Uint8Array, digest: Digest, sentAs: string | undefined): ManifestFacts {
  const mediaType = manifestMediaType(bytes, sentAs ?? guess(bytes), digest);
  const body = JSON.parse(Buffer.from(bytes).toString('utf8')) as Body;
  const isIndex = Array.isArray(body.manifests);
  const parts = [body.config, ...(body.layers ?? []), ...(body.manifests ?? [])]
    .filter((part) => !Array.isArray(part?.urls))
    .map((part) => part?.digest)
    .filter(isDigest);
  const subject = body.subject?.digest;
  const artifactType = body.artifactType ?? (isIndex ? undefined : body.config?.mediaType);
  return {
    descriptor: { mediaType, digest, size: bytes.length },
    subject: isDigest(subject) ? subject : undefined,
    artifactType: typeof artifactType === 'string' ? artifactType : undefined,
    annotations: body.annotations,
    parts,
    isIndex,
  };
}

interface Part {
  readonly digest?: unknown;
  readonly mediaType?: string;
  readonly urls?: unknown;
}

interface Body {
  readonly mediaType?: string;
  readonly artifactType?: string;
  readonly config?: Part;
  readonly layers?: readonly Part[] | null;
  readonly manifests?: readonly Part[];
  readonly subject?: Part;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Bodies of the OCI kind need not name their own type. */
function guess(bytes: Uint8Array): string | undefined {
  try {
    const body = JSON.parse(Buffer.from(bytes).toString('utf8')) as Body | null;
    if (typeof body?.mediaType === 'string') return body.mediaType;
    return Array.isArray(body?.manifests)
      ? 'application/vnd.oci.image.index.v1+json'
      : 'application/vnd.oci.image.manifest.v1+json';
  } catch {
    return undefined;
  }
}

/** The store as a registry sees it. */
export interface Content {
  readonly store: Store;
  resolve(
    repository: string,
    what: { readonly tag?: string; readonly digest?: Digest },
  ): Promise<ManifestFacts | undefined>;
  entries(repository: string): Promise<readonly Entry[]>;
  hasBlob(repository: string, digest: Digest): Promise<boolean>;
  /** Deleted here; the bytes stay until the store is pruned. */
  hide(repository: string, digest: Digest): Promise<void>;
  show(repository: string, digest: Digest): Promise<void>;
  /** Shows for good what was deleted and is named again, before names change. */
  settle(repository: string): Promise<void>;
  /** One at a time: what was looked at is what is changed. Among this server's requests; the store has locks of its own. */
  readonly exclusive: Queue;
  facts(
    descriptor: Pick<Descriptor, 'digest'> & { readonly mediaType?: string },
  ): Promise<ManifestFacts | undefined>;
}

export function makeContent(store: Store, hidden: Hidden): Content {
  const known = new Map<Digest, ManifestFacts>();

  async function facts(
    descriptor: Pick<Descriptor, 'digest'> & { readonly mediaType?: string },
  ): Promise<ManifestFacts | undefined> {
    const remembered = known.get(descriptor.digest);
    if (remembered !== undefined) return (await store.hasBlob(descriptor.digest)) ? remembered : undefined;
    const size = await store.blobSize(descriptor.digest);
    if (size === undefined || size > LARGEST_DOCUMENT) return undefined;
    try {
      const found = readFacts(
        await store.readSmall(descriptor.digest),
        descriptor.digest,
        descriptor.mediaType,
      );
      if (known.size >= REMEMBERED) known.clear();
      known.set(descriptor.digest, found);
      return found;
    } catch (error) {
      // A blob that is no manifest is not there under this address.
      if (isSkycapError(error, 'OCI_MANIFEST_INVALID') || isSkycapError(error, 'REGISTRY_ANSWER_INVALID'))
        return undefined;
      throw error;
    }
  }

  const entries = async (repository: string): Promise<readonly Entry[]> =>
    entriesOf(await store.list(), repository);

  /** Deleted here, and since named again by someone who does not ask this server: manifests with all they lead to. */
  async function renamed(repository: string): Promise<ReadonlySet<Digest>> {
    await hidden.refresh();
    const named = (await entries(repository)).map((entry) => entry.descriptor.digest);
    const found = new Set(named.filter((digest) => hidden.has(repository, digest)));
    const manifests = new Set(found);
    for (const digest of manifests) {
      const known = await facts({ digest });
      if (known === undefined) continue;
      for (const part of known.parts) {
        found.add(part);
        if (known.isIndex) manifests.add(part);
      }
    }
    return found;
  }

  const isHidden = async (repository: string, digest: Digest): Promise<boolean> => {
    await hidden.refresh();
    return hidden.has(repository, digest) && !(await renamed(repository)).has(digest);
  };

  return {
    store,
    facts,
    entries,
    resolve: async (repository, { tag, digest }) => {
      if (digest !== undefined)
        return (await isHidden(repository, digest)) ? undefined : await facts({ digest });
      for (const name of storeNames(repository)) {
        const descriptor = await store.resolve(`${name}:${tag}`);
        if (descriptor !== undefined) return await facts(descriptor);
      }
      return undefined;
    },
    hasBlob: async (repository, digest) =>
      !(await isHidden(repository, digest)) && (await store.hasBlob(digest)),
    hide: (repository, digest) => hidden.hide(repository, digest),
    show: (repository, digest) => hidden.show(repository, digest),
    settle: async (repository) => {
      for (const digest of await renamed(repository)) await hidden.show(repository, digest);
    },
    exclusive: makeQueue(),
  };
}
