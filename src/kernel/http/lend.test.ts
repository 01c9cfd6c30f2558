import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Server, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { TEST_CA, TEST_SERVER_CERT, TEST_SERVER_KEY } from '../../testkit/registry/certificates.ts';
import { createHttpClient, type HttpClientOptions, HttpFailure, type HttpRequest } from './index.ts';

const LONG = randomBytes(9 * 2 ** 20 + 17);
const cleanups: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Served {
  readonly port: number;
  readonly connections: Set<Socket>;
}

async function listen(server: Server): Promise<Served> {
  const connections = new Set<Socket>();
  server.on('connection', (socket: Socket) => connections.add(socket.on('error', () => {})));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    for (const socket of connections) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, connections };
}

async function ask(
  url: string,
  request: Omit<HttpRequest, 'url'> = {},
  options: HttpClientOptions = {},
): Promise<AsyncIterable<Uint8Array>> {
  const http = createHttpClient(options);
  cleanups.push(() => http[Symbol.asyncDispose]());
  return (await http.request({ url, lend: true, ...request })).body;
}

interface Read {
  readonly bytes: Buffer;
  /** How many pieces lay at each place of memory. */
  readonly places: ReadonlyMap<string, number>;
}

const buffers = new WeakMap<ArrayBufferLike, number>();
let nextBuffer = 0;

/** Copies each piece, and takes its time before it asks for the next: what is written over too early is seen. */
async function read(body: AsyncIterable<Uint8Array>): Promise<Read> {
  const parts: Buffer[] = [];
  const places = new Map<string, number>();
  for await (const piece of body) {
    if (!buffers.has(piece.buffer)) buffers.set(piece.buffer, nextBuffer++);
    const place = `${buffers.get(piece.buffer)}+${piece.byteOffset}`;
    places.set(place, (places.get(place) ?? 0) + 1);
    await sleep(1);
    parts.push(Buffer.from(piece));
  }
  return { bytes: Buffer.concat(parts), places };
}

const most = ({ places }: Read): number => Math.max(...places.values());

async function failure(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'no failure',
    (error: unknown) => (error instanceof HttpFailure ? error.kind : `other: ${String(error)}`),
  );
}

function whole(_request: IncomingMessage, response: ServerResponse): void {
  response.setHeader('content-length', LONG.length);
  response.end(LONG);
}

describe('a long body that may be lent', () => {
  it.each(['http', 'https'])('comes whole in one buffer that is written over, over %s', async (scheme) => {
    const server =
      scheme === 'http'
        ? createServer(whole)
        : createTlsServer({ cert: TEST_SERVER_CERT, key: TEST_SERVER_KEY }, whole);
    const { port } = await listen(server);
    const got = await read(await ask(`${scheme}://127.0.0.1:${port}`, { tls: { ca: TEST_CA } }));
    expect(got.bytes.equals(LONG)).toBe(true);
    expect(most(got)).toBeGreaterThan(3);
  });

  it('ends the connection, and another request has one of its own', async () => {
    const { port, connections } = await listen(createServer(whole));
    const http = createHttpClient({ maxConnections: 1 });
    cleanups.push(() => http[Symbol.asyncDispose]());
    for (const count of [1, 2]) {
      const { body } = await http.request({ url: `http://127.0.0.1:${port}`, lend: true });
      expect((await read(body)).bytes.equals(LONG)).toBe(true);
      expect(connections.size).toBe(count);
    }
  });

  it('is not longer than announced, whatever follows', async () => {
    const server = createServer(() => {});
    server.on('connection', (socket: Socket) =>
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${LONG.length - 5}\r\n\r\n`, () => socket.end(LONG)),
    );
    const { port } = await listen(server);
    const { bytes } = await read(await ask(`http://127.0.0.1:${port}`));
    expect(bytes.equals(LONG.subarray(0, -5))).toBe(true);
  });

  it.each([100, 5 * 2 ** 20])('is a broken connection when it ends after %i bytes', async (cut) => {
    const { port } = await listen(
      createServer((_request, response) => {
        response.setHeader('content-length', LONG.length);
        response.write(LONG.subarray(0, cut), () => response.destroy());
      }),
    );
    expect(await failure(read(await ask(`http://127.0.0.1:${port}`)))).toBe('reset');
  });

  it.each([100, 5 * 2 ** 20])('is given up when nothing comes after %i bytes', async (cut) => {
    const { port } = await listen(
      createServer((_request, response) => {
        response.setHeader('content-length', LONG.length);
        response.write(LONG.subarray(0, cut));
      }),
    );
    const body = await ask(`http://127.0.0.1:${port}`, { deadlines: { idleMs: 300 } });
    expect(await failure(read(body))).toBe('timeout');
  });

  it('stops at the signal, with its reason', async () => {
    const stop = new AbortController();
    const { port } = await listen(
      createServer((_request, response) => {
        response.setHeader('content-length', LONG.length);
        response.write(LONG.subarray(0, 2 ** 20));
      }),
    );
    const body = await ask(`http://127.0.0.1:${port}`, { signal: stop.signal });
    setTimeout(() => stop.abort(new Error('enough')), 100);
    expect(await failure(read(body))).toBe('other: Error: enough');
  });

  it('frees the connection when its reader has enough', async () => {
    const { port, connections } = await listen(createServer(whole));
    for await (const _piece of await ask(`http://127.0.0.1:${port}`)) break;
    const [socket] = connections;
    await expect.poll(() => socket?.destroyed).toBe(true);
  });
});

describe('a body that is not lent', () => {
  it.each([
    ['short', { lend: true }, LONG.subarray(0, 7 * 2 ** 20), true],
    ['of unknown length', { lend: true }, LONG, false],
    ['long but to be kept', {}, LONG, true],
  ] as const)('is whole when %s, in buffers of its own', async (_what, request, bytes, announced) => {
    const { port } = await listen(
      createServer((_request, response) => {
        if (announced) response.setHeader('content-length', bytes.length);
        response.write(bytes);
        response.end();
      }),
    );
    const http = createHttpClient();
    cleanups.push(() => http[Symbol.asyncDispose]());
    const { body } = await http.request({ url: `http://127.0.0.1:${port}`, ...request });
    const parts: Uint8Array[] = [];
    for await (const part of body) parts.push(part);
    expect(Buffer.concat(parts).equals(bytes)).toBe(true);
  });

  it('is none after HEAD, whatever length is announced', async () => {
    const { port } = await listen(
      createServer((_request, response) => {
        response.setHeader('content-length', LONG.length);
        response.end();
      }),
    );
    const body = await ask(`http://127.0.0.1:${port}`, { method: 'HEAD' });
    expect((await read(body)).bytes.length).toBe(0);
  });

  it('leaves the connection of a HEAD to the next request, whatever length is announced', async () => {
    const { port, connections } = await listen(
      createServer((_request, response) => {
        response.setHeader('content-length', LONG.length);
        response.end();
      }),
    );
    const http = createHttpClient();
    cleanups.push(() => http[Symbol.asyncDispose]());
    for (const _ of [1, 2, 3])
      await (await http.request({ url: `http://127.0.0.1:${port}`, method: 'HEAD' })).discard();
    expect(connections.size).toBe(1);
  });

  it('keeps its connection', async () => {
    const { port, connections } = await listen(
      createServer((_request, response) => response.end(LONG.subarray(0, 2 ** 20))),
    );
    const http = createHttpClient();
    cleanups.push(() => http[Symbol.asyncDispose]());
    for (const _ of [1, 2, 3])
      await read((await http.request({ url: `http://127.0.0.1:${port}`, lend: true })).body);
    expect(connections.size).toBe(1);
  });
});
