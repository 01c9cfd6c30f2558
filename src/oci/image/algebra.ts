import { formatReference, parseReference, withDefaultTag } from '../names/index.ts';
import type { Store, TransferOptions } from '../port.ts';
import type { Descriptor, ImageRunConfig, PinnedImage } from '../types.ts';
import { addLayer, type LayerSource, putBytes } from './build.ts';
import { appendLayers, withRunConfig } from './edit.ts';
import { emptyIndex, encodeIndex, type IndexValue, indexAdd } from './index-edit.ts';
import { parseManifest } from './parse.ts';
import { pin } from './pinned.ts';
import { decodeImage, encodeImage, type ImageValue } from './value.ts';

export interface ChangeOptions extends TransferOptions {
  /** The name of the result. */
  readonly reference: string;
}

/** An image of the store as a value. @throws OCI_MANIFEST_INVALID, OCI_BLOB_MISSING */
export async function readImageValue(
  store: Store,
  image: Pick<PinnedImage, 'manifestDigest' | 'configDigest'>,
): Promise<ImageValue> {
  return decodeImage(await store.readSmall(image.manifestDigest), await store.readSmall(image.configDigest));
}

/**
 * Puts an image value into the store under a name; its layers are there already.
 *
 * @throws REFERENCE_INVALID, OCI_BLOB_MISSING where a layer is not there, DISK_FULL
 */
export async function writeImageValue(
  store: Store,
  value: ImageValue,
  options: ChangeOptions,
): Promise<PinnedImage> {
  const reference = withDefaultTag(parseReference(options.reference));
  const { manifest, config } = encodeImage(value);
  await putBytes(store, { mediaType: config.descriptor.mediaType, bytes: config.bytes }, options);
  const root = await putBytes(
    store,
    { mediaType: manifest.descriptor.mediaType, bytes: manifest.bytes },
    options,
  );
  await store.tag(formatReference(reference), root);
  return pin(reference, root, {
    descriptor: root,
    manifest: parseManifest(manifest.bytes),
    config: config.bytes,
    platform: value.config.platform,
  });
}

/** Puts an index into the store under a name; what it names is there already, or at least one of it. */
export async function writeIndexValue(
  store: Store,
  value: IndexValue,
  options: ChangeOptions,
): Promise<Descriptor> {
  const { descriptor, bytes } = encodeIndex(value);
  const root = await putBytes(store, { mediaType: descriptor.mediaType, bytes }, options);
  await store.tag(formatReference(withDefaultTag(parseReference(options.reference))), root);
  return root;
}

/** The image with one more layer on top. Everything else, unknown fields included, stays. */
export async function appendLayer(
  store: Store,
  image: PinnedImage,
  {
    source,
    ...options
  }: ChangeOptions & { readonly source: LayerSource; readonly compression?: 'none' | 'gzip' | 'zstd' },
): Promise<PinnedImage> {
  const layer = await addLayer(store, source, options);
  return await writeImageValue(store, appendLayers(await readImageValue(store, image), [layer]), options);
}

/** The image with other run settings; see `withRunConfig`. */
export async function mutateConfig(
  store: Store,
  image: PinnedImage,
  { edit, ...options }: ChangeOptions & { readonly edit: Partial<ImageRunConfig> },
): Promise<PinnedImage> {
  return await writeImageValue(store, withRunConfig(await readImageValue(store, image), edit), options);
}

/** How an index names an image. */
export async function indexEntry(store: Store, image: PinnedImage): Promise<Descriptor> {
  const bytes = await store.readSmall(image.manifestDigest);
  const { mediaType } = parseManifest(bytes);
  return { mediaType, digest: image.manifestDigest, size: bytes.length, platform: image.platform };
}

/** One name for the images of several platforms. @throws OCI_EDIT_INVALID where two are for one platform */
export async function buildIndex(
  store: Store,
  images: readonly PinnedImage[],
  options: ChangeOptions,
): Promise<Descriptor> {
  let value = emptyIndex();
  for (const image of images) value = indexAdd(value, await indexEntry(store, image));
  return await writeIndexValue(store, value, options);
}
