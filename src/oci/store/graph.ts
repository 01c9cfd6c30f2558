import { parseImageConfig, parseManifestOrIndex } from '../image/parse.ts';
import type { Descriptor, Digest, Platform } from '../types.ts';
import { attempt } from './attempt.ts';

const MAX_DEPTH = 8;

/** Reads small blobs; undefined where one is not there. */
export type ReadSmall = (digest: Digest) => Promise<Uint8Array | undefined>;

/** One layer of a manifest that is there, as its config names it. */
export interface ReachedLayer {
  readonly digest: Digest;
  readonly diffId: Digest;
}

export interface Reached {
  readonly blobs: Set<Digest>;
  readonly diffIds: Set<Digest>;
  /** What manifests need and is not there, and who needs it. Children of an index may be missing: one platform was pulled. */
  readonly missing: Map<Digest, Digest>;
  /** Of all manifests; they say which unpacked layers are theirs. */
  readonly configs: Set<Digest>;
  /** The layers of each manifest, lowest first. */
  readonly images: (readonly ReachedLayer[])[];
}

/**
 * Everything that `roots` lead to, as far as it is in the store. Foreign content is kept and not entered. A digest is
 * entered when it is met as a manifest, even if someone has called it a config or layer before.
 *
 * @throws what `read` throws
 */
export async function reach(
  roots: Iterable<Digest>,
  read: ReadSmall,
  has: (digest: Digest) => Promise<boolean>,
): Promise<Reached> {
  const reached: Reached = {
    blobs: new Set(),
    diffIds: new Set(),
    missing: new Map(),
    configs: new Set(),
    images: [],
  };
  const entered = new Set<Digest>();
  const waiting: Digest[] = [...roots];
  for (let digest = waiting.pop(); digest !== undefined; digest = waiting.pop()) {
    reached.blobs.add(digest);
    if (entered.has(digest)) continue;
    entered.add(digest);
    const parsed = await parseOrUndefined(digest, read);
    if (parsed?.kind === 'index') {
      for (const child of parsed.manifests) {
        reached.blobs.add(child.digest);
        if (child.mediaType.endsWith('json')) waiting.push(child.digest);
      }
    } else if (parsed !== undefined) {
      reached.configs.add(parsed.config.digest);
      for (const child of [parsed.config, ...parsed.layers]) {
        reached.blobs.add(child.digest);
        if (!(await has(child.digest))) reached.missing.set(child.digest, digest);
      }
      const config = await configOrUndefined(parsed.config.digest, parsed.layers.length, read);
      const diffIds = config?.diffIds ?? [];
      for (const diffId of diffIds) reached.diffIds.add(diffId);
      const layers = parsed.layers.flatMap((layer, index) => {
        const diffId = diffIds[index];
        return diffId === undefined ? [] : [{ digest: layer.digest, diffId }];
      });
      if (layers.length > 0) reached.images.push(layers);
    }
  }
  return reached;
}

async function parseOrUndefined(
  digest: Digest,
  read: ReadSmall,
): Promise<ReturnType<typeof parseManifestOrIndex> | undefined> {
  const bytes = await read(digest);
  return bytes === undefined ? undefined : attempt(() => parseManifestOrIndex(bytes, undefined));
}

/** undefined where it is not there, or is no config of an image with so many layers. */
async function configOrUndefined(
  digest: Digest,
  layers: number,
  read: ReadSmall,
): Promise<ReturnType<typeof parseImageConfig> | undefined> {
  const bytes = await read(digest);
  return bytes === undefined ? undefined : attempt(() => parseImageConfig(bytes, layers));
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
    // An artifact that is no image has no platform.
    const config = await configOrUndefined(parsed.config.digest, parsed.layers.length, read);
    if (config !== undefined) platforms.push(config.platform);
  };
  await visit(descriptor.digest, 0);
  return { sizeBytes: [...seen.values()].reduce((sum, size) => sum + size, 0), platforms };
}
