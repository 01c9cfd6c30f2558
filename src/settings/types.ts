/** `registries.conf`'s meaning; the longest matching prefix wins. */
export interface RegistryRule {
  /** `host[:port][/path]`, or `*.host`. */
  readonly prefix: string;
  /** Replaces the prefix in the address asked; the reference keeps its original name. */
  readonly location?: string;
  readonly mirrors: readonly RegistryMirror[];
  /** Plain http, or https without a checked certificate. Loopback needs no mention. */
  readonly insecure: boolean;
  readonly blocked: boolean;
  /** The administrator's: what it blocks, no other rule lifts. */
  readonly machine?: boolean;
}

export interface RegistryMirror {
  readonly location: string;
  readonly insecure: boolean;
  /** Whether it is asked for digests, for tags or, by default, for both. */
  readonly pullFromMirror?: 'all' | 'digest-only' | 'tag-only';
}

/** What one `host[:port]` needs beyond its name. */
export interface RegistryHost {
  /** PEM files, absolute. Authorities are added to those that are trusted anyway. */
  readonly ca?: string;
  readonly certificate?: string;
  readonly key?: string;
  /** Token servers on other hosts that may have the credentials for this one: `host[:port]`. */
  readonly realms?: readonly string[];
}

export interface Consent {
  readonly kind: 'docker' | 'host-network' | 'privileged';
  /**
   * Repository that the bundle was pulled from, or the absolute folder of a local one. A bundle's own word for
   * its name is no proof and is not compared.
   */
  readonly bundle?: string;
  readonly digest?: string;
  /** Its name in the bundle, or its repository; without it the consent holds for what the bundle asks for by itself. */
  readonly image?: string;
  /** Its id, or `*`. */
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
  /** By `host[:port]`, lower case. */
  readonly hosts: Readonly<Record<string, RegistryHost>>;
  /** `docker`, `oci-runtime`, …; undefined: discovered. */
  readonly engine?: string;
  readonly consents: readonly Consent[];
  readonly credentials: Readonly<Record<string, CredentialSource>>;
  /**
   * Where registry credentials are looked for, in this order: names of helpers, `containers-auth.json` for the files.
   * Undefined: in the files.
   */
  readonly credentialHelpers?: readonly string[];
  readonly state: { readonly directory: string };
  readonly store: { readonly directory: string };
  /** $XDG_CACHE_HOME/skycap, $XDG_RUNTIME_DIR or a tmpfs for secrets. */
  readonly cacheDirectory: string;
  readonly runtimeDirectory: string;
  readonly namespace: string;
  /** Address of the Docker daemon, e.g. `unix:///run/user/1000/docker.sock`; undefined: the usual ones. */
  readonly dockerHost?: string;
}

/** A value and the file, variable or default it came from, for `config show`. */
export interface Origin {
  readonly key: string;
  readonly value: unknown;
  readonly from: string;
}

/** What settings are read from: the machine's file, the user's file, variables and flags, the last one first. */
export interface SettingsInput {
  /** The whole environment; only `SKYCAP_*`, `XDG_*`, `DOCKER_HOST`, `CONTAINERS_REGISTRIES_CONF` and `HOME` are looked at. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly flags?: SettingsFlags;
  /** Effective user id. */
  readonly uid: number;
  /** From the account data base, for when HOME is not set. */
  readonly home?: string;
  /** Default `/etc/skycap/config.yaml`; must belong to root. */
  readonly machineFile?: string;
  /** Default `/etc/containers`; its files must belong to root. */
  readonly containersFolder?: string;
}

export interface SettingsFlags {
  readonly engine?: string;
  readonly namespace?: string;
  readonly stateDirectory?: string;
  readonly storeDirectory?: string;
  readonly cacheDirectory?: string;
  readonly runtimeDirectory?: string;
  readonly dockerHost?: string;
}

export interface LoadedSettings {
  readonly settings: Settings;
  /** One entry a value for `config show`; values of credentials are hidden. */
  readonly origins: readonly Origin[];
}
