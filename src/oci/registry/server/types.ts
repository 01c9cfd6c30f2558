import type { Store } from '../../port.ts';

export interface ServeOptions {
  readonly store: Store;
  /** A loopback address; default 127.0.0.1. */
  readonly address?: string;
  /** 0 takes a free one. */
  readonly port?: number;
  /** Pushing and deleting; off unless asked for. */
  readonly writable?: boolean;
  /** Whether tags, manifests and blobs may be deleted. Default: where writing is allowed. */
  readonly deletable?: boolean;
  /** Takes manifests whose blobs, and indexes whose manifests, are not here. */
  readonly sparse?: boolean;
  /** PEM. With these the server speaks https only. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Default: nobody has to say who they are. */
  readonly auth?: ServeAuth;
  /** Further names (without port) by which this server may be addressed; loopback names always are. */
  readonly hostNames?: readonly string[];
  /** How long and how many; those that are not given suit everyone. */
  readonly limits?: Partial<ServeLimits>;
  /** Closes the server when aborted. */
  readonly signal?: AbortSignal;
  /** Called once a request has been answered. */
  readonly onRequest?: (request: ServedRequest) => void;
}

/** What one client can take of a server. */
export interface ServeLimits {
  /** Milliseconds for the headers of a request, and for a TLS handshake; default 30,000. */
  readonly headersMs: number;
  /** Milliseconds in which a client sends nothing of what is awaited, or takes nothing of an answer; default 120,000. */
  readonly quietMs: number;
  /** Milliseconds for a whole request, its body included; default a day. */
  readonly requestMs: number;
  /** Open connections; default 512. */
  readonly connections: number;
}

export interface ServeAuth {
  /** `basic`: the password with every request. `token`: at `/token`, which gives a token for a few minutes. */
  readonly kind: 'basic' | 'token';
  /** Passwords by user name (without a colon). Every user may do what the server allows. */
  readonly users: Readonly<Record<string, string>>;
  /** Whether one may pull without being known. */
  readonly anonymousPull?: boolean;
  /** Milliseconds since 1970; for tests. */
  readonly now?: () => number;
}

export interface ServedRequest {
  readonly method: string;
  readonly path: string;
  readonly status: number;
}

export interface ServedRegistry extends AsyncDisposable {
  readonly address: string;
  readonly port: number;
  /** `address:port`, in brackets where IPv6 needs them. */
  readonly host: string;
  /** `http://host` or `https://host`. */
  readonly url: string;
  close(): Promise<void>;
}
