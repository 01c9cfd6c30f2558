import type { PinnedImage, Platform, Store, TransferOptions } from '../../oci/index.ts';
import type { Argument, Flags, Result } from '../types.ts';
import { findImage, missingPart, platformFlag, platformOf } from './image-common.ts';

/** The arguments of the commands that make an image out of another. */
export const storedImageArgument: Argument = {
  name: 'IMAGE',
  required: true,
  summary: 'an image of the store',
};
export const resultArgument: Argument = {
  name: 'NAME',
  required: true,
  summary: 'name of the image that is made, in the store; may be the same',
};
export const editPlatformFlag = platformFlag;

/** One platform's image of the store, whole. @throws OCI_IMAGE_MISSING, OCI_PLATFORM_MISSING */
export async function storedImage(store: Store, text: string, platform: Platform): Promise<PinnedImage> {
  const { formatPlatform } = await import('../../oci/names/index.ts');
  const { pinnedFromStore } = await (await import('../../oci/index.ts')).loadImages();
  const { name } = await findImage(store, text);
  const image = await pinnedFromStore(store, name, platform);
  if (image === undefined) throw missingPart(name, formatPlatform(platform));
  return image;
}

export async function namedImage(store: Store, text: string, flags: Flags): Promise<PinnedImage> {
  return await storedImage(store, text, platformOf(flags));
}

/** The layers of a stored image for `readTree` and `mergeLayers`. */
export function storedLayers(
  store: Store,
  image: PinnedImage,
): readonly { readonly diffId: PinnedImage['digest']; open(): AsyncIterable<Uint8Array> }[] {
  return image.layers.map(({ digest, diffId }) => ({ diffId, open: () => store.readBlob(digest) }));
}

/** Keeps an image from a prune elsewhere while another is made of it. */
export async function held(store: Store, image: PinnedImage): Promise<AsyncDisposable> {
  return await store.lease(`edit ${image.reference}`, [image.digest]);
}

export function madeResult(image: PinnedImage): Result {
  const { reference, digest, size: sizeBytes, layers } = image;
  return {
    data: { reference, digest, sizeBytes, layers: layers.length },
    text: () => `${reference}@${digest}\n`,
  };
}

export function transferOf(context: TransferOptions): TransferOptions {
  return { signal: context.signal, emit: context.emit };
}
