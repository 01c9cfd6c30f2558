import type { Emit } from '../kernel/index.ts';
import type { Descriptor, Digest, PinnedImage, Platform, Reference } from './types.ts';

/** What all that waits takes; events tell of progress. */
export interface TransferOptions {
  readonly signal: AbortSignal;
  readonly emit: Emit<OciEvent>;
}

export type OciEvent =
  | { readonly type: 'image.resolved'; readonly reference: string; readonly digest: Digest }
  | {
      readonly type: 'image.pulling';
      readonly reference: string;
      readonly layers: number;
      readonly sizeBytes: number;
    }
  | { readonly type: 'image.pulled'; readonly reference: string; readonly digest: Digest }
  | {
      readonly type: 'image.copying';
      readonly source: string;
      readonly target: string;
      readonly manifests: number;
      readonly blobs: number;
      readonly sizeBytes: number;
    }
  | {
      readonly type: 'image.copied';
      readonly source: string;
      readonly target: string;
      readonly digest: Digest;
    }
  /** A blob of a copy has arrived; `present` was there already, `mounted` came without moving a byte. */
  | {
      readonly type: 'blob.copied';
      readonly digest: Digest;
      readonly sizeBytes: number;
      readonly how: 'present' | 'mounted' | 'copied';
    }
  | {
      readonly type: 'blob.progress';
      readonly digest: Digest;
      readonly doneBytes: number;
      readonly sizeBytes: number;
    }
  | {
      readonly type: 'registry.retry';
      readonly registry: string;
      readonly reason: string;
      readonly delayMs: number;
    }
  /** Text from the registry, quoted. */
  | { readonly type: 'registry.warning'; readonly registry: string; readonly message: string }
  | { readonly type: 'blob.retry'; readonly digest: Digest; readonly reason: string; readonly offset: number }
  | { readonly type: 'layer.unpacked'; readonly diffId: Digest; readonly entries: number }
  /** Asked for as a file-system image, a layer is a folder; the end of a sentence says what about it. */
  | { readonly type: 'layer.folder'; readonly diffId: Digest; readonly because: string };

export interface ReadOptions extends TransferOptions {
  /** False asks the registry itself alone: before a write to it, and after a mirror's bytes were wrong. Default true. */
  readonly mirrors?: boolean;
  /** True where each piece of a blob is done with before the next is asked for: the buffer is then written over. */
  readonly lend?: boolean;
}

export interface BlobBytes extends AsyncIterable<Uint8Array> {
  /** `host[:port]` of the mirror that they come from, at least at first; undefined where the registry gives them. */
  readonly mirror?: string;
}

/** Bytes of a manifest or index, verified against `descriptor.digest`. */
export interface ManifestBytes {
  readonly descriptor: Descriptor;
  readonly bytes: Uint8Array;
}

/**
 * Speaks the distribution protocol (distribution-spec 1.1) to any registry; rewrites, mirrors and credentials are its
 * constructor's. Reads go to mirrors first, all else to the registry itself. Errors are those of `oci/errors.ts` from
 * REGISTRY_UNREACHABLE to REGISTRY_DIGEST_MISMATCH, REFERENCE_INVALID and DIGEST_INVALID, or the signal's reason.
 */
export interface RegistryClient extends AsyncDisposable {
  /**
   * By tag or digest; a reference with both is asked by digest, one with neither for `latest` ("Pulling manifests").
   * The bytes, 8 MiB at most, have the digest asked for, and the descriptor that they themselves give.
   *
   * @throws REGISTRY_NOT_FOUND, REGISTRY_DIGEST_MISMATCH, OCI_MANIFEST_INVALID, REGISTRY_ANSWER_TOO_LARGE
   */
  getManifest(reference: Reference, options: TransferOptions): Promise<ManifestBytes>;
  /**
   * What a tag leads to, undefined where there is none ("Checking if content exists"). From the registry's headers
   * where they suffice, so the digest is its word until the manifest was read.
   */
  headManifest(reference: Reference, options: ReadOptions): Promise<Descriptor | undefined>;
  /**
   * Byte for byte, by tag, or by digest where the reference has no tag ("Pushing Manifests"). A manifest with a
   * `subject` is put on the subject's list of referrers where the registry does not keep one.
   *
   * @throws REGISTRY_DIGEST_MISMATCH, OCI_MANIFEST_INVALID, REGISTRY_ANSWER_INVALID where the registry changed it
   */
  putManifest(reference: Reference, manifest: ManifestBytes, options: TransferOptions): Promise<void>;
  /**
   * A manifest by digest, a tag by tag ("Deleting Manifests"); a list of referrers follows.
   *
   * @throws REGISTRY_NOT_FOUND, REGISTRY_UNSUPPORTED where the registry does not delete this
   */
  deleteManifest(reference: Reference, options: TransferOptions): Promise<void>;
  /**
   * The bytes from `offset` to the descriptor's size, no more and no less ("Pulling blobs"); broken transfers go on
   * where they ended, at the next place where a mirror fails. The caller verifies the digest, as `Store.ingest` does,
   * and may ask again without mirrors where one gave wrong bytes (`pastWrongMirror`).
   *
   * @throws REGISTRY_NOT_FOUND; while it is read REGISTRY_TRUNCATED, REGISTRY_ANSWER_INVALID
   */
  getBlob(reference: Reference, blob: Descriptor, offset: number, options: ReadOptions): Promise<BlobBytes>;
  hasBlob(reference: Reference, digest: Digest, options: TransferOptions): Promise<boolean>;
  /**
   * Mounts from `mountFrom` (a repository of the same registry) where the registry agrees, else uploads ("Push").
   * `source(offset)` may be asked again, from any offset, after a failure.
   *
   * @throws OCI_BLOB_CORRUPT where the source does not have the descriptor's size, REGISTRY_REFUSED
   */
  putBlob(
    reference: Reference,
    blob: Descriptor,
    source: (offset: number) => AsyncIterable<Uint8Array>,
    options: TransferOptions & { readonly mountFrom?: string },
  ): Promise<'present' | 'mounted' | 'uploaded'>;
  /** All tags of the repository, each once, in the registry's order ("Listing Tags"). */
  listTags(reference: Reference, options: TransferOptions): Promise<readonly string[]>;
}

/** Ids of the container shifted to ids of the host: container 0 is `hostBase`. */
export interface IdMap {
  readonly hostBase: number;
  readonly size: number;
}

/** A folder, or one file-system image, which only root can mount. */
export type LowerForm = 'folder' | 'erofs';

/** One unpacked layer for an overlay mount. */
export interface Lower {
  readonly kind: LowerForm;
  readonly path: string;
}

export interface LowersOptions extends TransferOptions {
  /**
   * Default `folder`: whoever asks for `erofs` mounts it, as nothing else can read it. What cannot be one is a folder
   * even so, and the event `layer.folder` says why.
   */
  readonly form?: LowerForm;
}

export interface TagOptions {
  /** Names a manifest though something that it leads to is not there: layers kept elsewhere, platforms left out. */
  readonly sparse?: boolean;
}

/** A name in the store. */
export interface StoredImage {
  readonly reference: string;
  readonly descriptor: Descriptor;
  readonly sizeBytes: number;
  readonly platforms: readonly Platform[];
}

/**
 * Content on disk as an OCI image layout, safe for several processes. Content is invisible until committed with
 * the right digest and size.
 */
export interface Store extends AsyncDisposable {
  readonly directory: string;
  hasBlob(digest: Digest): Promise<boolean>;
  blobSize(digest: Digest): Promise<number | undefined>;
  /** Verified again while read; throws OCI_BLOB_CORRUPT at the end of wrong bytes. */
  readBlob(digest: Digest, offset?: number): AsyncIterable<Uint8Array>;
  /** Whole and verified, up to 8 MiB: manifests, configs. */
  readSmall(digest: Digest): Promise<Uint8Array>;
  /** `open(offset)` is asked again from where a broken transfer ended, also one of an earlier process. */
  ingest(
    blob: Descriptor,
    open: (offset: number) => Promise<AsyncIterable<Uint8Array>>,
    options: TransferOptions,
  ): Promise<void>;
  /** Names a manifest or index (its children present, unless the name is `sparse`). */
  tag(reference: string, descriptor: Descriptor, options?: TagOptions): Promise<void>;
  untag(reference: string): Promise<boolean>;
  resolve(reference: string): Promise<Descriptor | undefined>;
  list(): Promise<readonly StoredImage[]>;
  /** The layers of an image, unpacked and with shifted ids, lowest first; unpacks what is missing. */
  lowers(image: PinnedImage, map: IdMap | undefined, options: LowersOptions): Promise<readonly Lower[]>;
  /**
   * Keeps these digests and their children from `prune` until disposed, ended by name, or its process is gone and
   * `ttlMs` (an hour) is over.
   */
  lease(
    name: string,
    digests: readonly Digest[],
    options?: { readonly ttlMs?: number },
  ): Promise<AsyncDisposable>;
  /** Ends all leases of this name, whichever process took them. */
  endLeases?(name: string): Promise<void>;
  prune(options: {
    readonly olderThanMs: number;
    readonly keep: readonly Digest[];
  }): Promise<{ readonly blobs: number; readonly layers: number; readonly freedBytes: number }>;
  fsck(options: { readonly repair: boolean } & TransferOptions): Promise<readonly FsckFinding[]>;
}

/** What `fsck` found (docs/store.md). */
export interface FsckFinding {
  readonly kind: 'blob-digest' | 'blob-missing' | 'partial' | 'layer' | 'index';
  readonly subject: string;
  readonly message: string;
  readonly repaired: boolean;
}
