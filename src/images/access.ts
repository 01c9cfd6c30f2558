import type { Digest, PinnedImage, Platform } from '../oci/index.ts';

/**
 * How this room reaches images: the registry and the store behind one port, so that locking and pinning stay plain
 * functions. Everything that comes back was read from bytes with the right digest.
 */
export interface ImageAccess {
  /** Digest of what a reference names now, and every platform in it; only manifests and configs are read. */
  describe(reference: string): Promise<DescribedImage>;
  /** The digest that a reference names now. */
  digestOf(reference: string): Promise<Digest>;
  /** Brings an image by digest into the store, from there if it is there already; the signal ends just this. */
  fetch(reference: string, platform: Platform, signal: AbortSignal): Promise<PinnedImage>;
}

export interface DescribedImage {
  readonly digest: Digest;
  readonly platforms: readonly PinnedImage[];
}
