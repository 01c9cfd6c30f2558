import type { Store } from '../../port.ts';

export interface ServeOptions {
  readonly store: Store;
  /** A loopback address; default 127.0.0.1. */
  readonly address?: string;
  /** 0 takes a free one. */
  readonly port?: number;
  /** Pushing and deleting; off unless asked for. */
  readonly writable?: boolean;
  /** Further names (without port) by which this server may be addressed; loopback names always are. */
  readonly hostNames?: readonly string[];
  /** Closes the server when aborted. */
  readonly signal?: AbortSignal;
  /** Called once a request has been answered. */
  readonly onRequest?: (request: ServedRequest) => void;
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
  close(): Promise<void>;
}
