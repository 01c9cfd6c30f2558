/** `registries.conf`'s meaning; the longest matching prefix wins. */
export interface RegistryRule {
  /** `host[:port][/path]`, or `*.host`. */
  readonly prefix: string;
  /** Replaces the prefix in the address asked; the reference keeps its original name. */
  readonly location?: string;
  readonly mirrors: readonly { readonly location: string; readonly insecure: boolean }[];
  /** Plain http, or https without a checked certificate. Loopback needs no mention. */
  readonly insecure: boolean;
  readonly blocked: boolean;
}

export interface Consent {
  readonly kind: 'docker' | 'host-network' | 'privileged' | 'host-commands';
  /** Bundle repository or name, and where given image and step it holds for. */
  readonly bundle?: string;
  readonly digest?: string;
  readonly image?: string;
  readonly step?: string;
}

/** Where a credential's value comes from. */
export type CredentialSource =
  | { readonly kind: 'env'; readonly name: string }
  | { readonly kind: 'path'; readonly path: string }
  | { readonly kind: 'command'; readonly command: string }
  | { readonly kind: 'value'; readonly value: string };

export interface Settings {
  readonly registries: readonly RegistryRule[];
  /** `docker`, `oci-runtime`, …; undefined: discovered. */
  readonly engine?: string;
  readonly consents: readonly Consent[];
  readonly credentials: Readonly<Record<string, CredentialSource>>;
  readonly state: { readonly directory: string };
  readonly store: { readonly directory: string };
  /** $XDG_CACHE_HOME/skycap, $XDG_RUNTIME_DIR or a tmpfs for secrets. */
  readonly cacheDirectory: string;
  readonly runtimeDirectory: string;
  readonly namespace: string;
}

/** A value and the file, variable or default it came from, for `config show`. */
export interface Origin {
  readonly key: string;
  readonly value: unknown;
  readonly from: string;
}
