import { ociError } from '../errors.ts';
import { isObject, parseStrictJson } from '../image/json.ts';
import { OCI_CONFIG, OCI_MANIFEST } from '../image/media-types.ts';
import { parseImageConfig } from '../image/parse.ts';
import { encodeJson } from '../image/value.ts';
import { decompress, sniffCompression } from '../layer/index.ts';
import {
  digestOf,
  formatReference,
  LARGEST_DOCUMENT,
  parseReference,
  withDefaultTag,
} from '../names/index.ts';
import type { Descriptor, Digest, Reference } from '../types.ts';
import type { FileSet } from './files.ts';
import type { ImageSource } from './types.ts';

const OCI_LAYER = 'application/vnd.oci.image.layer.v1.tar';

interface SavedImage {
  readonly config: string;
  readonly tags: readonly string[];
  readonly layers: readonly string[];
}

export interface ArchivePick {
  readonly name: string;
  readonly reference?: Reference;
  readonly at?: number;
}

/**
 * An image of a tar as `docker save` and skopeo write it (moby, image/spec/v1.2.md, "Combined Image JSON"). It holds a
 * config and layer tars and no manifest, so one is made: OCI, with the layers uncompressed, so that the digest of
 * a layer is its diffID. Equal archives give an equal digest.
 *
 * @throws OCI_ARCHIVE_INVALID, OCI_IMAGE_MISSING
 */
export async function dockerArchiveSource(files: FileSet, pick: ArchivePick): Promise<ImageSource> {
  const image = pickImage(files.path, await readSaved(files), pick);
  const config = await files.read(image.config, LARGEST_DOCUMENT);
  if (config === undefined) throw damaged(files.path, `its config ${image.config} is missing`);
  const { diffIds } = parseImageConfig(config, image.layers.length);
  const names = new Map<Digest, { readonly file: string; readonly plain: boolean }>();
  const layers: Descriptor[] = [];
  for (const [at, file] of image.layers.entries()) {
    const diffId = diffIds[at] as Digest;
    const { size, plain } = await layerFile(files, file);
    names.set(diffId, { file, plain });
    layers.push({ mediaType: OCI_LAYER, digest: diffId, size });
  }
  const configBlob = { mediaType: OCI_CONFIG, digest: digestOf(config), size: config.length };
  const bytes = encodeJson({ schemaVersion: 2, mediaType: OCI_MANIFEST, config: configBlob, layers });
  const root = { mediaType: OCI_MANIFEST, digest: digestOf(bytes), size: bytes.length };
  return {
    name: pick.name,
    made: 'an archive of Docker holds no manifest, so one was made',
    root: async () => root,
    manifest: async () => bytes,
    async blob({ digest }, offset) {
      if (digest === configBlob.digest) return once(config.subarray(offset));
      const { file, plain } = names.get(digest) ?? { file: '', plain: true };
      return plain ? files.open(file, offset) : skip(decompress(files.open(file, 0)), offset);
    },
    has: async () => true,
    referrers: async () => [],
    tagged: async () => undefined,
    [Symbol.asyncDispose]: () => files[Symbol.asyncDispose](),
  };
}

/** @throws OCI_ARCHIVE_INVALID */
async function readSaved(files: FileSet): Promise<readonly SavedImage[]> {
  const bytes = await files.read('manifest.json', LARGEST_DOCUMENT);
  if (bytes === undefined) {
    const layout = (await files.size('oci-layout')) !== undefined;
    throw ociError('OCI_ARCHIVE_INVALID', `${files.path} has no manifest.json`, {
      hint: layout ? 'it holds an OCI layout: write oci-archive:FILE' : 'make it with docker save',
    });
  }
  let value: unknown;
  try {
    value = parseStrictJson(bytes, 'manifest.json');
  } catch {
    throw damaged(files.path, 'manifest.json is not JSON');
  }
  if (!Array.isArray(value)) throw damaged(files.path, 'manifest.json is not a list');
  return value.map((item: unknown) => {
    const strings = (list: unknown): readonly string[] =>
      Array.isArray(list) ? list.filter((entry) => typeof entry === 'string') : [];
    if (!isObject(item) || typeof item.Config !== 'string') {
      throw damaged(files.path, 'manifest.json names no config');
    }
    return { config: item.Config, tags: strings(item.RepoTags), layers: strings(item.Layers) };
  });
}

function damaged(path: string, why: string): Error {
  return ociError('OCI_ARCHIVE_INVALID', `${path} is damaged: ${why}`, {
    hint: 'make it again with docker save or skycap image copy',
  });
}

function pickImage(path: string, images: readonly SavedImage[], pick: ArchivePick): SavedImage {
  const all = images.flatMap((image) => image.tags);
  const hint =
    all.length === 0 ? 'its images have no names: use @0' : `it has ${all.slice(0, 10).join(', ')}`;
  if (pick.at !== undefined || pick.reference === undefined) {
    const found = images[pick.at ?? 0];
    if (found === undefined)
      throw ociError('OCI_IMAGE_MISSING', `${path} has no image at that position`, { hint });
    if (pick.at !== undefined || images.length === 1) return found;
    throw ociError('OCI_IMAGE_MISSING', `${path} holds ${images.length} images, and none is named`, { hint });
  }
  const wanted = formatReference(pick.reference);
  const found = images.find((image) => image.tags.some((tag) => normal(tag) === wanted));
  if (found !== undefined) return found;
  throw ociError('OCI_IMAGE_MISSING', `${path} has no image ${wanted}`, { hint });
}

function normal(tag: string): string {
  try {
    return formatReference(withDefaultTag(parseReference(tag)));
  } catch {
    return tag;
  }
}

/** Size of the uncompressed layer. Some tools pack the layers in the archive; then it has to be read for its size. */
async function layerFile(
  files: FileSet,
  file: string,
): Promise<{ readonly size: number; readonly plain: boolean }> {
  const size = await files.size(file);
  if (size === undefined) throw damaged(files.path, `its layer ${file} is missing`);
  let head: Uint8Array = new Uint8Array();
  for await (const chunk of files.open(file, 0)) {
    head = chunk;
    break;
  }
  if (sniffCompression(head) === 'none') return { size, plain: true };
  let unpacked = 0;
  for await (const chunk of decompress(files.open(file, 0))) unpacked += chunk.length;
  return { size: unpacked, plain: false };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function* skip(source: AsyncIterable<Uint8Array>, offset: number): AsyncGenerator<Uint8Array> {
  let left = offset;
  for await (const chunk of source) {
    if (left >= chunk.length) left -= chunk.length;
    else {
      yield left === 0 ? chunk : chunk.subarray(left);
      left = 0;
    }
  }
}
