import { ociError } from '../errors.ts';
import { Fields, isObject, parseStrictJson } from '../image/json.ts';
import { isIndexType, isManifestType } from '../image/media-types.ts';
import { parseDescriptor, parseManifestOrIndex } from '../image/parse.ts';
import { referrersTag } from '../image/referrers-tag.ts';
import { digestParts, LARGEST_DOCUMENT } from '../names/index.ts';
import type { Descriptor, Digest } from '../types.ts';
import type { FileSet } from './files.ts';
import { isSubject } from './referrer-tags.ts';
import type { ImageSource } from './types.ts';

/** image-spec, annotations.md. */
export const REF_NAME = 'org.opencontainers.image.ref.name';
/** What containerd and BuildKit write beside it, with the whole name. */
const FULL_NAME = 'io.containerd.image.name';
const LARGEST_INDEX = 32 * 2 ** 20;

export function blobName(digest: Digest): string {
  const { algorithm, hex } = digestParts(digest);
  return `blobs/${algorithm}/${hex}`;
}

export interface LayoutPick {
  readonly name: string;
  /** The entry with this name; without name and position the only one. */
  readonly ref?: string;
  readonly at?: number;
}

/**
 * The entries of a layout's index.json (image-spec, image-layout.md).
 *
 * @throws OCI_LAYOUT_INVALID
 */
async function readLayoutIndex(files: FileSet): Promise<readonly Descriptor[]> {
  const invalid = (why: string): Error =>
    ociError('OCI_LAYOUT_INVALID', `${files.path} is not an OCI image layout: ${why}`, {
      hint: 'an archive of docker save is docker-archive:FILE',
    });
  const marker = await files.read('oci-layout', LARGEST_DOCUMENT);
  if (marker === undefined) throw invalid('it has no file oci-layout');
  const version = tryJson(marker);
  if (!isObject(version) || version.imageLayoutVersion !== '1.0.0') {
    throw invalid('its version is not 1.0.0');
  }
  const bytes = await files.read('index.json', LARGEST_INDEX);
  if (bytes === undefined) throw invalid('it has no index.json');
  const index = tryJson(bytes);
  if (!isObject(index) || !Array.isArray(index.manifests)) throw invalid('its index.json is damaged');
  const fields = new Fields(`index.json of ${files.path}`);
  return index.manifests.map((item, at) => parseDescriptor(item, `manifests[${at}]`, fields));
}

function tryJson(bytes: Uint8Array): unknown {
  try {
    return parseStrictJson(bytes, 'the file');
  } catch {
    return undefined;
  }
}

/** An image of a layout, in a folder or an archive. @throws OCI_LAYOUT_INVALID */
export async function layoutSource(files: FileSet, pick: LayoutPick): Promise<ImageSource> {
  const entries = await readLayoutIndex(files);
  const root = pickEntry(files.path, entries, pick);
  const small = async (descriptor: Descriptor): Promise<Uint8Array> => {
    const bytes = await files.read(blobName(descriptor.digest), LARGEST_DOCUMENT);
    if (bytes !== undefined) return bytes;
    throw ociError('OCI_BLOB_MISSING', `${descriptor.digest} is not in ${files.path}`, {
      hint: 'the layout is not whole; copy the image there again',
    });
  };
  const children = async (digest: Digest): Promise<readonly Descriptor[]> => {
    const found = entries.find((entry) => entry.annotations?.[REF_NAME] === referrersTag(digest));
    if (found === undefined) return [];
    const parsed = parseManifestOrIndex(await small(found), found.mediaType);
    return parsed.kind === 'index' ? parsed.manifests : [];
  };
  return {
    name: pick.name,
    root: async () => root,
    manifest: small,
    blob: async (descriptor, offset) => files.open(blobName(descriptor.digest), offset),
    has: async (descriptor) => (await files.size(blobName(descriptor.digest))) !== undefined,
    async referrers(subject) {
      const found = new Map<Digest, Descriptor>();
      for (const entry of [...entries, ...(await children(subject))]) {
        if (!isManifestType(entry.mediaType) && !isIndexType(entry.mediaType)) continue;
        if ((await files.size(blobName(entry.digest))) === undefined) continue;
        const { annotations: _own, ...descriptor } = entry;
        if (isSubject(await small(entry), subject)) found.set(entry.digest, descriptor);
      }
      return [...found.values()];
    },
    tagged: async (tag) => entries.find((entry) => entry.annotations?.[REF_NAME] === tag),
    [Symbol.asyncDispose]: () => files[Symbol.asyncDispose](),
  };
}

function pickEntry(path: string, entries: readonly Descriptor[], pick: LayoutPick): Descriptor {
  const names = entries.map((entry) => entry.annotations?.[REF_NAME]);
  const list = names
    .filter((name) => name !== undefined)
    .slice(0, 10)
    .join(', ');
  if (pick.at !== undefined) {
    const found = entries[pick.at];
    if (found !== undefined) return found;
    throw ociError('OCI_IMAGE_MISSING', `${path} has no image at position ${pick.at}`, {
      hint: `it has ${entries.length}, counted from 0`,
    });
  }
  if (pick.ref !== undefined) {
    const { ref } = pick;
    const found =
      entries.find((entry) => entry.annotations?.[REF_NAME] === ref) ??
      entries.find((entry) => entry.annotations?.[FULL_NAME] === ref);
    if (found !== undefined) return found;
    const hint = list === '' ? 'its images have no names: leave the name out' : `it has ${list}`;
    throw ociError('OCI_IMAGE_MISSING', `${path} has no image ${ref}`, { hint });
  }
  const [only, ...others] = entries;
  if (only !== undefined && others.length === 0) return only;
  if (only === undefined) {
    throw ociError('OCI_IMAGE_MISSING', `${path} holds no image`, { hint: 'copy one there first' });
  }
  // What belongs to the one image beside it (signatures, referrers) is none of its own.
  const unnamed = entries.filter((entry) => !/^sha(256|512)-/.test(entry.annotations?.[REF_NAME] ?? ''));
  const images = unnamed.filter((entry) => entry.artifactType === undefined);
  if (images.length === 1) return images[0] as Descriptor;
  throw ociError('OCI_IMAGE_MISSING', `${path} holds ${entries.length} images, and none is named`, {
    hint: list === '' ? 'name one by its position, as :@0' : `name one: ${list}`,
  });
}
