import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type LookupFunction,
  Socket,
} from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { inTurns, race } from './eyeballs.ts';
import { createHttpClient, HttpFailure } from './index.ts';

const names = vi.hoisted(() => new Map<string, readonly { address: string; family: number }[]>());
/** In the order in which they were asked for. */
const lookups = vi.hoisted((): string[] => []);
vi.mock('node:dns', async (original) => {
  const dns = await original<typeof import('node:dns')>();
  const lookup = ((host: string, _: object, callback: (error: null, found: unknown) => void) => {
    setTimeout(callback, host === 'slow.test' ? 700 : 0, null, [...(names.get(host) ?? [])]);
    lookups.push(host);
  }) as unknown as typeof dns.lookup;
  return { ...dns, lookup, default: { ...dns, lookup } };
});

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  names.clear();
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const v4 = (address: string): LookupAddress => ({ address, family: 4 });
const v6 = (address: string): LookupAddress => ({ address, family: 6 });

/** Sockets that connect or fail when the test says so. */
function scripted(addresses: readonly LookupAddress[], connectMs = 0) {
  vi.useFakeTimers();
  const began: string[] = [];
  const sockets = new Map<string, Socket>();
  const ends: unknown[] = [];
  const lookup = ((_host: string, _options: object, callback: (...args: unknown[]) => void) =>
    callback(null, addresses)) as unknown as LookupFunction;
  const stop = race(
    'x',
    {
      lookup,
      connectMs,
      attempt: ({ address }) => {
        const socket = new Socket();
        began.push(address);
        sockets.set(address, socket);
        return socket;
      },
    },
    (error, socket) =>
      void ends.push(error ?? [...sockets].find(([, candidate]) => candidate === socket)?.[0]),
  );
  const of = (address: string): Socket => sockets.get(address) as Socket;
  return { began, ends, stop, of, destroyed: (address: string) => of(address).destroyed };
}

describe('R59 of the addresses of a name', () => {
  it('families take turns', () => {
    expect(
      inTurns([v6('a'), v6('b'), v6('c'), v4('d')])
        .map(({ address }) => address)
        .join(''),
    ).toBe('adbc');
    expect(
      inTurns([v4('a'), v6('b'), v6('c')])
        .map(({ address }) => address)
        .join(''),
    ).toBe('abc');
    expect(inTurns([])).toEqual([]);
  });

  it('the next is tried beside one that is silent for 250 ms, and the first to answer wins though it began first', () => {
    const tried = scripted([v4('far'), v4('hole'), v4('other')]);
    expect(tried.began).toEqual(['far']);
    vi.advanceTimersByTime(249);
    expect(tried.began).toEqual(['far']);
    vi.advanceTimersByTime(1);
    expect(tried.began).toEqual(['far', 'hole']);
    // 400 ms away: an end to each attempt after 250 ms would never get there.
    vi.advanceTimersByTime(150);
    tried.of('far').emit('connect');
    expect(tried.ends).toEqual(['far']);
    expect([tried.destroyed('far'), tried.destroyed('hole')]).toEqual([false, true]);
    vi.advanceTimersByTime(10_000);
    expect(tried.began).toHaveLength(2);
    expect(tried.ends).toHaveLength(1);
  });

  it('one that refuses makes way at once, and the first refusal is told where all refuse', () => {
    const tried = scripted([v6('a'), v4('b')]);
    const refusal = Object.assign(new Error('first'), { code: 'ECONNREFUSED' });
    tried.of('a').emit('error', refusal);
    expect(tried.began).toEqual(['a', 'b']);
    tried.of('b').emit('error', new Error('second'));
    expect(tried.ends).toEqual([refusal]);
  });

  it('silence of all of them ends with the time for connecting, and a race that is stopped closes all', () => {
    const tried = scripted([v6('a'), v4('b')], 1_000);
    vi.advanceTimersByTime(1_000);
    expect(tried.ends).toMatchObject([{ kind: 'timeout' }]);
    expect([tried.destroyed('a'), tried.destroyed('b')]).toEqual([true, true]);
    const stopped = scripted([v6('a'), v4('b')]);
    stopped.stop();
    expect(stopped.destroyed('a')).toBe(true);
    vi.advanceTimersByTime(1_000);
    expect(stopped.began).toEqual(['a']);
  });
});

/** An address that takes no connection and refuses none: its queue is full, and nobody empties it. */
async function blackHole(address: string): Promise<number> {
  const worker = new Worker(
    `const server = require('node:net').createServer();
     const { parentPort, workerData } = require('node:worker_threads');
     server.listen({ port: 0, host: workerData, backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
     });`,
    { eval: true, workerData: address },
  );
  cleanups.push(() => worker.terminate());
  const [port] = (await once(worker, 'message')) as [number];
  const filling = Array.from({ length: 6 }, () => connect(port, address).on('error', () => {}));
  cleanups.push(() => {
    for (const socket of filling) socket.destroy();
  });
  await Promise.all([once(filling[0] as Socket, 'connect'), once(filling[1] as Socket, 'connect')]);
  return port;
}

/** The server listens at the same port of another address. */
async function blackHoleBeside(server: Server): Promise<number> {
  for (;;) {
    const port = await blackHole('127.0.0.2');
    server.listen(port, '127.0.0.1');
    const isListening = await Promise.race([
      once(server, 'listening').then(() => true),
      once(server, 'error').then(() => false),
    ]);
    if (isListening) return port;
  }
}

describe('R59 an address that swallows everything', () => {
  it('costs a quarter of a second where it stands before the one that answers, not the time for connecting', async () => {
    let connections = 0;
    const server = createServer((_, response) => void setTimeout(() => response.end('here'), 20));
    server.on('connection', () => {
      connections += 1;
    });
    const port = await blackHoleBeside(server);
    cleanups.push(() => server.close());
    names.set('half.test', [v4('127.0.0.2'), v4('127.0.0.1')]);
    const http = createHttpClient({ maxConnections: 3, deadlines: { connectMs: 3_600_000 } });
    cleanups.push(() => http[Symbol.asyncDispose]());
    const started = performance.now();
    const answers = await Promise.all(
      Array.from({ length: 24 }, async () => {
        const answer = await http.request({ url: `http://half.test:${port}/` });
        return `${await answer.text(10)} ${answer.remoteAddress}`;
      }),
    );
    expect(new Set(answers)).toEqual(new Set(['here 127.0.0.1']));
    expect(performance.now() - started).toBeGreaterThan(200);
    // Connections that are still to come count among those allowed.
    expect(connections).toBe(3);
  });

  it('that is the only one ends with the time for connecting, at once when cancelled, and holds up nothing', async () => {
    const port = await blackHole('127.0.0.2');
    names.set('hole.test', [v4('127.0.0.2')]);
    const http = createHttpClient({ maxConnections: 1, deadlines: { connectMs: 400 } });
    cleanups.push(() => http[Symbol.asyncDispose]());
    const url = `http://hole.test:${port}/`;
    await expect(http.request({ url })).rejects.toSatisfy(
      (error) => error instanceof HttpFailure && error.kind === 'timeout',
    );
    const given = new AbortController();
    const first = http.request({ url, deadlines: { connectMs: 3_600_000 }, signal: given.signal });
    const second = http.request({ url, deadlines: { connectMs: 3_600_000 }, signal: given.signal });
    await delay(20);
    given.abort(new Error('enough'));
    await expect(first).rejects.toThrow('enough');
    await expect(second).rejects.toThrow('enough');
  });
});

it('looking a name up, connecting and TLS have one time for all', async () => {
  const silent = createTcpServer(() => {});
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  cleanups.push(() => silent.close());
  names.set('slow.test', [v4('127.0.0.1')]);
  const http = createHttpClient({ deadlines: { connectMs: 1000 } });
  cleanups.push(() => http[Symbol.asyncDispose]());
  const { port } = silent.address() as AddressInfo;
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  /** Without a clock that goes on meanwhile. */
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
  };
  let failure: unknown;
  http.request({ url: `https://slow.test:${port}` }).catch((error: unknown) => {
    failure = error;
  });
  await until(() => lookups.at(-1) === 'slow.test');
  const connected = once(silent, 'connection');
  vi.advanceTimersByTime(700);
  const [socket] = (await connected) as [Socket];
  cleanups.push(() => socket.destroy());
  // The handshake began, and gets no answer.
  await once(socket, 'data');
  vi.advanceTimersByTime(299);
  for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  expect(failure).toBeUndefined();
  vi.advanceTimersByTime(1);
  await until(() => failure !== undefined);
  expect(failure).toMatchObject({ kind: 'timeout' });
});
