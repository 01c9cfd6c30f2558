import { createServer, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { classifyAddress } from '../../../kernel/http/index.ts';
import { ociError } from '../../errors.ts';
import type { ServeLimits, ServeOptions } from './types.ts';

/** A connection on which nobody has spoken for a while is closed before its client takes it for a good one. */
const KEEP_ALIVE_MS = 60_000;

const DEFAULTS: ServeLimits = {
  headersMs: 30_000,
  quietMs: 120_000,
  requestMs: 86_400_000,
  connections: 512,
};

/**
 * A server that nobody can hold: each connection ends when its client is silent, when its headers do not end, or its
 * request does not, and there are so many at once. Where there is no room those go that wait for nothing.
 *
 * @throws REGISTRY_SERVE_FAILED for a wrong certificate
 */
export function makeServer(options: ServeOptions): Server {
  const limits = { ...DEFAULTS, ...options.limits };
  const settings: ServerOptions = {
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    keepAliveTimeout: Math.min(KEEP_ALIVE_MS, limits.quietMs),
    connectionsCheckingInterval: Math.min(30_000, limits.headersMs),
  };
  const server = options.tls === undefined ? createServer(settings) : secure(settings, options.tls, limits);
  server.setTimeout(limits.quietMs);
  server.on('request', (request, response) => {
    // Node ends a silent connection by itself, but leaves to us one on which a request is being answered: while it is
    // the server that is at work, nobody else can speak. With the next byte silence counts anew.
    response.on('timeout', (socket: Socket) => {
      const isAtWork = request.complete && socket.writableLength === 0;
      if (!isAtWork) socket.destroy();
    });
  });
  server.maxConnections = limits.connections;
  server.on('drop', () => server.closeIdleConnections());
  return server;
}

function secure(settings: ServerOptions, tls: NonNullable<ServeOptions['tls']>, limits: ServeLimits): Server {
  try {
    // Node takes an empty one for none, and listens without.
    if (tls.cert.trim() === '' || tls.key.trim() === '') throw new Error('one of them is empty');
    const { headersMs: handshakeTimeout } = limits;
    return createTlsServer({
      ...{ ...settings, ...tls, handshakeTimeout },
      ...{ minVersion: 'TLSv1.2', ALPNProtocols: ['http/1.1'] },
    });
  } catch (cause) {
    throw ociError('REGISTRY_SERVE_FAILED', 'the certificate and the key cannot be used together', {
      hint: 'give a certificate and its own key without a passphrase, both as PEM',
      cause,
    });
  }
}

/** The address to listen on, without the brackets that a URL has. */
export function loopbackAddress(given: string): string {
  const address = given.replace(/^\[(.*)\]$/, '$1');
  if (address === 'localhost' || classifyAddress(address) === 'loopback') return address;
  throw ociError('REGISTRY_SERVE_FAILED', `${address} is not a loopback address`, {
    hint: 'serve on 127.0.0.1 and put a proxy with TLS and authentication before it',
  });
}

/** As a URL has it. */
export function hostOf(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

const REASONS: Readonly<Record<string, readonly [what: string, hint: string]>> = {
  EADDRINUSE: ['another program listens there', 'choose another port with --port, or 0 for any'],
  EACCES: ['that needs rights of root', 'choose a port above 1023 with --port, or 0 for any'],
  EADDRNOTAVAIL: ['this host has no such address', 'choose another address, e.g. --address 127.0.0.1'],
  EAFNOSUPPORT: ['this host has no IPv6', 'choose another address, e.g. --address 127.0.0.1'],
};

/** @throws REGISTRY_SERVE_FAILED */
export function listen(server: Server, address: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const [what, hint] = REASONS[cause.code ?? ''] ?? [cause.message, 'choose another address or port'];
      reject(
        ociError(
          'REGISTRY_SERVE_FAILED',
          `cannot listen on ${hostOf(address, port)}: ${what} (${cause.code ?? 'no code'})`,
          { hint, cause },
        ),
      );
    });
    server.listen(port, address, () => resolve());
  });
}
