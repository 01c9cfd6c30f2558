import { ociError } from '../errors.ts';
import { formatReference, parseReference, withDefaultTag } from '../names/index.ts';
import type { Store } from '../port.ts';
import type { Descriptor, Reference } from '../types.ts';
import { type JsonObject, parseStrictJson } from './json.ts';
import { type Index, type Manifest, parseImageConfig, parseManifestOrIndex } from './parse.ts';

export interface InspectedManifest {
  readonly descriptor: Descriptor;
  readonly manifest: Manifest;
  /** The config as it is; undefined where it is not here or not an image's. */
  readonly config: JsonObject | undefined;
}

export interface InspectedImage {
  readonly reference: string;
  readonly descriptor: Descriptor;
  readonly index: Index | undefined;
  /** Those that are in the store. */
  readonly manifests: readonly InspectedManifest[];
}

/**
 * What the store has under a name.
 *
 * @throws OCI_IMAGE_MISSING, OCI_MANIFEST_INVALID, OCI_BLOB_CORRUPT
 */
export async function inspectImage(store: Store, reference: Reference | string): Promise<InspectedImage> {
  const parsed = withDefaultTag(typeof reference === 'string' ? parseReference(reference) : reference);
  const name = formatReference(parsed);
  const descriptor = await store.resolve(name);
  if (descriptor === undefined) {
    throw ociError('OCI_IMAGE_MISSING', `${name} is not in the store`, {
      hint: 'pull or import it first; `skycap image list` shows what is there',
    });
  }
  const root = parseManifestOrIndex(await store.readSmall(descriptor.digest), descriptor.mediaType);
  const manifests: InspectedManifest[] = [];
  const visit = async (item: Descriptor, depth: number): Promise<void> => {
    if (depth > 4 || !(await store.hasBlob(item.digest))) return;
    const found = parseManifestOrIndex(await store.readSmall(item.digest), item.mediaType);
    if (found.kind === 'index') for (const child of found.manifests) await visit(child, depth + 1);
    else manifests.push({ descriptor: item, manifest: found, config: await readConfig(store, found) });
  };
  await visit(descriptor, 0);
  return { reference: name, descriptor, index: root.kind === 'index' ? root : undefined, manifests };
}

async function readConfig(store: Store, manifest: Manifest): Promise<JsonObject | undefined> {
  if (!(await store.hasBlob(manifest.config.digest))) return undefined;
  const bytes = await store.readSmall(manifest.config.digest);
  try {
    return parseImageConfig(bytes, manifest.layers.length).raw;
  } catch {
    const value = (() => {
      try {
        return parseStrictJson(bytes, 'a config');
      } catch {
        return undefined;
      }
    })();
    return typeof value === 'object' && value !== null ? (value as JsonObject) : undefined;
  }
}
