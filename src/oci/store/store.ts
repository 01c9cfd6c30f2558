import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { ociError } from '../errors.ts';
import { isIndexType, isManifestType } from '../image/media-types.ts';
import { type Manifest, parseManifestOrIndex } from '../image/parse.ts';
import type { FsckFinding, IdMap, Lower, Store, StoredImage, TagOptions, TransferOptions } from '../port.ts';
import type { Descriptor, Digest, PinnedImage, PinnedLayer } from '../types.ts';
import { checkStore } from './fsck.ts';
import { describe, type Reached, reach } from './graph.ts';
import { ingestBlob, missing, readBlobFile, sizeOf } from './ingest.ts';
import { lowerOf, readRecord } from './layers.ts';
import { type Layout, openLayout } from './layout.ts';
import { LeaseBook } from './leases.ts';
import { acquireLock, type Lock } from './lock.ts';
import { emptyTrash, moveUnreached, type Pruned, sweepUnfinished } from './prune.ts';
import { readTags, removeTag, writeTag } from './tags.ts';
import { Unpacker } from './unpacking.ts';

const MAX_SMALL = 8 * 2 ** 20;
const LOCK_TIMEOUT_MS = 60_000;
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
  lease(name: string, digests: readonly Digest[], options?: LeaseOptions): Promise<AsyncDisposable>;
  endLeases(name: string): Promise<void>;
  /**
   * Unpacks one layer whose blob is there, so that the rest of a pull can go on meanwhile; `lowers` finds it done.
   * A layer that needs its parents is left to `lowers`.
   */
  prepareLayer(layer: PinnedLayer, map: IdMap | undefined, options: TransferOptions): Promise<void>;
}

const DEFAULT_TTL_MS = 3_600_000;

/**
 * Opens or makes a store: an OCI image layout that skopeo and others can read, safe for several processes.
 *
 * @throws OCI_STORE_INVALID, OCI_STORE_BUSY, DISK_FULL
 */
export async function openStore(options: OpenStoreOptions): Promise<LayoutStore> {
  return new DiskStore(await openLayout(options.directory));
}

class DiskStore implements LayoutStore {
  readonly #layout: Layout;
  readonly #leases: LeaseBook;
  readonly #unpacker: Unpacker;

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
    if (size > MAX_SMALL) {
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
    await ingestBlob(this.#layout, blob, { ...options, open });
  }

  async tag(reference: string, descriptor: Descriptor, options: TagOptions = {}): Promise<void> {
    using _lock = await this.#lock();
    if (options.sparse !== true) await this.#assertWhole(descriptor);
    else if (!(await this.hasBlob(descriptor.digest))) throw missing(descriptor.digest);
    await writeTag(this.#layout, reference, descriptor);
  }

  async untag(reference: string): Promise<boolean> {
    using _lock = await this.#lock();
    return await removeTag(this.#layout, reference);
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
    options: TransferOptions,
  ): Promise<readonly Lower[]> {
    const known = await Promise.all(
      image.layers.map(async ({ diffId }) => {
        const record = await readRecord(this.#layout, { id: diffId, map });
        return record === undefined || record.needsParents
          ? undefined
          : lowerOf(this.#layout, { id: diffId, map });
      }),
    );
    if (known.every((lower) => lower !== undefined)) return known;
    return await this.#unpacker.all(image.layers, map, options);
  }

  async prepareLayer(layer: PinnedLayer, map: IdMap | undefined, options: TransferOptions): Promise<void> {
    await this.#unpacker.layer(layer, map, options);
  }

  async lease(
    name: string,
    digests: readonly Digest[],
    options: LeaseOptions = {},
  ): Promise<AsyncDisposable> {
    const id = randomUUID();
    using _lock = await this.#lock();
    await this.#leases.write(id, { name, digests, expires: Date.now() + (options.ttlMs ?? DEFAULT_TTL_MS) });
    return { [Symbol.asyncDispose]: () => rm(this.#leases.path(id), { force: true }) };
  }

  async endLeases(name: string): Promise<void> {
    using _lock = await this.#lock();
    await this.#leases.end(name);
  }

  async prune(options: { readonly olderThanMs: number; readonly keep: readonly Digest[] }): Promise<Pruned> {
    const pruned = await this.#pruneLocked(options);
    await sweepUnfinished(this.#layout, options.olderThanMs);
    await emptyTrash(this.#layout);
    return pruned;
  }

  async #pruneLocked(options: {
    readonly olderThanMs: number;
    readonly keep: readonly Digest[];
  }): Promise<Pruned> {
    using _lock = await this.#lock();
    const leased = await this.#leases.sweep(Date.now());
    const reached = await this.#reach([...leased, ...options.keep]);
    return await moveUnreached(this.#layout, reached, options.olderThanMs);
  }

  async fsck(options: { readonly repair: boolean } & TransferOptions): Promise<readonly FsckFinding[]> {
    const has = (digest: Digest): Promise<boolean> => this.hasBlob(digest);
    return await checkStore(this.#layout, { ...options, has, reach: () => this.#reach([]) });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#unpacker.close();
    await this.#leases.close();
  }

  readonly #readKnown = async (digest: Digest): Promise<Uint8Array | undefined> => {
    const size = await this.blobSize(digest);
    if (size === undefined || size > MAX_SMALL) return undefined;
    return await this.readSmall(digest).catch(() => undefined);
  };

  async #reach(more: Iterable<Digest>): Promise<Reached> {
    const tags = await readTags(this.#layout);
    const roots = [...tags.map((tag) => tag.descriptor.digest), ...more];
    return await reach(roots, this.#readKnown, (digest) => this.hasBlob(digest));
  }

  async #lock(): Promise<Lock> {
    return await acquireLock(this.#layout.storeLock, { signal: NEVER, timeoutMs: LOCK_TIMEOUT_MS });
  }

  /** A manifest with all it names, or an index with at least one child that is whole. */
  async #assertWhole(descriptor: Descriptor): Promise<void> {
    const parsed = parseManifestOrIndex(await this.readSmall(descriptor.digest), descriptor.mediaType);
    if (parsed.kind === 'manifest') return await this.#assertManifest(parsed);
    const children = parsed.manifests.filter(
      (child) => isManifestType(child.mediaType) || isIndexType(child.mediaType),
    );
    for (const child of children) if (await this.hasBlob(child.digest)) return await this.#assertWhole(child);
    const first = children[0];
    if (first !== undefined) throw missing(first.digest);
  }

  async #assertManifest(manifest: Manifest): Promise<void> {
    for (const child of [manifest.config, ...manifest.layers]) {
      if (!(await this.hasBlob(child.digest))) throw missing(child.digest);
    }
  }
}
