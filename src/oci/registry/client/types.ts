import type { Clock, Deadlines, ProxySettings, TlsSettings } from '../../../kernel/http/index.ts';
import type { RegistryRule } from '../../../settings/index.ts';
import type { RegistryClient, TransferOptions } from '../../port.ts';
import type { Descriptor, Digest, Reference } from '../../types.ts';
import type { RetryPolicy } from './retry.ts';

/** What a registry or its token server takes as proof of who is asking. */
export type Credential =
  /** RFC 7617; also what a token is asked for with ("Token Authentication Specification", docs.docker.com). */
  | { readonly kind: 'basic'; readonly username: string; readonly password: string }
  /** An OAuth2 refresh token, `identitytoken` of Docker's configuration. */
  | { readonly kind: 'identity-token'; readonly token: string; readonly username?: string }
  /** A finished bearer token, `registrytoken` of Docker's configuration. */
  | { readonly kind: 'registry-token'; readonly token: string };

/**
 * What is known for exactly this `host[:port]` (and the repository below it); undefined means anonymous. Never
 * answers for another host. May be asked once for each token.
 */
export type CredentialsProvider = (
  target: { readonly host: string; readonly repository: string },
  options: { readonly signal: AbortSignal },
) => Promise<Credential | undefined>;

/** Everything is optional: without options the client is anonymous, without mirrors and proxies. */
export interface RegistryClientOptions {
  /** Mirrors, rewrites, blocked and insecure registries, with the meaning of containers-registries.conf(5). */
  readonly rules?: readonly RegistryRule[];
  readonly credentials?: CredentialsProvider;
  /** `User-Agent`, RFC 9110, 10.1.5. Default `skycap`. */
  readonly userAgent?: string;
  readonly proxy?: ProxySettings;
  /** Authorities and client certificates for a `host[:port]`. */
  readonly tls?: (host: string) => TlsSettings | undefined;
  /**
   * Hosts to which a registry's credentials may be sent for a token, beside the registry's own:
   * `{ 'registry.example': ['login.example'] }`. Docker Hub's and a few other public pairs are known.
   */
  readonly realms?: Readonly<Record<string, readonly string[]>>;
  /**
   * Milliseconds for a connection (15 000), for the head of an answer (60 000) and for silence (60 000), in which an
   * answer must bring `idleBytes` bytes (65 536): slower than a kibibyte a second counts as broken.
   */
  readonly deadlines?: Partial<Deadlines>;
  /**
   * Milliseconds in which an answer of bounded size is there whole: a manifest, a deletion, a list with all its
   * pages; retries included. Default 300 000; 0 waits for ever.
   */
  readonly answerMs?: number;
  /** Of requests that failed in a way that may pass: 408, 425, 429, 500, 502 to 504, broken and silent connections. */
  readonly retry?: Partial<RetryPolicy>;
  /** Bytes; blobs above it go up in chunks of this size. Without it only where a registry refuses them whole. */
  readonly chunkSize?: number;
  /** Per host, reading and writing each. Default 8. */
  readonly maxConnections?: number;
  readonly clock?: Clock;
  /** 0 to 1, for the jitter of retries. */
  readonly random?: () => number;
}

export interface ReferrersOptions extends TransferOptions {
  /** Only what has this `artifactType`. */
  readonly artifactType?: string;
}

/**
 * The whole of the distribution protocol (distribution-spec 1.1). Beside what each method names, all of them throw:
 *
 * - REFERENCE_INVALID, DIGEST_INVALID before anything is asked;
 * - REGISTRY_UNREACHABLE, REGISTRY_TLS, REGISTRY_ADDRESS_REFUSED, REGISTRY_BLOCKED;
 * - REGISTRY_UNAUTHORIZED, REGISTRY_FORBIDDEN, REGISTRY_AUTH_INVALID;
 * - REGISTRY_NOT_FOUND, REGISTRY_UNSUPPORTED, REGISTRY_REFUSED, REGISTRY_BUSY (after all retries);
 * - REGISTRY_ANSWER_INVALID, REGISTRY_ANSWER_TOO_LARGE, REGISTRY_TRUNCATED;
 * - the reason of the caller's signal.
 *
 * What a registry warns of (`Warning: 299`) and each wait for it is an event, never an error.
 */
export interface DistributionClient extends RegistryClient {
  /**
   * What refers to `reference.digest`: signatures, attestations, SBOMs (distribution-spec, "Listing Referrers"). All
   * pages, each digest once; filtered here where the registry does not say that it did. Where it does not offer the
   * list, the index at the tag `referrersTag(digest)`. No referrers is an empty list.
   *
   * @throws DIGEST_INVALID where the reference has none, OCI_MANIFEST_INVALID for a list that cannot be read
   */
  listReferrers(reference: Reference, options: ReferrersOptions): Promise<readonly Descriptor[]>;
  /**
   * Gives what `reference` leads to one more tag in the same repository. Unlike `putManifest` it leaves lists of
   * referrers alone: the manifest referred to its subject before.
   */
  tagManifest(reference: Reference, tag: string, options: TransferOptions): Promise<void>;
  /**
   * Deletes a blob, whatever still needs it (distribution-spec, "Deleting Blobs").
   *
   * @throws REGISTRY_UNSUPPORTED where the registry does not delete, REGISTRY_NOT_FOUND
   */
  deleteBlob(reference: Reference, digest: Digest, options: TransferOptions): Promise<void>;
}
