import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { Agent, createServer, get, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type ServedWorld,
  servedWorld,
  TEST_SERVER_CERT,
  TEST_SERVER_KEY,
} from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import type { Store } from '../../port.ts';
import { serveRegistry } from './index.ts';
import { listen, makeServer } from './listener.ts';

const hasIPv6 = Object.values(networkInterfaces()).some((each) =>
  each?.some(({ address }) => address === '::1'),
);

let world: ServedWorld;
const sockets = new Set<Socket>();
beforeEach(async () => {
  world = await servedWorld();
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await world[Symbol.asyncDispose]();
});

interface Held {
  readonly socket: Socket;
  /** All that was said, once the server has closed the connection. */
  readonly ended: Promise<string>;
}

function hold(text = ''): Held {
  const socket = connect(world.served.port, world.served.address);
  sockets.add(socket);
  let said = '';
  socket.setEncoding('latin1').on('data', (part: string) => {
    said += part;
  });
  // Whether it is closed or reset is the system's matter.
  socket.on('error', () => {});
  const ended = new Promise<string>((resolve) => socket.once('close', () => resolve(said)));
  if (text !== '') socket.write(text);
  return { socket, ended };
}

const works = async (): Promise<number> => (await world.ask('GET /v2/')).status;

/** A dropped try is over at once, and what it sets going in the server soon after. */
async function worksSoon(): Promise<boolean> {
  for (let tries = 0; tries < 500; tries++) {
    if ((await works().catch(() => 0)) === 200) return true;
    await setImmediate();
  }
  return false;
}

/** No connection ends by itself. */
const PATIENT = { headersMs: 3_600_000, quietMs: 3_600_000 };
const HEAD = 'PUT /v2/a/manifests/1 HTTP/1.1\r\nHost: localhost\r\n';

describe('a client that holds a connection', () => {
  it('and says nothing loses it when its headers are due', async () => {
    await world.start({ limits: { headersMs: 200 } });
    expect(await hold().ended).toMatch(/^(HTTP\/1\.1 408 |$)/);
  });

  it('and sends headers for ever loses it at the same time, however often it sends one', async () => {
    await world.start({ limits: { headersMs: 300 } });
    const { socket, ended } = hold('GET /v2/ HTTP/1.1\r\nHost: localhost\r\n');
    const more = setInterval(() => socket.write('X-More: a\r\n'), 20);
    try {
      expect(await ended).toMatch(/^(HTTP\/1\.1 408 |$)/);
    } finally {
      clearInterval(more);
    }
  });

  it('and sends large headers loses it when they are larger than 16 KiB', async () => {
    await world.start();
    const { socket, ended } = hold('GET /v2/ HTTP/1.1\r\nHost: localhost\r\n');
    socket.write(`X-More: ${'x'.repeat(1000)}\r\n`.repeat(17));
    expect(await ended).toMatch(/^(HTTP\/1\.1 431 |$)/);
  });

  it.each([
    ['a manifest', `${HEAD}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"half":`],
    ['a chunk', `${HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\n{"ha`],
  ])('and sends half of %s loses it when it has been silent for so long', async (_what, text) => {
    await world.start({ writable: true, limits: { quietMs: 200 } });
    await hold(text).ended;
  });

  it('and sends half a blob loses it, and what came is no blob', async () => {
    await world.start({ writable: true, limits: { quietMs: 200 } });
    const digest = digestOf('whole');
    const path = `/v2/a/blobs/uploads/?digest=${digest}`;
    await hold(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nwho`).ended;
    await world.start();
    expect((await world.ask(`GET /v2/a/blobs/${digest}`)).status).toBe(404);
  });

  it('and sends a body byte by byte loses it when the whole request is due', async () => {
    await world.start({ writable: true, limits: { headersMs: 100, requestMs: 300 } });
    const { socket, ended } = hold(`${HEAD}Content-Length: 100000\r\n\r\n`);
    const more = setInterval(() => socket.write('x'), 20);
    try {
      await ended;
    } finally {
      clearInterval(more);
    }
  });

  it('and begins no TLS loses it when its headers are due', async () => {
    const tls = { cert: TEST_SERVER_CERT, key: TEST_SERVER_KEY };
    await world.start({ tls, limits: { headersMs: 200 } });
    await hold().ended;
  });
});

describe('a connection on which nothing is said', () => {
  const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

  /** Silence is at once too long for this one, and then the server has seen it. */
  async function silence(socket: Socket): Promise<void> {
    const seen = once(socket, 'timeout');
    socket.setTimeout(1);
    await seen;
    socket.setTimeout(PATIENT.quietMs);
  }

  it('while the server reads what was pushed is kept, and has its answer', async () => {
    const pushing: Socket[] = [];
    const onRequest = (message: unknown): void => {
      const { request, socket } = message as { request: IncomingMessage; socket: Socket };
      if (request.method === 'PUT') pushing.push(socket);
    };
    const slow: Store = {
      ...world.store,
      ingest: async (...given) => {
        await Promise.all(pushing.map(silence));
        await world.store.ingest(...given);
      },
    };
    await world.start({ store: slow, writable: true, limits: PATIENT });
    const begun = await world.ask('POST /v2/a/blobs/uploads/');
    const location = begun.headers.location as string;
    expect((await world.ask(`PATCH ${location}`, { body: Buffer.from('whole') })).status).toBe(202);
    subscribe('http.server.request.start', onRequest);
    try {
      const done = await world.ask(`PUT ${location}?digest=${digestOf('whole')}`);
      expect(done.status).toBe(201);
      expect(pushing).toHaveLength(1);
    } finally {
      unsubscribe('http.server.request.start', onRequest);
    }
  });

  it('while the server is at work is kept, and ends when its answer is not taken', async () => {
    const server = makeServer({ store: world.store, limits: PATIENT });
    const answered = new Promise<{ kept: boolean; taken: boolean }>((resolve) => {
      server.on('request', async ({ socket }, response) => {
        await silence(socket);
        const kept = !socket.destroyed;
        response.once('close', () => resolve({ kept, taken: response.writableFinished }));
        socket.setTimeout(200);
        response.end(Buffer.alloc(64 * 2 ** 20));
      });
    });
    await listen(server, '127.0.0.1', 0);
    try {
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
      sockets.add(socket);
      socket.on('error', () => {}).pause();
      socket.write(GET);
      expect(await answered).toEqual({ kept: true, taken: false });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});

describe('many connections', () => {
  it('are as many at once as there may be, and one goes when another has gone', async () => {
    await world.start({ limits: { ...PATIENT, connections: 3 } });
    const held = [hold(), hold(), hold()];
    await Promise.all(held.map(({ socket }) => once(socket, 'connect')));
    expect(await hold().ended).toBe('');
    held[0]?.socket.destroy();
    await held[0]?.ended;
    expect(await worksSoon()).toBe(true);
  });

  it('that wait for nothing make room for one that wants something', async () => {
    await world.start({ limits: { ...PATIENT, connections: 3 } });
    const agent = new Agent({ keepAlive: true });
    const ask = (): Promise<number> =>
      new Promise((resolve, reject) => {
        const { port } = world.served;
        get({ agent, host: '127.0.0.1', port, path: '/v2/' }, (answer) => {
          answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
        }).on('error', reject);
      });
    try {
      expect(await Promise.all([ask(), ask(), ask()])).toEqual([200, 200, 200]);
      expect(await worksSoon()).toBe(true);
    } finally {
      agent.destroy();
    }
  });

  it('are 512 at most where nobody says otherwise, silent for two minutes, and a request takes a day', () => {
    const server = makeServer({ store: world.store });
    const { maxConnections, timeout, headersTimeout, requestTimeout, keepAliveTimeout } = server;
    expect({ maxConnections, timeout, headersTimeout, requestTimeout, keepAliveTimeout }).toEqual({
      maxConnections: 512,
      timeout: 120_000,
      headersTimeout: 30_000,
      requestTimeout: 86_400_000,
      keepAliveTimeout: 60_000,
    });
  });
});

describe('where it listens', () => {
  it.skipIf(!hasIPv6).each(['::1', '[::1]'])('%s is an address of loopback', async (address) => {
    const served = await serveRegistry({ store: world.store, address });
    try {
      expect(served.host).toBe(`[::1]:${served.port}`);
      expect(served.url).toBe(`http://[::1]:${served.port}`);
      expect((await fetch(`${served.url}/v2/`)).status).toBe(200);
    } finally {
      await served.close();
    }
  });

  it.each(['0.0.0.0', '::', '192.0.2.1', '[2001:db8::1]', 'example.test', ''])(
    '%s is none, and the message says what to do',
    async (address) => {
      await expect(serveRegistry({ store: world.store, address })).rejects.toMatchObject({
        code: 'REGISTRY_SERVE_FAILED',
        message: expect.stringContaining('is not a loopback address'),
        hint: expect.stringContaining('127.0.0.1'),
      });
    },
  );

  it.each([
    ['EADDRINUSE', 'another program listens there (EADDRINUSE)', '--port'],
    ['EACCES', 'that needs rights of root (EACCES)', 'above 1023'],
    ['EADDRNOTAVAIL', 'this host has no such address (EADDRNOTAVAIL)', '--address 127.0.0.1'],
    ['EAFNOSUPPORT', 'this host has no IPv6 (EAFNOSUPPORT)', '--address 127.0.0.1'],
    ['EWHAT', 'no luck (EWHAT)', 'another address or port'],
  ])('%s is told with what to do', async (code, what, hint) => {
    const server = createServer();
    server.listen = () => {
      server.emit('error', Object.assign(new Error('no luck'), { code }));
      return server;
    };
    await expect(listen(server, '::1', 80)).rejects.toMatchObject({
      code: 'REGISTRY_SERVE_FAILED',
      message: `cannot listen on [::1]:80: ${what}`,
      hint: expect.stringContaining(hint),
    });
  });

  it('a port that is taken is left to who has it', async () => {
    await world.start();
    const { port } = world.served;
    await expect(serveRegistry({ store: world.store, port })).rejects.toMatchObject({
      message: `cannot listen on 127.0.0.1:${port}: another program listens there (EADDRINUSE)`,
    });
    expect(await works()).toBe(200);
  });
});
