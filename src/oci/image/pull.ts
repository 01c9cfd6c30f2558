import { kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import {
  digestOf,
  digestParts,
  formatReference,
  LARGEST_DOCUMENT,
  parseReference,
  withDefaultTag,
} from '../names/index.ts';
import type { IdMap, LowerForm, RegistryClient, Store, TransferOptions } from '../port.ts';
import type { LayoutStore } from '../store/index.ts';
import type { Descriptor, Digest, PinnedImage, PinnedLayer, Platform, Reference } from '../types.ts';
import { eachLimited } from './parallel.ts';
import { pastWrongMirror } from './past-mirror.ts';
import { chooseManifest, contentOf, pin, pinnedFromStore } from './pinned.ts';

/** Blobs on their way at once; registries slow down or refuse beyond a handful. */
const DEFAULT_CONCURRENCY = 4;

export interface PullOptions extends TransferOptions {
  readonly platform: Platform;
  /** Blobs at once. */
  readonly concurrency?: number;
  /** Unpack each layer with these ids as soon as it is there; `unshifted` keeps the image's own. */
  readonly unpack?: IdMap | 'unshifted';
  /** The form to unpack into; default `folder`. */
  readonly form?: LowerForm;
}

type PullStore = Store & Partial<Pick<LayoutStore, 'prepareLayer'>>;

/**
 * Brings one platform's image into the store. Only bytes whose digest was checked are looked at: the reference leads
 * to an index or manifest, the platform's manifest is a child of that index, the config one of the manifest.
 * What the store has is not asked for again. Until it returns, a lease keeps the parts from a prune elsewhere.
 *
 * @throws OCI_MANIFEST_INVALID, OCI_PLATFORM_MISSING, OCI_BLOB_CORRUPT, OCI_BLOB_INCOMPLETE, DISK_FULL, CANCELLED,
 *   OCI_LAYER_* where `unpack` is asked for, and what the registry client throws
 */
export async function pullImage(
  registry: RegistryClient,
  store: PullStore,
  reference: Reference | string,
  options: PullOptions,
): Promise<PinnedImage> {
  const wanted = withDefaultTag(typeof reference === 'string' ? parseReference(reference) : reference);
  const name = formatReference(wanted);
  if (wanted.digest !== undefined) {
    const there = await pinnedFromStore(store, wanted, options.platform);
    if (there !== undefined) {
      await store.tag(name, await rootDescriptor(store, there.digest));
      return there;
    }
  }
  return await new Pull({ registry, store, wanted, name, options }).run();
}

async function rootDescriptor(store: Store, digest: Digest): Promise<Descriptor> {
  const { parseManifestOrIndex } = await import('./parse.ts');
  const bytes = await store.readSmall(digest);
  return { mediaType: parseManifestOrIndex(bytes, undefined).mediaType, digest, size: bytes.length };
}

interface PullInput {
  readonly registry: RegistryClient;
  readonly store: PullStore;
  readonly wanted: Reference;
  readonly name: string;
  readonly options: PullOptions;
}

class Pull {
  readonly #in: PullInput;
  readonly #manifests = new Map<Digest, { readonly descriptor: Descriptor; readonly bytes: Uint8Array }>();

  constructor(input: PullInput) {
    this.#in = input;
  }

  async run(): Promise<PinnedImage> {
    const { store, wanted, name, options } = this.#in;
    const root = await this.#root();
    options.emit({ type: 'image.resolved', reference: name, digest: root.digest });
    const chosen = await chooseManifest(root, options.platform, (descriptor) => this.#manifest(descriptor));
    const content = contentOf(chosen.manifest);
    if (chosen.manifest.config.size > LARGEST_DOCUMENT) throw tooLarge(chosen.manifest.config);
    const digests = [...this.#manifests.keys(), ...content.map((item) => item.digest)];
    // Before anything is looked up, so that what is found there stays there.
    await using _lease = await store.lease(`pull ${name}`, digests);
    const sizeBytes = content.reduce((sum, item) => sum + item.size, 0);
    options.emit({
      type: 'image.pulling',
      reference: name,
      layers: chosen.manifest.layers.length,
      sizeBytes,
    });
    for (const { descriptor, bytes } of this.#manifests.values()) {
      await store.ingest(descriptor, async (offset) => once(bytes.subarray(offset)), options);
    }
    await this.#blob(chosen.manifest.config, options);
    const config = await store.readSmall(chosen.manifest.config.digest);
    const image = pin(wanted, root, { ...chosen, config, platform: options.platform });
    await this.#layers(image);
    await store.tag(name, root);
    options.emit({ type: 'image.pulled', reference: name, digest: root.digest });
    return image;
  }

  async #root(): Promise<Descriptor> {
    const { registry, wanted, options } = this.#in;
    const answer = await registry.getManifest(wanted, options);
    const digest = digestOf(answer.bytes, digestParts(answer.descriptor.digest).algorithm);
    if (digest !== answer.descriptor.digest || (wanted.digest !== undefined && wanted.digest !== digest)) {
      throw wrongManifest(wanted.digest ?? answer.descriptor.digest);
    }
    const descriptor = { ...answer.descriptor, size: answer.bytes.length };
    this.#manifests.set(digest, { descriptor, bytes: answer.bytes });
    return descriptor;
  }

  async #manifest(descriptor: Descriptor): Promise<Uint8Array> {
    const known = this.#manifests.get(descriptor.digest);
    if (known !== undefined) return known.bytes;
    const { registry, store, wanted, options } = this.#in;
    const { tag: _tag, ...rest } = wanted;
    const bytes = (await store.hasBlob(descriptor.digest))
      ? await store.readSmall(descriptor.digest)
      : (await registry.getManifest({ ...rest, digest: descriptor.digest }, options)).bytes;
    const digest = digestOf(bytes, digestParts(descriptor.digest).algorithm);
    if (digest !== descriptor.digest || bytes.length !== descriptor.size)
      throw wrongManifest(descriptor.digest);
    this.#manifests.set(descriptor.digest, { descriptor, bytes });
    return bytes;
  }

  async #blob(blob: Descriptor, options: TransferOptions): Promise<void> {
    const { registry, store, wanted } = this.#in;
    await pastWrongMirror(
      (offset, read) => registry.getBlob(wanted, blob, offset, { ...read, lend: true }),
      options,
      (open) => store.ingest(blob, open, options),
    );
  }

  /** Downloads and, if asked for, unpacks; the first fault stops the rest. */
  async #layers(image: PinnedImage): Promise<void> {
    const { options } = this.#in;
    const stop = new AbortController();
    const unpacking: Promise<unknown>[] = [];
    let fault: { readonly error: unknown } | undefined;
    const failed = (error: unknown): void => {
      fault ??= { error };
      stop.abort();
    };
    // Large ones first: the last to arrive decides.
    const layers = unique(image.layers).toSorted((a, b) => b.size - a.size);
    const limited = {
      limit: options.concurrency ?? DEFAULT_CONCURRENCY,
      signal: AbortSignal.any([options.signal, stop.signal]),
    };
    await eachLimited(layers, limited, async (layer, signal) => {
      const transfer = { signal, emit: options.emit };
      try {
        await this.#blob({ mediaType: layer.mediaType, digest: layer.digest, size: layer.size }, transfer);
      } catch (error) {
        // At once, before an unpacking that this stops is taken for the fault.
        failed(error);
        throw error;
      }
      unpacking.push(this.#unpack(layer, transfer).catch(failed));
    }).catch(failed);
    await Promise.all(unpacking);
    if (fault === undefined) return;
    if (options.signal.aborted) throw kernelError('CANCELLED', 'cancelled while an image was pulled');
    throw fault.error;
  }

  async #unpack(layer: PinnedLayer, transfer: TransferOptions): Promise<void> {
    const { store, options } = this.#in;
    if (options.unpack === undefined || store.prepareLayer === undefined) return;
    const map = options.unpack === 'unshifted' ? undefined : options.unpack;
    await store.prepareLayer(layer, map, { ...transfer, form: options.form ?? 'folder' });
  }
}

function unique(layers: readonly PinnedLayer[]): readonly PinnedLayer[] {
  return [...new Map(layers.map((layer) => [layer.digest, layer])).values()];
}

function wrongManifest(digest: Digest): Error {
  return ociError('OCI_BLOB_CORRUPT', `the registry gave other bytes for the manifest ${digest}`, {
    hint: 'try again; if it stays, the registry or something on the way changes what it serves',
  });
}

function tooLarge(config: Descriptor): Error {
  return ociError('OCI_MANIFEST_INVALID', `the image config ${config.digest} has ${config.size} bytes`);
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
