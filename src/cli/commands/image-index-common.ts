import type { IndexValue } from '../../oci/image/index.ts';
import type { Descriptor, PinnedImage, Store } from '../../oci/index.ts';
import { usage } from '../errors.ts';
import type { Argument, Flag, Flags, Result } from '../types.ts';
import { findImage, missingPart } from './image-common.ts';

export const indexArgument: Argument = { name: 'INDEX', required: true, summary: 'an index of the store' };

export const imagesArgument: Argument = {
  name: 'IMAGE',
  required: true,
  variadic: true,
  summary: 'an image of the store; of an index all its platforms that are here',
};

export const asFlag: Flag = {
  name: 'as',
  own: true,
  type: 'string',
  value: 'NAME',
  summary: 'name of the result; without it the same, which then leads to the new index',
};

/** An index of the store by name. @throws OCI_IMAGE_MISSING, OCI_MANIFEST_INVALID where it is one image */
export async function storedIndex(
  store: Store,
  text: string,
): Promise<{ readonly name: string; readonly digest: Descriptor['digest']; readonly value: IndexValue }> {
  const { name, descriptor } = await findImage(store, text);
  const { isIndex, decodeIndex } = await (await import('../../oci/index.ts')).loadImages();
  if (!isIndex(descriptor)) {
    throw usage(`${name} is one image and no index`, 'make one of it: skycap image index create NAME IMAGE');
  }
  return { name, digest: descriptor.digest, value: decodeIndex(await store.readSmall(descriptor.digest)) };
}

/** The images that are meant by a name, each for its own platform. */
export async function imagesOf(store: Store, text: string): Promise<readonly PinnedImage[]> {
  const { inspectImage, pinnedFromStore, parseImageConfig } = await (
    await import('../../oci/index.ts')
  ).loadImages();
  const { name } = await findImage(store, text);
  const found: PinnedImage[] = [];
  for (const { manifest, config } of (await inspectImage(store, name)).manifests) {
    if (config === undefined) continue;
    const bytes = await store.readSmall(manifest.config.digest);
    const { platform } = parseImageConfig(bytes, manifest.layers.length);
    const image = await pinnedFromStore(store, name, platform);
    if (image !== undefined && !found.some((known) => known.manifestDigest === image.manifestDigest))
      found.push(image);
  }
  if (found.length === 0) throw missingPart(name, 'any platform');
  return found;
}

export function indexName(flags: Flags, name: string): string {
  return flags.string('as') ?? name;
}

export async function indexResult(name: string, root: Descriptor, value: IndexValue): Promise<Result> {
  const { formatPlatform } = await import('../../oci/names/index.ts');
  const platforms = value.index.manifests.flatMap((child) =>
    child.platform === undefined ? [] : [formatPlatform(child.platform)],
  );
  return {
    data: { reference: name, digest: root.digest, manifests: value.index.manifests.length, platforms },
    text: () => `${name}@${root.digest} ${platforms.join(' ')}\n`,
  };
}
