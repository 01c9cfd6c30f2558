import { ociError } from '../errors.ts';
import { type FileTree, readTree } from '../image/file-tree.ts';
import { isIndexType, isManifestType, MAX_INDEX_DEPTH } from '../image/media-types.ts';
import { parseManifestOrIndex } from '../image/parse.ts';
import { pastWrongMirror } from '../image/past-mirror.ts';
import { chooseManifest } from '../image/pinned.ts';
import { decodeImage, type ImageValue, layersOf } from '../image/value.ts';
import { formatPlatform, matchPlatform } from '../names/index.ts';
import type { BlobBytes, ReadOptions, TransferOptions } from '../port.ts';
import type { Descriptor, Digest, Platform } from '../types.ts';
import { checkBytes, readSmallBlob } from './plan.ts';
import { cosignTags, isSubject } from './referrer-tags.ts';
import type { ImageSource } from './types.ts';

/** One platform's image of a source, from verified bytes. */
export interface SourceImage {
  /** What the source's name leads to: an index or a manifest. */
  readonly root: Descriptor;
  readonly manifest: Descriptor;
  readonly value: ImageValue;
}

/**
 * The image of a platform as a value, from an index or a manifest (image-spec, image-index.md). Layers are not read.
 *
 * @throws OCI_PLATFORM_MISSING, OCI_MANIFEST_INVALID, OCI_BLOB_CORRUPT, OCI_BLOB_MISSING, and what the source throws
 */
export async function readSourceImage(
  source: ImageSource,
  platform: Platform,
  options: TransferOptions,
): Promise<SourceImage> {
  const root = await source.root(options);
  const read = async (descriptor: Descriptor): Promise<Uint8Array> => {
    const bytes = await source.manifest(descriptor, options);
    checkBytes(descriptor, bytes, source.name);
    return bytes;
  };
  const chosen = await chooseManifest(root, platform, read);
  const config = await readSmallBlob(source, chosen.manifest.config, options);
  const value = decodeImage(await read(chosen.descriptor), config);
  const own = value.config.platform;
  if (matchPlatform([{ platform: own }], platform) === undefined) {
    throw ociError('OCI_PLATFORM_MISSING', `${source.name} is for ${formatPlatform(own)}`, {
      hint: `${formatPlatform(platform)} was asked for`,
    });
  }
  return { root, manifest: chosen.descriptor, value };
}

/**
 * The files of an image, from checked layers. Where a mirror gave other bytes, all are read again without mirrors.
 *
 * @throws OCI_LAYER_INVALID, OCI_LAYER_UNSAFE, OCI_LAYER_LIMIT, OCI_LAYER_DIFFID, and what the source throws
 */
export async function readSourceTree(
  source: ImageSource,
  value: ImageValue,
  options: TransferOptions & { readonly hash?: boolean },
): Promise<FileTree> {
  const { signal, emit, hash = false } = options;
  const open = (layer: Descriptor, read: ReadOptions): Promise<BlobBytes> => source.blob(layer, 0, read);
  return await pastWrongMirror(
    open,
    { signal, emit },
    async (bytesOf: (layer: Descriptor) => Promise<BlobBytes>) => {
      const inputs = layersOf(value).map(({ descriptor, diffId }) => ({
        diffId,
        async *open() {
          let doneBytes = 0;
          for await (const chunk of await bytesOf(descriptor)) {
            doneBytes += chunk.length;
            yield chunk;
          }
          const { digest, size: sizeBytes } = descriptor;
          emit({ type: 'blob.progress', digest, doneBytes, sizeBytes });
        },
      }));
      return await readTree(inputs, { signal, hash });
    },
  );
}

/** What an image consists of, for showing. */
export interface ImagePart {
  readonly kind: 'index' | 'manifest' | 'config' | 'layer' | 'other';
  readonly digest: Digest;
  readonly mediaType: string;
  readonly sizeBytes: number;
  readonly platform?: string;
  readonly artifactType?: string;
  /** How it belongs to what is above it, where it is not a part: `referrer`, or cosign's tag. */
  readonly by?: string;
  /** True where the source does not have it: platforms that were not pulled. */
  readonly isMissing: boolean;
  readonly parts: readonly ImagePart[];
}

/** The index, manifests, configs and layers of an image, and what refers to them. Layers are not read. */
export async function readParts(
  source: ImageSource,
  options: TransferOptions & { readonly referrers: boolean },
): Promise<ImagePart> {
  const seen = new Set<Digest>();
  const visit = async (descriptor: Descriptor, depth: number, by?: string): Promise<ImagePart> => {
    const isManifest = isIndexType(descriptor.mediaType) || isManifestType(descriptor.mediaType);
    if (!isManifest || depth > MAX_INDEX_DEPTH || seen.has(descriptor.digest))
      return partOf(descriptor, 'other', { by });
    if (!(await source.has(descriptor, options))) return partOf(descriptor, 'other', { by, isMissing: true });
    seen.add(descriptor.digest);
    const bytes = await source.manifest(descriptor, options);
    checkBytes(descriptor, bytes, source.name);
    const parsed = parseManifestOrIndex(bytes, descriptor.mediaType);
    const parts: ImagePart[] = [];
    if (parsed.kind === 'index') {
      for (const child of parsed.manifests) parts.push(await visit(child, depth + 1));
    } else {
      parts.push(partOf(parsed.config, 'config', {}));
      for (const layer of parsed.layers) parts.push(partOf(layer, 'layer', {}));
    }
    if (options.referrers) parts.push(...(await belonging(descriptor.digest, depth)));
    const type = descriptor.artifactType ?? (parsed.kind === 'manifest' ? parsed.artifactType : undefined);
    const named = type === undefined ? descriptor : { ...descriptor, artifactType: type };
    return partOf(named, parsed.kind, { by, parts });
  };
  const belonging = async (digest: Digest, depth: number): Promise<readonly ImagePart[]> => {
    const found: ImagePart[] = [];
    for (const referrer of await source.referrers(digest, options)) {
      if (!isSubject(await source.manifest(referrer, options), digest)) continue;
      found.push(await visit(referrer, depth + 1, 'referrer'));
    }
    for (const tag of cosignTags(digest)) {
      const tagged = await source.tagged(tag, options);
      if (tagged !== undefined) found.push(await visit(tagged, depth + 1, tag));
    }
    return found;
  };
  return await visit(await source.root(options), 0);
}

function partOf(
  descriptor: Descriptor,
  kind: ImagePart['kind'],
  more: {
    readonly by?: string | undefined;
    readonly isMissing?: boolean;
    readonly parts?: readonly ImagePart[];
  },
): ImagePart {
  const { digest, mediaType, size, platform, artifactType } = descriptor;
  return {
    kind,
    digest,
    mediaType,
    sizeBytes: size,
    ...(platform === undefined ? {} : { platform: formatPlatform(platform) }),
    ...(artifactType === undefined ? {} : { artifactType }),
    ...(more.by === undefined ? {} : { by: more.by }),
    isMissing: more.isMissing ?? false,
    parts: more.parts ?? [],
  };
}
