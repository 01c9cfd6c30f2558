import type { BlobBytes, ReadOptions, TransferOptions } from '../port.ts';
import type { Descriptor, Digest, Reference } from '../types.ts';

/** Where images come from: one name of a registry, layout, archive, daemon or store. */
export interface ImageSource extends AsyncDisposable {
  /** As the user would write it. */
  readonly name: string;
  /** Set where it is a repository of a registry, for mounting. */
  readonly repository?: Reference;
  /** What the name leads to. @throws where there is no such image */
  root(options: TransferOptions): Promise<Descriptor>;
  /** Bytes of a manifest or index; the caller checks them against the descriptor. */
  manifest(descriptor: Descriptor, options: TransferOptions): Promise<Uint8Array>;
  /** Bytes of a blob from `offset` on; the caller checks them. */
  blob(descriptor: Descriptor, offset: number, options: ReadOptions): Promise<BlobBytes>;
  /** False where it is known not to be here: other platforms of an index that was pulled in part. */
  has(descriptor: Descriptor, options: TransferOptions): Promise<boolean>;
  /** Manifests whose `subject` is this digest. */
  referrers(subject: Digest, options: TransferOptions): Promise<readonly Descriptor[]>;
  /** What a tag beside the image leads to; undefined where there is none. */
  tagged(tag: string, options: TransferOptions): Promise<Descriptor | undefined>;
  /**
   * Why the digest of `root()` is nobody's but ours: archives of Docker hold no manifest. Undefined where the source
   * has the very bytes.
   */
  readonly made?: string;
}

/** How a manifest is named at the target. */
export type ManifestPlace =
  /** The image that was asked for, under the target's own name. */
  | { readonly kind: 'root' }
  /** A child of an index. */
  | { readonly kind: 'child' }
  /** A manifest whose `subject` has been copied. */
  | { readonly kind: 'referrer'; readonly subject: Digest }
  /** A manifest with a tag of its own beside the image. */
  | { readonly kind: 'tag'; readonly tag: string };

export interface PutBlobOptions extends TransferOptions {
  /** A repository of the same registry that has the blob. */
  readonly mountFrom?: string;
}

/** Where images go. */
export interface ImageTarget extends AsyncDisposable {
  readonly name: string;
  readonly repository?: Reference;
  /** Whether a manifest, and with it all it names, is there already. */
  hasManifest(descriptor: Descriptor, options: TransferOptions): Promise<boolean>;
  putBlob(
    descriptor: Descriptor,
    open: (offset: number) => AsyncIterable<Uint8Array>,
    options: PutBlobOptions,
  ): Promise<'present' | 'mounted' | 'copied'>;
  putManifest(
    manifest: { readonly descriptor: Descriptor; readonly bytes: Uint8Array },
    place: ManifestPlace,
    options: TransferOptions,
  ): Promise<void>;
  /** After everything has been put: what is only then complete (an archive) is finished. */
  finish(root: Descriptor, options: TransferOptions): Promise<Finished>;
  /** Set where the target holds one platform only and no signatures: an archive for Docker, or its daemon. */
  readonly single?: string;
}

export interface Finished {
  /** Digest that the target's name leads to now; differs from the root's where the target converts. */
  readonly digest: Digest;
  /** Why it differs. */
  readonly because?: string;
  /** The daemon's name for it: the digest of the config. */
  readonly imageId?: Digest;
}
