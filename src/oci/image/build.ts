import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import {
  type Compression,
  compressLayer,
  decompress,
  normaliseTar,
  packFiles,
  packFolder,
  type VirtualFile,
} from '../layer/index.ts';
import {
  digestOf,
  formatReference,
  isDigest,
  normalizePlatform,
  parseReference,
  withDefaultTag,
} from '../names/index.ts';
import type { Store, TransferOptions } from '../port.ts';
import type { Descriptor, Digest, ImageRunConfig, PinnedImage, Platform } from '../types.ts';
import { OCI_CONFIG, OCI_MANIFEST } from './media-types.ts';
import { pin } from './pinned.ts';
import { spoolBlob } from './spool.ts';

/** What a new image says about itself; left out means empty. */
export type NewConfig = Partial<ImageRunConfig>;

/** What a manifest and a config say of a layer (image-spec, descriptor.md, and config.md, `diff_ids`). */
export interface BuiltLayer {
  readonly descriptor: Descriptor;
  readonly diffId: Digest;
}

/** Where the content of one layer comes from. A folder keeps the owners that its files have on disk. */
export type LayerSource =
  | { readonly folder: string }
  | { readonly tar: string | AsyncIterable<Uint8Array> }
  | { readonly files: Iterable<VirtualFile> };

export interface ImportOptions {
  readonly layers: readonly LayerSource[];
  readonly config: NewConfig;
  /** As the author writes it; a tag is filled in, a digest is refused. */
  readonly reference: string;
  readonly platform: Platform;
  readonly compression?: Compression;
  /** Seconds since 1970 for `created`, and the latest time of a file. Default: not limited, created 1970. */
  readonly sourceDate?: number;
}

/**
 * Makes an image out of folders, tars or files and puts it into the store under its reference. Equal input gives
 * equal digests.
 *
 * @throws OCI_LAYER_INVALID, OCI_LAYER_WRITE, REFERENCE_INVALID, DISK_FULL, CANCELLED
 */
export async function buildImage(
  store: Store,
  options: ImportOptions,
  transfer: TransferOptions,
): Promise<PinnedImage> {
  const layers: BuiltLayer[] = [];
  for (const source of options.layers)
    layers.push(await addLayer(store, source, { ...options, ...transfer }));
  return await assemble(store, { ...options, layers }, transfer);
}

export interface RootfsOptions extends Omit<ImportOptions, 'layers'> {
  /** A folder that becomes the image's root. */
  readonly folder?: string;
  /** Or a tar file of one, packed or not. */
  readonly tar?: string;
}

/** `image import`: one layer from a rootfs folder or tar. */
export async function importRootfs(
  store: Store,
  options: RootfsOptions,
  transfer: TransferOptions,
): Promise<PinnedImage> {
  const { folder, tar, ...rest } = options;
  const source: LayerSource = folder === undefined ? { tar: tar ?? '' } : { folder };
  await stat(folder ?? tar ?? '');
  return await buildImage(store, { ...rest, layers: [source] }, transfer);
}

/**
 * Packs a layer and puts its blob into the store, under no name: a manifest has to lead to it before a prune. Gzip
 * unless another compression is asked for.
 *
 * @throws OCI_LAYER_INVALID, OCI_LAYER_WRITE, DISK_FULL, CANCELLED
 */
export async function addLayer(
  store: Store,
  source: LayerSource,
  options: TransferOptions & { readonly compression?: Compression; readonly sourceDate?: number },
): Promise<BuiltLayer> {
  const limits = options.sourceDate === undefined ? {} : { maxTime: options.sourceDate };
  const packed = compressLayer(openSource(source, limits), options.compression ?? 'gzip');
  const blob = await spoolBlob(store, packed.bytes, options);
  const diffId = packed.diffId();
  if (!isDigest(diffId)) throw new Error('a digest of our own is malformed');
  return { descriptor: { mediaType: packed.mediaType, ...blob }, diffId };
}

function openSource(
  source: LayerSource,
  options: { readonly maxTime?: number },
): AsyncIterable<Uint8Array> | Iterable<Uint8Array> {
  if ('folder' in source) return packFolder(source.folder, options);
  if ('files' in source) return packFiles(source.files);
  const bytes =
    typeof source.tar === 'string' ? createReadStream(source.tar, { highWaterMark: 256 * 1024 }) : source.tar;
  return normaliseTar(decompress(bytes), options);
}

export interface AssembleOptions extends Omit<ImportOptions, 'layers'> {
  readonly layers: readonly BuiltLayer[];
}

/** Config, manifest and name for layers that are in the store. */
async function assemble(
  store: Store,
  options: AssembleOptions,
  transfer: TransferOptions,
): Promise<PinnedImage> {
  const reference = withDefaultTag(parseReference(options.reference));
  const platform = normalizePlatform(options.platform);
  const config = encode(configDocument(options, platform));
  const configBlob = await putBytes(store, { mediaType: OCI_CONFIG, bytes: config }, transfer);
  const manifest = encode({
    schemaVersion: 2,
    mediaType: OCI_MANIFEST,
    config: configBlob,
    layers: options.layers.map((layer) => layer.descriptor),
  });
  const root = await putBytes(store, { mediaType: OCI_MANIFEST, bytes: manifest }, transfer);
  const { parseManifest } = await import('./parse.ts');
  // Read as if it had come from elsewhere, before it takes the name from an image that can be run.
  const image = pin(reference, root, {
    descriptor: root,
    manifest: parseManifest(manifest),
    config,
    platform,
  });
  await store.tag(formatReference(reference), root);
  return image;
}

export function encode(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

export async function putBytes(
  store: Store,
  blob: { readonly mediaType: string; readonly bytes: Uint8Array },
  transfer: TransferOptions,
): Promise<Descriptor> {
  const descriptor = { mediaType: blob.mediaType, digest: digestOf(blob.bytes), size: blob.bytes.length };
  await store.ingest(descriptor, async (offset) => once(blob.bytes.subarray(offset)), transfer);
  return descriptor;
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

function configDocument(options: AssembleOptions, platform: Platform): unknown {
  const { config } = options;
  const created = new Date((options.sourceDate ?? 0) * 1000).toISOString();
  const sorted = (map: Readonly<Record<string, string>>): Record<string, string> =>
    Object.fromEntries(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)));
  return {
    created,
    architecture: platform.architecture,
    os: platform.os,
    ...(platform.variant === undefined ? {} : { variant: platform.variant }),
    config: {
      ...(config.user ? { User: config.user } : {}),
      ...(config.env?.length ? { Env: config.env } : {}),
      ...(config.entrypoint?.length ? { Entrypoint: config.entrypoint } : {}),
      ...(config.cmd?.length ? { Cmd: config.cmd } : {}),
      ...(config.workingDir ? { WorkingDir: config.workingDir } : {}),
      ...(config.labels === undefined ? {} : { Labels: sorted(config.labels) }),
      ...(config.stopSignal === undefined ? {} : { StopSignal: config.stopSignal }),
    },
    rootfs: { type: 'layers', diff_ids: options.layers.map((layer) => layer.diffId) },
    history: options.layers.map(() => ({ created, created_by: 'skycap image import' })),
  };
}
