import { createHash } from 'node:crypto';
import {
  type Descriptor,
  type Digest,
  loadImages,
  loadRegistryClient,
  loadStore,
  type Platform,
  type RegistryClient,
  type Store,
} from '../../src/oci/index.ts';
import { isDigest, parseReference } from '../../src/oci/names/index.ts';

/** What we find under a name in some registry, every byte of it checked, every layer unpacked. */
export interface Seen {
  readonly root: Digest;
  readonly manifests: readonly Digest[];
  readonly configs: readonly Digest[];
}

const transfer = { signal: new AbortController().signal, emit: () => {} };

/** Brings everything under a name into an empty store. */
export async function readBack(
  name: string,
  directory: string,
  platforms: readonly Platform[],
): Promise<Seen> {
  const { createRegistryClient } = await loadRegistryClient();
  const { openStore } = await loadStore();
  const { pullImage } = await loadImages();
  await using client = createRegistryClient();
  await using store = await openStore({ directory });
  const seen = await fetchAll(client, store, name);
  for (const platform of platforms) {
    const image = await pullImage(client, store, name, { ...transfer, platform });
    await store.lowers(image, undefined, transfer);
  }
  return seen;
}

export async function fetchAll(client: RegistryClient, store: Store, name: string): Promise<Seen> {
  const { parseManifestOrIndex } = await loadImages();
  const reference = parseReference(name);
  const manifests: Digest[] = [];
  const configs: Digest[] = [];
  const take = (blob: Descriptor): Promise<void> =>
    store.ingest(blob, (offset) => client.getBlob(reference, blob, offset, transfer), transfer);
  const visit = async (digest: Digest | undefined): Promise<Descriptor> => {
    const { tag: _tag, ...repository } = reference;
    const wanted = digest === undefined ? reference : { ...repository, digest };
    const { descriptor, bytes } = await client.getManifest(wanted, transfer);
    const parsed = parseManifestOrIndex(bytes, descriptor.mediaType);
    if (parsed.kind === 'index') {
      for (const child of parsed.manifests) {
        manifests.push(child.digest);
        await visit(child.digest);
      }
    } else {
      configs.push(parsed.config.digest);
      for (const blob of [parsed.config, ...parsed.layers]) await take(blob);
    }
    await store.ingest(
      descriptor,
      async (offset) =>
        (async function* () {
          yield bytes.subarray(offset);
        })(),
      transfer,
    );
    return descriptor;
  };
  const root = await visit(undefined);
  await store.tag(name, root);
  return { root: root.digest, manifests, configs };
}

/** One digest for several, in whatever order they come. */
export function digestOfAll(digests: readonly string[]): Digest {
  const [only] = digests;
  if (digests.length === 1 && isDigest(only)) return only;
  const hash = createHash('sha256').update(digests.toSorted().join('\n'));
  return `sha256:${hash.digest('hex')}` as Digest;
}
