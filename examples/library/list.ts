import { type Descriptor, loadCopy, loadRegistryClient } from 'skycap/oci';

export interface Listing {
  readonly tags: readonly string[];
  /** What refers to the image: signatures, attestations, SBOMs. */
  readonly referrers: readonly Descriptor[];
}

/**
 * The tags of an image's repository, and what refers to the image.
 *
 * usage: node list.ts IMAGE
 */
export async function list(name: string): Promise<Listing> {
  const { parseTransport } = await loadCopy();
  const { createRegistryClient } = await loadRegistryClient();
  const place = parseTransport(name, 'docker');
  if (place.kind !== 'docker') throw new Error(`${name} is in no registry`);

  await using registry = createRegistryClient({});
  const options = { signal: AbortSignal.timeout(60_000), emit: () => {} };
  const found = await registry.headManifest(place.reference, options);
  const tags = await registry.listTags(place.reference, options);
  if (found === undefined) return { tags, referrers: [] };
  const { digest } = found;
  return { tags, referrers: await registry.listReferrers({ ...place.reference, digest }, options) };
}

if (process.argv[1] === import.meta.filename) {
  const { tags, referrers } = await list(process.argv[2] ?? '');
  for (const tag of tags) console.log(`tag ${tag}`);
  for (const { digest, artifactType } of referrers)
    console.log(`referrer ${digest} ${artifactType ?? ''}`.trim());
}
