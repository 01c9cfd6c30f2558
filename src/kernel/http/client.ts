import { type Agent, type ClientRequest, request as httpRequest, type OutgoingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { checkLiteral, makeAgent, proxyAuthorization } from './connect.ts';
import { sendBody, Watchdog, wrapResponse } from './exchange.ts';
import { failureFrom, HttpFailure } from './failure.ts';
import { proxyFor } from './proxy.ts';
import { Turns } from './turns.ts';
import type {
  Deadlines,
  HttpClient,
  HttpClientOptions,
  HttpRequest,
  HttpResponse,
  NotUpgraded,
  Upgraded,
} from './types.ts';

const DEADLINES: Deadlines = { connectMs: 15_000, firstByteMs: 60_000, idleMs: 60_000 };
const MAX_CONNECTIONS = 8;

/**
 * HTTP/1.1 with kept connections, on TCP, TLS or a unix socket.
 *
 * @example
 * await using docker = createHttpClient({ socketPath: '/var/run/docker.sock' });
 * const answer = await docker.request({ url: 'http://docker/version' });
 */
export function createHttpClient(options: HttpClientOptions = {}): HttpClient {
  const agents = new Map<string, Agent>();
  const turns = new Turns(options.maxConnections ?? MAX_CONNECTIONS);
  const ids = new WeakMap<object, number>();
  let nextId = 1;
  const idOf = (value: object | undefined): number => {
    if (value === undefined) return 0;
    const known = ids.get(value);
    if (known !== undefined) return known;
    ids.set(value, nextId);
    return nextId++;
  };

  function proxyOf(url: URL, request: HttpRequest): URL | undefined {
    if (options.socketPath !== undefined || request.direct === true) return undefined;
    return proxyFor(url, options.proxy);
  }

  function poolOf(url: URL, request: HttpRequest, connectMs: number): string {
    return [
      url.protocol,
      request.lane ?? '',
      idOf(request.checkAddress),
      idOf(request.tls ?? options.tls),
      proxyOf(url, request)?.href ?? '',
      connectMs,
    ].join(' ');
  }

  function agentFor(url: URL, request: HttpRequest, connectMs: number): Agent {
    const proxy = proxyOf(url, request);
    const relay = relayOf(url, proxy);
    const tls = request.tls ?? options.tls;
    const key = poolOf(url, request, connectMs);
    const known = agents.get(key);
    if (known !== undefined) return known;
    const agent = makeAgent((relay ?? url).protocol, {
      checkAddress: proxy === undefined ? request.checkAddress : undefined,
      tls: relay === undefined ? tls : undefined,
      proxy: relay === undefined ? proxy : undefined,
      connectMs,
      maxConnections: options.maxConnections ?? MAX_CONNECTIONS,
    });
    agents.set(key, agent);
    return agent;
  }

  function start(url: URL, request: HttpRequest, deadlines: Deadlines): Started {
    if (options.socketPath === undefined) checkLiteral(url, request.checkAddress);
    const proxy = proxyOf(url, request);
    const relay = relayOf(url, proxy);
    const target = relay ?? url;
    const send = target.protocol === 'https:' ? httpsRequest : httpRequest;
    const outgoing = send({
      agent: agentFor(url, request, deadlines.connectMs),
      method: request.method ?? 'GET',
      host: target.hostname.replace(/^\[|\]$/g, ''),
      ...(target.port === '' ? {} : { port: target.port }),
      ...(options.socketPath === undefined ? {} : { socketPath: options.socketPath }),
      path: relay === undefined ? `${url.pathname}${url.search}` : url.href.replace(/#.*$/, ''),
      headers: headersOf(request, url, relay),
    });
    const where = options.socketPath === undefined ? url.origin : `unix:${options.socketPath}`;
    return { outgoing, where, proxied: proxy !== undefined };
  }

  function headersOf(request: HttpRequest, url: URL, proxy: URL | undefined): OutgoingHttpHeaders {
    const headers: OutgoingHttpHeaders = { host: url.host };
    if (options.userAgent !== undefined) headers['user-agent'] = options.userAgent;
    for (const [name, value] of Object.entries(request.headers ?? {})) {
      if (value !== undefined) headers[name.toLowerCase()] = typeof value === 'string' ? value : [...value];
    }
    const length = bodyLength(request);
    if (length !== undefined) headers['content-length'] = length;
    return proxy === undefined ? headers : { ...headers, ...proxyAuthorization(proxy) };
  }

  async function once(request: HttpRequest): Promise<HttpResponse | Upgraded> {
    request.signal?.throwIfAborted();
    const deadlines: Deadlines = { ...DEADLINES, ...options.deadlines, ...request.deadlines };
    const url = typeof request.url === 'string' ? new URL(request.url) : request.url;
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      throw new TypeError(`not an http address: ${url.protocol}`);
    }
    const pool = poolOf(url, request, deadlines.connectMs);
    const giveBack = await turns.take(`${pool} ${url.host}`, request.signal);
    try {
      // It may have come while the turn did.
      request.signal?.throwIfAborted();
      const { outgoing, where, proxied } = start(url, request, deadlines);
      outgoing.once('close', giveBack);
      const answer = await exchange(request, outgoing, { deadlines, where, proxied });
      if ('kind' in answer) giveBack();
      return answer;
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  async function again(request: HttpRequest): Promise<HttpResponse | Upgraded> {
    try {
      return await once(request);
    } catch (error) {
      // A kept connection that the peer closed meanwhile says nothing about the peer: ask once on a fresh one.
      const replayable =
        request.body === undefined || typeof request.body === 'string' || request.body instanceof Uint8Array;
      if (!replayable || !(error instanceof HttpFailure) || !stale.has(error)) throw error;
      return await once(request);
    }
  }

  return {
    request: async (request) => {
      const answer = await again(request);
      if (!('kind' in answer)) return answer;
      answer.stream.destroy();
      throw new HttpFailure('protocol', 'the peer changed the protocol without being asked');
    },
    upgrade: async (request): Promise<Upgraded | NotUpgraded> => {
      const answer = await again({ ...request, headers: { connection: 'Upgrade', ...request.headers } });
      return 'kind' in answer ? answer : { kind: 'response', response: answer };
    },
    [Symbol.asyncDispose]: async () => {
      for (const agent of agents.values()) agent.destroy();
      agents.clear();
    },
  };
}

interface Started {
  readonly outgoing: ClientRequest;
  readonly where: string;
  readonly proxied: boolean;
}

/** Answers that only announce another; who sends more of them sends them for ever. */
const MOST_INTERIM = 100;

/** A proxy that is asked for the whole address itself: plain http. Everything else goes through a tunnel. */
function relayOf(url: URL, proxy: URL | undefined): URL | undefined {
  return url.protocol === 'http:' ? proxy : undefined;
}

/** Failures of a reused connection before any byte of the answer. */
const stale = new WeakSet<HttpFailure>();

function bodyLength(request: HttpRequest): number | undefined {
  const { body } = request;
  if (typeof body === 'string') return Buffer.byteLength(body);
  if (body instanceof Uint8Array) return body.length;
  if (body !== undefined) return request.contentLength;
  // Node itself says of a POST or PUT without a body that it is empty; some servers insist.
  return undefined;
}

function exchange(
  request: HttpRequest,
  outgoing: ClientRequest,
  context: { readonly deadlines: Deadlines; readonly where: string; readonly proxied: boolean },
): Promise<HttpResponse | Upgraded> {
  const { deadlines, where, proxied } = context;
  const { signal } = request;
  return new Promise((resolve, reject) => {
    let answered = false;
    let refused = false;
    const watchdog = new Watchdog((error) => outgoing.destroy(error));
    const abort = (): void => {
      const failure = new HttpFailure('reset', `${where}: cancelled`);
      outgoing.destroy(failure);
      // A request whose connection is still to come says nothing when it ends.
      fail(failure);
    };
    const over = (): void => {
      watchdog.stop();
      signal?.removeEventListener('abort', abort);
    };
    const fail = (error: unknown): void => {
      over();
      if (signal?.aborted === true) {
        reject(signal.reason as Error);
        return;
      }
      const failure = failureFrom(error, where);
      if (outgoing.reusedSocket && failure.kind === 'reset' && !answered) stale.add(failure);
      reject(failure);
    };
    signal?.addEventListener('abort', abort, { once: true });
    outgoing.on('error', fail);
    let interim = 0;
    outgoing.on('information', () => {
      interim += 1;
      if (interim > MOST_INTERIM)
        outgoing.destroy(new HttpFailure('protocol', `${where}: interim answers (1xx) and no other`));
    });
    outgoing.once('upgrade', (message, stream, head) => {
      answered = true;
      over();
      if (head.length > 0) stream.unshift(head);
      resolve({ kind: 'upgraded', status: message.statusCode ?? 101, headers: message.headers, stream });
    });
    outgoing.once('response', (message) => {
      answered = true;
      watchdog.stop();
      // What is left of the body would only be thrown away; the connection cannot be used again after that.
      refused = !outgoing.writableFinished && (message.statusCode ?? 0) >= 300;
      if (refused) message.once('end', () => outgoing.destroy());
      resolve(
        wrapResponse(message, {
          idleMs: deadlines.idleMs,
          idleBytes: deadlines.idleBytes ?? 1,
          where,
          signal,
          proxied,
          lend: request.lend === true && request.method !== 'HEAD',
          bodiless: request.method === 'HEAD',
          done: over,
        }),
      );
    });
    const waitForAnswer = (): void => {
      if (!answered)
        watchdog.arm(deadlines.firstByteMs, `${where}: no answer within ${deadlines.firstByteMs} ms`);
    };
    outgoing.once('finish', waitForAnswer);
    const alive = (): void => {
      if (!answered && outgoing.socket?.connecting === false) {
        watchdog.arm(deadlines.idleMs, `${where}: nothing was taken for ${deadlines.idleMs} ms`);
      }
    };
    sendBody(outgoing, request.body, { alive, stopped: () => refused || outgoing.destroyed }).catch(
      (error: unknown) => {
        over();
        outgoing.destroy();
        reject(error as Error);
      },
    );
  });
}
