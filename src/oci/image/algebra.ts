import { formatReference, parseReference, withDefaultTag } from '../names/index.ts';
import type { Store, TransferOptions } from '../port.ts';
import type { Descriptor, Digest, ImageRunConfig, PinnedImage } from '../types.ts';
import { addLayer, encode, type LayerSource, putBytes } from './build.ts';
import { isObject, type JsonObject, parseStrictJson } from './json.ts';
import { OCI_INDEX } from './media-types.ts';
import { parseImageConfig, parseManifest } from './parse.ts';
import { pin } from './pinned.ts';

export interface ChangeOptions extends TransferOptions {
  /** The name of the result. */
  readonly reference: string;
}

interface Documents {
  readonly manifest: JsonObject;
  readonly config: JsonObject;
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
  return await change(store, image, options, ({ manifest, config }) => {
    const rootfs = config.rootfs as JsonObject;
    const history = Array.isArray(config.history) ? config.history : [];
    const created = typeof config.created === 'string' ? config.created : new Date(0).toISOString();
    return {
      manifest: { ...manifest, layers: [...(manifest.layers as unknown[]), layer.descriptor] },
      config: {
        ...config,
        rootfs: { ...rootfs, diff_ids: [...(rootfs.diff_ids as unknown[]), layer.diffId] },
        ...(history.length > 0
          ? { history: [...history, { created, created_by: 'skycap image append' }] }
          : {}),
      },
    };
  });
}

/** The image with other run settings. */
export async function mutateConfig(
  store: Store,
  image: PinnedImage,
  { edit, ...options }: ChangeOptions & { readonly edit: Partial<ImageRunConfig> },
): Promise<PinnedImage> {
  const names = {
    user: 'User',
    env: 'Env',
    entrypoint: 'Entrypoint',
    cmd: 'Cmd',
    workingDir: 'WorkingDir',
    labels: 'Labels',
    stopSignal: 'StopSignal',
  } as const;
  return await change(store, image, options, ({ manifest, config }) => {
    const run: Record<string, unknown> = { ...(isObject(config.config) ? config.config : {}) };
    for (const [key, value] of Object.entries(edit)) run[names[key as keyof typeof names]] = value;
    return { manifest, config: { ...config, config: run } };
  });
}

async function change(
  store: Store,
  image: PinnedImage,
  options: ChangeOptions,
  edit: (documents: Documents) => Documents,
): Promise<PinnedImage> {
  const read = async (digest: Digest): Promise<JsonObject> =>
    parseStrictJson(await store.readSmall(digest), digest) as JsonObject;
  const before = { manifest: await read(image.manifestDigest), config: await read(image.configDigest) };
  const after = edit(before);
  const config = encode(after.config);
  const configType = (before.manifest.config as { readonly mediaType: string }).mediaType;
  const blob = await putBytes(store, { mediaType: configType, bytes: config }, options);
  const bytes = encode({ ...after.manifest, config: blob });
  const manifest = parseManifest(bytes);
  parseImageConfig(config, manifest.layers.length);
  const root = await putBytes(store, { mediaType: manifest.mediaType, bytes }, options);
  const reference = withDefaultTag(parseReference(options.reference));
  await store.tag(formatReference(reference), root);
  return pin(reference, root, { descriptor: root, manifest, config, platform: image.platform });
}

/** One name for the images of several platforms. */
export async function buildIndex(
  store: Store,
  images: readonly PinnedImage[],
  options: ChangeOptions,
): Promise<Descriptor> {
  const manifests = await Promise.all(
    images.map(async (image) => {
      const bytes = await store.readSmall(image.manifestDigest);
      const { mediaType } = parseManifest(bytes);
      const { os, architecture, variant } = image.platform;
      const platform = { architecture, os, ...(variant === undefined ? {} : { variant }) };
      return { mediaType, digest: image.manifestDigest, size: bytes.length, platform };
    }),
  );
  const bytes = encode({ schemaVersion: 2, mediaType: OCI_INDEX, manifests });
  const root = await putBytes(store, { mediaType: OCI_INDEX, bytes }, options);
  await store.tag(formatReference(withDefaultTag(parseReference(options.reference))), root);
  return root;
}
