import type { Clock, Deadlines, ProxySettings, TlsSettings } from '../../../kernel/http/index.ts';
import type { RegistryRule } from '../../../settings/index.ts';
import type { RetryPolicy } from './retry.ts';

export type Credential =
  | { readonly kind: 'basic'; readonly username: string; readonly password: string }
  /** An OAuth2 refresh token, `identitytoken` of Docker's configuration. */
  | { readonly kind: 'identity-token'; readonly token: string; readonly username?: string }
  /** A finished bearer token, `registrytoken` of Docker's configuration. */
  | { readonly kind: 'registry-token'; readonly token: string };

/**
 * What is known for exactly this `host[:port]` (and the repository below it); undefined means anonymous. Never
 * answers for another host.
 */
export type CredentialsProvider = (
  target: { readonly host: string; readonly repository: string },
  options: { readonly signal: AbortSignal },
) => Promise<Credential | undefined>;

export interface RegistryClientOptions {
  readonly rules?: readonly RegistryRule[];
  readonly credentials?: CredentialsProvider;
  readonly userAgent?: string;
  readonly proxy?: ProxySettings;
  /** Authorities and client certificates for a `host[:port]`. */
  readonly tls?: (host: string) => TlsSettings | undefined;
  /**
   * Hosts to which a registry's credentials may be sent for a token, beside the registry's own:
   * `{ 'registry.example': ['login.example'] }`. Docker Hub's and a few other public pairs are known.
   */
  readonly realms?: Readonly<Record<string, readonly string[]>>;
  readonly deadlines?: Partial<Deadlines>;
  readonly retry?: Partial<RetryPolicy>;
  /** Bytes; blobs above it go up in chunks of this size. Without it only where a registry refuses them whole. */
  readonly chunkSize?: number;
  /** Per host, reading and writing each. Default 8. */
  readonly maxConnections?: number;
  readonly clock?: Clock;
  /** 0 to 1, for the jitter of retries. */
  readonly random?: () => number;
}
