/** `algorithm:hex`, checked (image-spec, descriptor.md, "Digests"). Made by `parseDigest` only. */
export type Digest = string & { readonly __digest: unique symbol };

/** image-spec, image-index.md, "platform". Normalised: `arm64` without variant, `arm` with one. */
export interface Platform {
  readonly os: string;
  readonly architecture: string;
  readonly variant?: string;
  readonly osVersion?: string;
}

/** image-spec, descriptor.md. */
export interface Descriptor {
  readonly mediaType: string;
  readonly digest: Digest;
  readonly size: number;
  readonly platform?: Platform;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly artifactType?: string;
  readonly data?: string;
  readonly urls?: readonly string[];
}

/** A parsed reference. `toString` forms are in reference.ts. `docker.io` and `library/` are filled in. */
export interface Reference {
  /** host[:port], e.g. `docker.io`, `localhost:5000`. */
  readonly registry: string;
  /** Path below the registry, e.g. `library/alpine`. */
  readonly repository: string;
  readonly tag?: string;
  readonly digest?: Digest;
}

/** The part of an image's config that decides how it runs (image-spec, config.md, "config"). */
export interface ImageRunConfig {
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly env: readonly string[];
  readonly user: string;
  readonly workingDir: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly stopSignal?: string;
}

export interface PinnedLayer {
  /** Digest of the blob as transferred. */
  readonly digest: Digest;
  /** Digest of the uncompressed tar. */
  readonly diffId: Digest;
  readonly size: number;
  readonly mediaType: string;
}

/** An image nailed down to bytes: what was verified is what runs. */
export interface PinnedImage {
  /** As the author wrote it, normalised; never a mirror's address. */
  readonly reference: string;
  /** `registry/repository` of `reference`. */
  readonly repository: string;
  /** Digest that the reference resolved to: an index or a manifest. */
  readonly digest: Digest;
  /** The chosen platform's manifest; equal to `digest` where there is no index. */
  readonly manifestDigest: Digest;
  readonly configDigest: Digest;
  readonly platform: Platform;
  readonly config: ImageRunConfig;
  readonly layers: readonly PinnedLayer[];
  /** Compressed bytes of config and layers. */
  readonly size: number;
}
