import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { TEST_SERVER_CERT, TEST_SERVER_KEY } from './certificates.ts';

export interface Asked {
  readonly method: string;
  /** Without query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Path and query as they came. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Number of the local port, to tell connections apart. */
  readonly connection: number;
}

export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Uint8Array;
  /** Breaks the connection after so many bytes of the body; the length announced stays that of the whole. */
  readonly cutAfter?: number;
  /** Sends without end, in chunks. */
  readonly endless?: boolean;
  /** Sends so many bytes of the body at a time, with so many milliseconds between. */
  readonly drip?: { readonly bytes: number; readonly everyMs: number };
  /** Never answers. */
  readonly silent?: boolean;
  /** Answers before the request's body was read. */
  readonly early?: boolean;
}

export type Script = (asked: Asked) => Reply | undefined;

export interface ScriptedRegistry extends AsyncDisposable {
  /** `127.0.0.1:port`. */
  readonly host: string;
  readonly asked: readonly Asked[];
  /** `METHOD /path?query` of what was asked, the first look at `/v2/` and the first `skip` requests left out. */
  lines(skip?: number): readonly string[];
}

export interface ScriptedOptions {
  readonly tls?: boolean;
  /** Replies at once to requests for which this is true, before their bodies. */
  readonly early?: (request: IncomingMessage) => Reply | undefined;
  /** Breaks the connection after so many bytes of the request's body. */
  readonly breakAt?: (request: IncomingMessage) => number | undefined;
  /** Reads nothing of these requests' bodies, and answers nothing. */
  readonly deaf?: (request: IncomingMessage) => boolean;
}

/**
 * A registry that misbehaves as told. Each rule is `METHOD /path` with the replies it gives in turn, the last one
 * for good, or a function of what was asked. What no rule names is 404.
 */
export async function scriptedRegistry(
  rules: Readonly<Record<string, Reply | readonly Reply[] | Script>>,
  options: ScriptedOptions = {},
): Promise<ScriptedRegistry> {
  const asked: Asked[] = [];
  const counts = new Map<string, number>();

  function choose(request: Asked): Reply {
    const key = `${request.method} ${request.path}`;
    const rule = rules[key] ?? rules[`* ${request.path}`] ?? rules['*'];
    if (rule === undefined) return request.path === '/v2/' ? {} : { status: 404 };
    if (typeof rule === 'function') return rule(request) ?? { status: 404 };
    if (!Array.isArray(rule)) return rule as Reply;
    const count = counts.get(key) ?? 0;
    counts.set(key, count + 1);
    return (rule[Math.min(count, rule.length - 1)] ?? { status: 404 }) as Reply;
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.on('error', () => {});
    response.on('error', () => {});
    if (options.deaf?.(request) === true) return;
    const early = options.early?.(request);
    const [path = '', query = ''] = (request.url ?? '').split('?', 2);
    const breakAt = options.breakAt?.(request) ?? Infinity;
    const parts: Buffer[] = [];
    let size = 0;
    if (early === undefined) {
      for await (const part of request as AsyncIterable<Buffer>) {
        parts.push(part);
        size += part.length;
        if (size >= breakAt) return void request.socket.destroy();
      }
    }
    const entry: Asked = {
      method: request.method ?? '',
      path,
      query: new URLSearchParams(query),
      url: request.url ?? '',
      headers: request.headers,
      body: Buffer.concat(parts),
      connection: request.socket.remotePort ?? 0,
    };
    asked.push(entry);
    send(response, early ?? choose(entry), entry.method === 'HEAD');
  }

  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    handle(request, response).catch(() => response.destroy());
  };
  const server =
    options.tls === true
      ? createTlsServer({ cert: TEST_SERVER_CERT, key: TEST_SERVER_KEY }, listener)
      : createServer(listener);
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    lines: (skip = 0) =>
      asked
        .slice(skip)
        .filter((entry) => entry.path !== '/v2/')
        .map(
          (entry) =>
            `${entry.method} ${entry.path}${entry.query.size === 0 ? '' : `?${decodeURIComponent(entry.query.toString())}`}`,
        ),
    [Symbol.asyncDispose]: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function send(response: ServerResponse, reply: Reply, headOnly: boolean): void {
  if (reply.silent === true) return;
  const body = Buffer.from(reply.body ?? '');
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(reply.headers ?? {}))
    headers[name.toLowerCase()] = typeof value === 'string' ? value : [...value];
  if (reply.endless === true) {
    response.writeHead(reply.status ?? 200, headers);
    const more = (): void => {
      if (!response.destroyed) response.write(Buffer.alloc(65_536, 'x'), () => setImmediate(more));
    };
    more();
    return;
  }
  response.writeHead(reply.status ?? 200, { 'content-length': String(body.length), ...headers });
  if (headOnly) return void response.end();
  if (reply.drip !== undefined) return void drip(response, body, reply.drip);
  if (reply.cutAfter === undefined) return void response.end(body);
  response.write(body.subarray(0, reply.cutAfter), () => setImmediate(() => response.destroy()));
}

function drip(response: ServerResponse, body: Buffer, pace: { bytes: number; everyMs: number }): void {
  let at = 0;
  const step = (): void => {
    if (response.destroyed || at >= body.length) {
      clearInterval(timer);
      response.end();
      return;
    }
    response.write(body.subarray(at, at + pace.bytes));
    at += pace.bytes;
  };
  const timer = setInterval(step, pace.everyMs);
  step();
}
