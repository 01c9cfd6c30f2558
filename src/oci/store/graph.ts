import { parseImageConfig, parseManifestOrIndex } from '../image/parse.ts';
import type { Descriptor, Digest, Platform } from '../types.ts';

/** Reads small blobs; undefined where one is not there. */
export type ReadSmall = (digest: Digest) => Promise<Uint8Array | undefined>;

export interface Reached {
  readonly blobs: Set<Digest>;
  readonly diffIds: Set<Digest>;
  /** Children of manifests that are not there. Children of an index may be: one platform was pulled. */
  readonly missing: Map<Digest, Digest>;
}

const MAX_DEPTH = 8;

/** Everything that `roots` lead to, as far as it is in the store. Foreign content is kept and not entered. */
export async function reach(
  roots: Iterable<Digest>,
  read: ReadSmall,
  has: (digest: Digest) => Promise<boolean>,
): Promise<Reached> {
  const reached: Reached = { blobs: new Set(), diffIds: new Set(), missing: new Map() };
  const visit = async (digest: Digest, mediaType: string | undefined, depth: number): Promise<void> => {
    if (reached.blobs.has(digest) || depth > MAX_DEPTH) return;
    reached.blobs.add(digest);
    if (mediaType !== undefined && !mediaType.endsWith('json')) return;
    const parsed = await parseOrUndefined(digest, read);
    if (parsed === undefined) return;
    if (parsed.kind === 'index') {
      for (const child of parsed.manifests) await visit(child.digest, child.mediaType, depth + 1);
      return;
    }
    for (const child of [parsed.config, ...parsed.layers]) {
      reached.blobs.add(child.digest);
      if (!(await has(child.digest))) reached.missing.set(child.digest, digest);
    }
    for (const diffId of await diffIdsOf(parsed.config.digest, parsed.layers.length, read)) {
      reached.diffIds.add(diffId);
    }
  };
  for (const root of roots) await visit(root, undefined, 0);
  return reached;
}

async function parseOrUndefined(
  digest: Digest,
  read: ReadSmall,
): Promise<ReturnType<typeof parseManifestOrIndex> | undefined> {
  const bytes = await read(digest);
  if (bytes === undefined) return undefined;
  try {
    return parseManifestOrIndex(bytes, undefined);
  } catch {
    return undefined;
  }
}

async function diffIdsOf(config: Digest, layers: number, read: ReadSmall): Promise<readonly Digest[]> {
  const bytes = await read(config);
  if (bytes === undefined) return [];
  try {
    return parseImageConfig(bytes, layers).diffIds;
  } catch {
    return [];
  }
}

/** Sizes and platforms of one named image, for lists. */
export async function describe(
  descriptor: Descriptor,
  read: ReadSmall,
  sizeOf: (digest: Digest) => Promise<number | undefined>,
): Promise<{ readonly sizeBytes: number; readonly platforms: readonly Platform[] }> {
  const platforms: Platform[] = [];
  const seen = new Map<Digest, number>();
  const visit = async (digest: Digest, depth: number): Promise<void> => {
    const size = await sizeOf(digest);
    if (size === undefined || seen.has(digest) || depth > MAX_DEPTH) return;
    seen.set(digest, size);
    const parsed = await parseOrUndefined(digest, read);
    if (parsed?.kind === 'index') for (const child of parsed.manifests) await visit(child.digest, depth + 1);
    if (parsed?.kind !== 'manifest') return;
    for (const child of [parsed.config, ...parsed.layers]) {
      const bytes = await sizeOf(child.digest);
      if (bytes !== undefined) seen.set(child.digest, bytes);
    }
    const config = await read(parsed.config.digest);
    if (config === undefined) return;
    try {
      platforms.push(parseImageConfig(config, parsed.layers.length).platform);
    } catch {
      // An artifact that is no image has no platform.
    }
  };
  await visit(descriptor.digest, 0);
  return { sizeBytes: [...seen.values()].reduce((sum, size) => sum + size, 0), platforms };
}
