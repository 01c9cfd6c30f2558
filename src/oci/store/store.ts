import { randomUUID } from 'node:crypto';
import { isSkycapError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { isIndexType, isManifestType } from '../image/media-types.ts';
import { type Manifest, parseManifestOrIndex } from '../image/parse.ts';
import { LARGEST_DOCUMENT } from '../names/index.ts';
import type {
  FsckFinding,
  IdMap,
  Lower,
  LowersOptions,
  Store,
  StoredImage,
  TagOptions,
  TransferOptions,
} from '../port.ts';
import type { Descriptor, Digest, PinnedImage, PinnedLayer } from '../types.ts';
import { checkStore } from './fsck.ts';
import { describe, type Reached, type ReadSmall, reach } from './graph.ts';
import { showNamed } from './hidden.ts';
import { ingestBlob, readBlobFile, sizeOf } from './ingest.ts';
import { isWhole, lowerOf, readRecord } from './layers.ts';
import { type Layout, openLayout } from './layout.ts';
import { LeaseBook } from './leases.ts';
import { acquireLock, type Lock } from './lock.ts';
import { missing, storeError, unreadable } from './problems.ts';
import { emptyTrash, moveUnreached, type Pruned, sweepDead, sweepUnfinished } from './prune.ts';
import { step } from './steps.ts';
import { readTags, removeTag, type TaggedDescriptor, writeTag } from './tags.ts';
import { type Shape, Unpacker, visible } from './unpacking.ts';

const LOCK_TIMEOUT_MS = 30_000;
const NEVER = new AbortController().signal;

export interface OpenStoreOptions {
  /** Made if it is not there. */
  readonly directory: string;
}

export interface LeaseOptions {
  /** How long the lease outlives its process, in milliseconds. */
  readonly ttlMs?: number;
}

/** A `Store` and what only this implementation has. */
export interface LayoutStore extends Store {
  /** Ends all leases of this name, whichever process took them. */
  endLeases(name: string): Promise<void>;
  /**
   * Unpacks one layer whose blob is there, so that the rest of a pull can go on meanwhile; `lowers` finds it done.
   * A layer that needs its parents is left to `lowers`.
   *
   * @throws OCI_BLOB_MISSING, OCI_BLOB_CORRUPT, OCI_LAYER_INVALID, OCI_LAYER_UNSAFE, OCI_LAYER_LIMIT, OCI_LAYER_DIFFID,
   *   OCI_LAYER_WRITE, DISK_FULL, CANCELLED
   */
  prepareLayer(layer: PinnedLayer, map: IdMap | undefined, options: LowersOptions): Promise<void>;
}

const DEFAULT_TTL_MS = 3_600_000;

/**
 * Opens or makes a store: an OCI image layout that skopeo and others can read, safe for several processes.
 *
 * @throws OCI_STORE_INVALID where the folder is none, is another program's, of another version, or may not be written;
 *   OCI_STORE_BUSY, DISK_FULL
 * @example
 * await using store = await openStore({ directory: '/var/lib/skycap/store' });
 * for (const { reference, sizeBytes } of await store.list()) console.log(reference, sizeBytes);
 */
export async function openStore(options: OpenStoreOptions): Promise<LayoutStore> {
  return new DiskStore(await openLayout(options.directory));
}

class DiskStore implements LayoutStore {
  readonly #layout: Layout;
  readonly #leases: LeaseBook;
  readonly #unpacker: Unpacker;
  /** What this process brought and no name leads to yet: a prune elsewhere must not take it. */
  readonly #fresh = new Set<Digest>();
  readonly #freshLease = randomUUID();
  #tidy = false;

  constructor(layout: Layout) {
    this.#layout = layout;
    this.#leases = new LeaseBook(layout);
    this.#unpacker = new Unpacker(layout);
  }

  get directory(): string {
    return this.#layout.directory;
  }

  async hasBlob(digest: Digest): Promise<boolean> {
    return (await this.blobSize(digest)) !== undefined;
  }

  async blobSize(digest: Digest): Promise<number | undefined> {
    return await sizeOf(this.#layout.blob(digest));
  }

  readBlob(digest: Digest, offset = 0): AsyncIterable<Uint8Array> {
    return readBlobFile(this.#layout.blob(digest), digest, offset);
  }

  async readSmall(digest: Digest): Promise<Uint8Array> {
    const size = await this.blobSize(digest);
    if (size === undefined) throw missing(digest);
    if (size > LARGEST_DOCUMENT) {
      throw ociError(
        'OCI_MANIFEST_INVALID',
        `${digest} has ${size} bytes, too many for a manifest or config`,
      );
    }
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.readBlob(digest)) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  async ingest(
    blob: Descriptor,
    open: (offset: number) => Promise<AsyncIterable<Uint8Array>>,
    options: TransferOptions,
  ): Promise<void> {
    if (!this.#leases.covers(blob.digest)) await this.#keepFresh(blob.digest);
    await ingestBlob(this.#layout, blob, { ...options, open });
  }

  async tag(reference: string, descriptor: Descriptor, options: TagOptions = {}): Promise<void> {
    await this.#guarded(async () => {
      using _lock = await this.#lock();
      const sparse = options.sparse === true && !(await this.#isWhole(descriptor));
      if (options.sparse !== true) await this.#assertWhole(descriptor);
      else if (!(await this.hasBlob(descriptor.digest))) throw missing(descriptor.digest);
      await writeTag(this.#layout, { reference, descriptor, sparse });
      await this.#release(descriptor.digest);
    });
    if (options.sparse === true) return;
    await this.#guarded(() =>
      showNamed(this.directory, async () => (await this.#reach([descriptor.digest], this.#readKnown)).blobs),
    );
  }

  async untag(reference: string): Promise<boolean> {
    return await this.#guarded(async () => {
      using _lock = await this.#lock();
      return await removeTag(this.#layout, reference);
    });
  }

  async resolve(reference: string): Promise<Descriptor | undefined> {
    const tags = await readTags(this.#layout);
    return tags.find((tag) => tag.reference === reference)?.descriptor;
  }

  async list(): Promise<readonly StoredImage[]> {
    const tags = await readTags(this.#layout);
    return await Promise.all(
      tags.map(async ({ reference, descriptor }) => ({
        reference: reference ?? descriptor.digest,
        descriptor,
        ...(await describe(descriptor, this.#readKnown, (digest) => this.blobSize(digest))),
      })),
    );
  }

  async lowers(
    image: PinnedImage,
    map: IdMap | undefined,
    options: LowersOptions,
  ): Promise<readonly Lower[]> {
    const shape: Shape = { map, form: options.form ?? 'folder' };
    const known = await Promise.all(
      image.layers.map(async ({ diffId }) => {
        const name = { ...shape, id: diffId };
        const record = await readRecord(this.#layout, name);
        return isWhole(record) ? lowerOf(this.#layout, name) : undefined;
      }),
    );
    if (known.every((lower) => lower !== undefined)) return await visible(known);
    return await this.#unpacker.all(image.layers, shape, options);
  }

  async prepareLayer(layer: PinnedLayer, map: IdMap | undefined, options: LowersOptions): Promise<void> {
    await this.#unpacker.layer(layer, { map, form: options.form ?? 'folder' }, options);
  }

  async lease(
    name: string,
    digests: readonly Digest[],
    options: LeaseOptions = {},
  ): Promise<AsyncDisposable> {
    const id = randomUUID();
    const expires = Date.now() + (options.ttlMs ?? DEFAULT_TTL_MS);
    await this.#guarded(async () => {
      using _lock = await this.#lock();
      await this.#leases.write(id, { name, digests, expires });
    });
    return { [Symbol.asyncDispose]: () => this.#leases.drop(id) };
  }

  async endLeases(name: string): Promise<void> {
    await this.#guarded(async () => {
      using _lock = await this.#lock();
      await this.#leases.end(name);
    });
  }

  async prune(options: { readonly olderThanMs: number; readonly keep: readonly Digest[] }): Promise<Pruned> {
    return await this.#guarded(async () => {
      const pruned = await this.#pruneLocked(options);
      step('prune.trash');
      await sweepUnfinished(this.#layout, options.olderThanMs);
      await emptyTrash(this.#layout);
      return pruned;
    });
  }

  async #pruneLocked(options: {
    readonly olderThanMs: number;
    readonly keep: readonly Digest[];
  }): Promise<Pruned> {
    using _lock = await this.#lock();
    const leased = await this.#leases.sweep(Date.now());
    step('prune.leases');
    const tags = await readTags(this.#layout);
    await this.#assertNamesLead(tags.filter((tag) => !tag.sparse));
    const named = tags.map((tag) => tag.descriptor.digest);
    // Strict: a manifest that cannot be read may lead to what a run is using.
    const reached = await this.#reach([...named, ...leased, ...options.keep], this.#readStrict);
    return await moveUnreached(this.#layout, reached, options.olderThanMs);
  }

  /** What is gone or too large to be read led to something: nobody knows to what. */
  async #assertNamesLead(tags: readonly TaggedDescriptor[]): Promise<void> {
    const roots = tags.map((tag) => tag.descriptor.digest);
    for (const digest of roots) {
      const size = await this.blobSize(digest);
      if (size === undefined || size > LARGEST_DOCUMENT) throw unreadable(digest, size);
    }
    const { missing: gone, configs } = await this.#reach(roots, this.#readStrict);
    for (const digest of gone.keys()) if (configs.has(digest)) throw unreadable(digest, undefined);
  }

  async fsck(options: { readonly repair: boolean } & TransferOptions): Promise<readonly FsckFinding[]> {
    return await this.#guarded(() =>
      checkStore(this.#layout, {
        ...options,
        has: (digest) => this.hasBlob(digest),
        read: this.#readKnown,
        reach: (roots) => this.#reach(roots, this.#readKnown),
        leased: () => this.#leases.sweep(Date.now()),
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#unpacker.close();
    if (this.#fresh.size > 0) await this.#leases.drop(this.#freshLease);
    await this.#leases.close();
  }

  /** Manifests and configs that are there; undefined for what is not, is damaged, or is too large to be one. */
  readonly #readKnown = async (digest: Digest): Promise<Uint8Array | undefined> =>
    await this.#readStrict(digest).catch(() => undefined);

  /** @throws OCI_BLOB_CORRUPT */
  readonly #readStrict = async (digest: Digest): Promise<Uint8Array | undefined> => {
    const size = await this.blobSize(digest);
    return size === undefined || size > LARGEST_DOCUMENT ? undefined : await this.readSmall(digest);
  };

  async #reach(roots: Iterable<Digest>, read: ReadSmall): Promise<Reached> {
    return await reach(roots, read, (digest) => this.hasBlob(digest));
  }

  /** Before the blob is looked for, so that what is found stays there. */
  async #keepFresh(digest: Digest): Promise<void> {
    await this.#guarded(async () => {
      using _lock = await this.#lock();
      this.#fresh.add(digest);
      await this.#writeFresh();
    });
  }

  /** What a name leads to needs no lease of ours any more. The caller holds the store's lock. */
  async #release(root: Digest): Promise<void> {
    if (this.#fresh.size === 0) return;
    const { blobs } = await this.#reach([root], this.#readKnown);
    const before = this.#fresh.size;
    for (const digest of blobs) this.#fresh.delete(digest);
    if (this.#fresh.size === 0) await this.#leases.drop(this.#freshLease);
    else if (this.#fresh.size < before) await this.#writeFresh();
  }

  /** It ends with the process: what was never named is then nobody's. */
  async #writeFresh(): Promise<void> {
    await this.#leases.write(this.#freshLease, {
      name: 'not named yet',
      digests: [...this.#fresh],
      expires: 0,
    });
  }

  async #lock(): Promise<Lock> {
    const lock = await acquireLock(this.#layout.storeLock, { signal: NEVER, timeoutMs: LOCK_TIMEOUT_MS });
    if (this.#tidy) return lock;
    this.#tidy = true;
    try {
      await sweepDead(this.#layout);
      return lock;
    } catch (error) {
      lock[Symbol.dispose]();
      throw error;
    }
  }

  async #guarded<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw storeError(error, this.directory);
    }
  }

  async #isWhole(descriptor: Descriptor): Promise<boolean> {
    try {
      await this.#assertWhole(descriptor);
      return true;
    } catch (error) {
      if (isSkycapError(error)) return false;
      throw error;
    }
  }

  /** A manifest with all it names, or an index with at least one child that is whole. */
  async #assertWhole(descriptor: Descriptor): Promise<void> {
    const parsed = parseManifestOrIndex(await this.readSmall(descriptor.digest), descriptor.mediaType);
    if (parsed.kind === 'manifest') return await this.#assertManifest(parsed);
    const children = parsed.manifests.filter(
      (child) => isManifestType(child.mediaType) || isIndexType(child.mediaType),
    );
    let fault: Error | undefined;
    for (const child of children) {
      if (!(await this.hasBlob(child.digest))) continue;
      try {
        return await this.#assertWhole(child);
      } catch (error) {
        // Another platform may be on its way here just now.
        fault ??= error as Error;
      }
    }
    const first = children[0];
    if (first !== undefined) throw fault ?? missing(first.digest);
  }

  async #assertManifest(manifest: Manifest): Promise<void> {
    for (const child of [manifest.config, ...manifest.layers]) {
      if (!(await this.hasBlob(child.digest))) throw missing(child.digest);
    }
  }
}
