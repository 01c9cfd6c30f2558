import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { classifyAddress } from '../../../kernel/http/index.ts';
import { isSkycapError } from '../../../kernel/index.ts';
import { openHidden } from '../../store/hidden.ts';
import { type Gate, makeGate } from './auth.ts';
import { makeContent } from './content.ts';
import { hostOf, listen, loopbackAddress, makeServer } from './listener.ts';
import { deleteManifest, putManifest } from './manifests.ts';
import { getBlob, getManifest, listReferrers, listRepositories, listTags } from './read.ts';
import { type Exchange, Refused, reply, replyJson } from './reply.ts';
import { parseRoute, type Route } from './route.ts';
import type { ServedRegistry, ServeOptions } from './types.ts';
import { makeUploads } from './uploads.ts';
import {
  appendUpload,
  cancelUpload,
  deleteBlob,
  finishUpload,
  startUpload,
  uploadStatus,
  type WriteContext,
} from './write.ts';

/** After this a lease has run out by itself; milliseconds. */
const LEASE_MS = 3_600_000;

/**
 * Offers a store as a registry (distribution-spec 1.1) on loopback, read-only unless `writable`.
 *
 * @throws REGISTRY_SERVE_FAILED when it cannot listen, should elsewhere than on loopback, or has a wrong certificate
 * @example
 * await using served = await serveRegistry({ store, port: 5000 });
 */
export async function serveRegistry(options: ServeOptions): Promise<ServedRegistry> {
  const address = loopbackAddress(options.address ?? '127.0.0.1');
  options.signal?.throwIfAborted();
  const closing = new AbortController();
  const content = makeContent(
    options.store,
    await openHidden(options.store.directory, options.writable === true),
  );
  const uploads = makeUploads(options.store.directory);
  const leases = new Map<AsyncDisposable, number>();
  const gate = makeGate({
    auth: options.auth,
    actions: ['pull', ...(options.writable ? ['push'] : []), ...(mayDelete(options) ? ['delete'] : [])],
    scheme: options.tls === undefined ? 'http' : 'https',
  });
  const context: WriteContext = {
    content,
    uploads,
    sparse: options.sparse === true,
    protect: async (digest) => {
      const old = [...leases].filter(([, since]) => performance.now() - since > LEASE_MS);
      for (const [lease] of old) {
        leases.delete(lease);
        await lease[Symbol.asyncDispose]();
      }
      leases.set(
        await options.store.lease('registry push', [digest], { ttlMs: LEASE_MS }),
        performance.now(),
      );
    },
  };
  const server = makeServer(options);
  server.on('request', (request, response) => {
    void handle(request, response, { options, context, gate, closing: closing.signal });
  });
  await listen(server, address, options.port ?? 0);
  const bound = server.address() as AddressInfo;
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= (async () => {
      options.signal?.removeEventListener('abort', onAbort);
      closing.abort(new Error('the registry is closing'));
      const done = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await done;
      await uploads[Symbol.asyncDispose]();
      for (const lease of leases.keys()) await lease[Symbol.asyncDispose]();
    })();
    return closed;
  };
  const onAbort = (): void => void close();
  options.signal?.addEventListener('abort', onAbort, { once: true });
  const host = hostOf(bound.address, bound.port);
  const url = `${options.tls === undefined ? 'http' : 'https'}://${host}`;
  return { address: bound.address, port: bound.port, host, url, close, [Symbol.asyncDispose]: close };
}

function mayDelete(options: ServeOptions): boolean {
  return options.writable === true && options.deletable !== false;
}

interface Handling {
  readonly options: ServeOptions;
  readonly context: WriteContext;
  readonly gate: Gate;
  readonly closing: AbortSignal;
}

async function handle(request: IncomingMessage, response: ServerResponse, handling: Handling): Promise<void> {
  const [path = '', query = ''] = (request.url ?? '').split(/\?(.*)/s, 2);
  const gone = new AbortController();
  response.once('close', () => gone.abort(new Error('the client is gone')));
  request.on('error', () => {});
  response.on('error', () => {});
  const exchange: Exchange = {
    request,
    response,
    method: request.method ?? 'GET',
    query: new URLSearchParams(query),
    signal: AbortSignal.any([gone.signal, handling.closing]),
  };
  response.setHeader('docker-distribution-api-version', 'registry/2.0');
  response.setHeader('x-content-type-options', 'nosniff');
  try {
    checkCaller(request, handling.options);
    await answer(exchange, parseRoute(path), handling);
  } catch (error) {
    refuse(exchange, error);
  }
  handling.options.onRequest?.({ method: exchange.method, path, status: response.statusCode });
}

/**
 * A page in a browser must not reach this server, neither by its own address nor by a name that it points at us
 * (DNS rebinding).
 */
function checkCaller(request: IncomingMessage, options: ServeOptions): void {
  const { origin } = request.headers;
  const site = request.headers['sec-fetch-site'];
  if (origin !== undefined || (site !== undefined && site !== 'none'))
    throw new Refused(403, 'DENIED', 'not for browsers');
  const name = (request.headers.host ?? '')
    .replace(/:\d+$/, '')
    .replace(/^\[|\]$/g, '')
    .toLowerCase();
  const known =
    name === 'localhost' ||
    classifyAddress(name) === 'loopback' ||
    options.hostNames?.includes(name) === true;
  if (!known) throw new Refused(403, 'DENIED', 'this server does not go by that name');
}

async function answer(exchange: Exchange, route: Route, handling: Handling): Promise<void> {
  const { method } = exchange;
  const { context } = handling;
  if (route.kind === 'token') return await handling.gate.issue(exchange);
  handling.gate.check(exchange, route);
  if (route.kind === 'unknown') throw new Refused(404, 'NAME_UNKNOWN', 'no such address');
  if (route.kind === 'invalid') throw new Refused(400, route.code, 'malformed name, tag or digest');
  if (method === 'GET' || method === 'HEAD') {
    if (route.kind === 'root') return replyJson(exchange, {});
    if (route.kind === 'catalog') return await listRepositories(exchange, context.content);
    if (route.kind === 'manifest') return await getManifest(exchange, context.content, route);
    if (route.kind === 'blob') return await getBlob(exchange, context.content, route);
    if (route.kind === 'tags') return await listTags(exchange, context.content, route);
    if (route.kind === 'referrers') return await listReferrers(exchange, context.content, route);
  }
  if (handling.options.writable !== true) throw new Refused(405, 'UNSUPPORTED', 'this registry is read-only');
  if (route.kind === 'uploads' && method === 'POST') return await startUpload(exchange, context, route);
  if (route.kind === 'upload' && method === 'GET') return await uploadStatus(exchange, context, route);
  if (route.kind === 'upload' && method === 'PATCH') return await appendUpload(exchange, context, route);
  if (route.kind === 'upload' && method === 'PUT') return await finishUpload(exchange, context, route);
  if (route.kind === 'upload' && method === 'DELETE') return await cancelUpload(exchange, context, route);
  if (route.kind === 'manifest' && method === 'PUT') return await putManifest(exchange, context, route);
  if (method === 'DELETE' && !mayDelete(handling.options))
    throw new Refused(405, 'UNSUPPORTED', 'nothing is deleted here');
  if (route.kind === 'manifest' && method === 'DELETE') return await deleteManifest(exchange, context, route);
  if (route.kind === 'blob' && method === 'DELETE') return await deleteBlob(exchange, context, route);
  throw new Refused(405, 'UNSUPPORTED', 'no such operation');
}

function refuse(exchange: Exchange, error: unknown): void {
  const { request, response } = exchange;
  // Half an answer cannot be taken back; a broken connection says so.
  if (response.headersSent) return void response.destroy();
  const [status, code, message, headers] = describe(error);
  // The rest of a body that nobody wants is not read to its end.
  if (!request.complete) response.setHeader('connection', 'close');
  reply(
    exchange,
    status,
    { 'content-type': 'application/json', ...headers },
    JSON.stringify({ errors: [{ code, message }] }),
  );
}

function describe(error: unknown): readonly [number, string, string, Readonly<Record<string, string>>] {
  if (error instanceof Refused) return [error.status, error.code, error.message, error.headers];
  if (isSkycapError(error, 'DISK_FULL')) return [507, 'UNKNOWN', 'no space left', {}];
  return [500, 'UNKNOWN', isSkycapError(error) ? error.code : 'internal error', {}];
}
