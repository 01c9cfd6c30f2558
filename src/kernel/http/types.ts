import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';

/** Milliseconds; 0 switches a deadline off. */
export interface Deadlines {
  /** From the start of the name look-up to a usable (TLS included) connection. */
  readonly connectMs: number;
  /** From the last byte of the request to the head of the answer. */
  readonly firstByteMs: number;
  /** Longest silence while a request or answer body moves. */
  readonly idleMs: number;
  /** Bytes of an answer that must arrive within `idleMs`, so that a drip is no sign of life. Default 1. */
  readonly idleBytes?: number;
}

export interface TlsSettings {
  /** PEM; replaces the system's authorities where given. */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[];
  readonly cert?: string | Uint8Array;
  readonly key?: string | Uint8Array;
  /** True accepts any certificate. Only a person's configuration may ask for this. */
  readonly insecure?: boolean;
}

/** Called with each address about to be connected to; a string is the reason why not. */
export type AddressCheck = (address: string) => string | undefined;

/** Values of the usual variables, handed in by whoever composes. */
export interface ProxySettings {
  readonly httpProxy?: string;
  readonly httpsProxy?: string;
  readonly noProxy?: string;
}

export interface HttpClientOptions {
  /** A unix socket for every request; host and port of the URL then only fill the Host header. */
  readonly socketPath?: string;
  readonly proxy?: ProxySettings;
  readonly tls?: TlsSettings;
  readonly deadlines?: Partial<Deadlines>;
  /** Open connections per origin and lane; more requests wait for their turn. Default 8. */
  readonly maxConnections?: number;
  readonly userAgent?: string;
}

export type RequestBody = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface HttpRequest {
  readonly method?: string;
  readonly url: string | URL;
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body?: RequestBody;
  /** Of an iterable body; without it the body goes `Transfer-Encoding: chunked`. */
  readonly contentLength?: number;
  readonly signal?: AbortSignal;
  readonly deadlines?: Partial<Deadlines>;
  readonly checkAddress?: AddressCheck;
  /** Never through a proxy: for what must be checked by address. */
  readonly direct?: boolean;
  readonly tls?: TlsSettings;
  /**
   * Requests of different lanes never wait for each other's connections: a copy reads in one lane and writes in
   * another, or both would starve.
   */
  readonly lane?: string;
  /**
   * True where each piece of the answer's body is done with before the next is asked for: a long body then comes in
   * one buffer that is written over. What is kept has to be copied.
   */
  readonly lend?: boolean;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Every value of a header that was sent more than once, in order. */
  values(name: string): readonly string[];
  /** Address of the peer; the proxy's where one is used, undefined on a unix socket. */
  readonly remoteAddress: string | undefined;
  /** True where a proxy is in between: then nobody has seen the address of the peer itself. */
  readonly proxied?: boolean;
  /** Throws `HttpFailure` at a broken or silent connection. Stopping early closes the connection. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Reads all, at most `limit` bytes (then `HttpFailure` `too-large`). */
  bytes(limit: number): Promise<Uint8Array>;
  text(limit: number): Promise<string>;
  /** Frees the connection: reads a short rest, else closes. */
  discard(): Promise<void>;
}

export interface Upgraded {
  readonly kind: 'upgraded';
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Raw bytes both ways; `end()` closes the writing half only. Bytes that came with the head are put back. */
  readonly stream: Duplex;
}

export interface NotUpgraded {
  readonly kind: 'response';
  readonly response: HttpResponse;
}

export interface HttpClient extends AsyncDisposable {
  /** Any status is an answer; throws `HttpFailure`, or the signal's reason. Redirects are the caller's. */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Asks for another protocol on the connection (RFC 9110, 7.8); the caller sets the `Upgrade` header. */
  upgrade(request: HttpRequest): Promise<Upgraded | NotUpgraded>;
}
