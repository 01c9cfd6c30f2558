import { ociError } from '../errors.ts';
import { OCI_CONFIG, OCI_MANIFEST } from '../image/media-types.ts';
import { parseImageConfig, parseManifest } from '../image/parse.ts';
import { encodeJson } from '../image/value.ts';
import { decompress } from '../layer/index.ts';
import {
  createDigester,
  digestOf,
  digestParts,
  familiarReference,
  LARGEST_DOCUMENT,
} from '../names/index.ts';
import type { TransferOptions } from '../port.ts';
import type { Descriptor, Digest, Reference } from '../types.ts';
import { writeArchive } from './archive-writer.ts';
import type { FileSet } from './files.ts';
import { blobName } from './layout-source.ts';
import type { Finished } from './types.ts';

const OCI_LAYER = 'application/vnd.oci.image.layer.v1.tar';

export const CONVERTED = 'Docker keeps layers uncompressed and no manifest';

export interface DockerArchive {
  /** Written in one step: the old file stays until the new one is whole. */
  readonly path: string;
  readonly reference: Reference | undefined;
}

/**
 * Writes the staged image as `docker save` would (moby, image/spec/v1.2.md, "Combined Image JSON"): the config as it
 * is, layers uncompressed and checked against their diffIDs.
 *
 * @throws OCI_CONVERSION_IMPOSSIBLE for what is no image, OCI_LAYER_DIFFID, OCI_ARCHIVE_WRITE, DISK_FULL
 */
export async function writeDockerArchive(
  files: FileSet,
  root: Descriptor,
  options: DockerArchive & TransferOptions,
): Promise<Finished> {
  const { config, layers } = await readStaged(files, root);
  const { diffIds } = parseImageConfig(config, layers.length);
  const sizes = new Map<Digest, number>();
  await writeArchive(options.path, options.signal, async (tar) => {
    const configName = `${digestParts(digestOf(config)).hex}.json`;
    await tar.put(configName, config);
    for (const [at, layer] of layers.entries()) {
      const diffId = diffIds[at] as Digest;
      if (sizes.has(diffId)) continue;
      const bytes = decompress(files.open(blobName(layer.digest), 0));
      sizes.set(diffId, await tar.stream(layerName(diffId), checked(bytes, diffId)));
    }
    const tags = options.reference === undefined ? null : [familiarReference(options.reference)];
    const manifest = [{ Config: configName, RepoTags: tags, Layers: diffIds.map(layerName) }];
    await tar.put('manifest.json', encodeJson(manifest));
  });
  return finished(root, config, { diffIds, sizes });
}

/** The digest that reading the archive gives: see `dockerArchiveSource`. */
function finished(
  root: Descriptor,
  config: Uint8Array,
  layers: { readonly diffIds: readonly Digest[]; readonly sizes: ReadonlyMap<Digest, number> },
): Finished {
  const imageId = digestOf(config);
  const bytes = encodeJson({
    schemaVersion: 2,
    mediaType: OCI_MANIFEST,
    config: { mediaType: OCI_CONFIG, digest: imageId, size: config.length },
    layers: layers.diffIds.map((digest) => ({
      mediaType: OCI_LAYER,
      digest,
      size: layers.sizes.get(digest) ?? 0,
    })),
  });
  const digest = digestOf(bytes);
  return { digest, imageId, ...(digest === root.digest ? {} : { because: CONVERTED }) };
}

async function readStaged(
  files: FileSet,
  root: Descriptor,
): Promise<{ readonly config: Uint8Array; readonly layers: readonly Descriptor[] }> {
  const bytes = await files.read(blobName(root.digest), LARGEST_DOCUMENT);
  const manifest = parseManifest(bytes ?? new Uint8Array(), root.mediaType);
  const config = await files.read(blobName(manifest.config.digest), LARGEST_DOCUMENT);
  if (config === undefined) throw new Error('a staged config is missing');
  return { config, layers: manifest.layers };
}

/** Whether Docker could hold it: an image with a config and tar layers whose bytes are here. */
export function checkConvertible(manifest: ReturnType<typeof parseManifest>, where: string): void {
  const refuse = (why: string): Error =>
    ociError('OCI_CONVERSION_IMPOSSIBLE', `${where} cannot hold this: ${why}`, {
      hint: 'copy it to a registry, an oci: layout or an oci-archive',
    });
  const { config, layers } = manifest;
  if (!/container\.image\.v1\+json$|image\.config\.v1\+json$/.test(config.mediaType)) {
    throw refuse(`it is no image but has a config of type ${config.mediaType}`);
  }
  const odd = layers.find((layer) => !/(layer|rootfs)/.test(layer.mediaType));
  if (odd !== undefined) throw refuse(`it has a layer of type ${odd.mediaType}`);
  const foreign = layers.find((layer) => (layer.urls ?? []).length > 0);
  if (foreign !== undefined) throw refuse(`its layer ${foreign.digest} lies elsewhere`);
}

function layerName(diffId: Digest): string {
  return `${digestParts(diffId).hex}.tar`;
}

async function* checked(bytes: AsyncIterable<Buffer>, diffId: Digest): AsyncGenerator<Buffer> {
  const digester = createDigester(digestParts(diffId).algorithm);
  for await (const chunk of bytes) {
    digester.update(chunk);
    yield chunk;
  }
  const digest = digester.digest();
  if (digest === diffId) return;
  throw ociError('OCI_LAYER_DIFFID', `a layer unpacks to ${digest}, and the image declares ${diffId}`, {
    hint: 'the image was built wrongly or is hostile; ask its author',
  });
}
