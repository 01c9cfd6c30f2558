import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import {
  createServer,
  type IncomingMessage,
  request as rawRequest,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  TEST_CA,
  TEST_CLIENT_CERT,
  TEST_CLIENT_KEY,
  TEST_SERVER_CERT,
  TEST_SERVER_KEY,
} from '../../testkit/registry/certificates.ts';
import { allowAddresses, createHttpClient, type HttpClientOptions, HttpFailure } from './index.ts';

const cleanups: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function listen(server: Server | ReturnType<typeof createTcpServer>): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

async function serve(handler: Handler): Promise<string> {
  return `http://127.0.0.1:${await listen(createServer(handler))}`;
}

function client(options: HttpClientOptions = {}): ReturnType<typeof createHttpClient> {
  const made = createHttpClient(options);
  cleanups.push(() => made[Symbol.asyncDispose]());
  return made;
}

async function kindOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    return error instanceof HttpFailure ? error.kind : `other: ${String(error)}`;
  }
  return 'no failure';
}

async function drain(body: AsyncIterable<Uint8Array>): Promise<number> {
  let size = 0;
  for await (const part of body) size += part.length;
  return size;
}

describe('requests', () => {
  it('go through a unix socket', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'http-'));
    cleanups.push(() => rm(folder, { recursive: true }));
    const server = createServer((request, response) =>
      response.end(`${request.method} ${request.url} ${request.headers.host}`),
    );
    server.listen(join(folder, 's'));
    await once(server, 'listening');
    cleanups.push(() => server.close());
    const http = client({ socketPath: join(folder, 's') });
    const answer = await http.request({ url: 'http://docker/v1/x?y=1' });
    expect([answer.status, answer.remoteAddress, await answer.text(100)]).toEqual([
      200,
      undefined,
      'GET /v1/x?y=1 docker',
    ]);
    await http[Symbol.asyncDispose]();
    expect(await kindOf(client({ socketPath: join(folder, 'none') }).request({ url: 'http://x/' }))).toBe(
      'connect',
    );
  });

  it('say how long their body is, also that it is empty', async () => {
    const base = await serve((request, response) => response.end(JSON.stringify(request.headers)));
    const sent = async (request: object): Promise<Record<string, string>> =>
      JSON.parse(
        await (await client({ userAgent: 'me/1' }).request({ url: base, ...request })).text(9999),
      ) as Record<string, string>;
    expect(await sent({ method: 'POST' })).toMatchObject({ 'content-length': '0', 'user-agent': 'me/1' });
    expect(await sent({ method: 'PUT', body: 'äb' })).toMatchObject({ 'content-length': '3' });
    const parts = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('ab');
      yield Buffer.from('c');
    };
    expect(await sent({ method: 'PUT', body: parts(), contentLength: 3 })).toMatchObject({
      'content-length': '3',
    });
    expect(await sent({ method: 'PUT', body: parts() })).toMatchObject({ 'transfer-encoding': 'chunked' });
    expect(await sent({})).not.toHaveProperty('content-length');
  });

  it('keep their connection and replace one that died meanwhile', async () => {
    const ports: (number | undefined)[] = [];
    const sockets: Socket[] = [];
    const base = await serve((request, response) => {
      ports.push(request.socket.remotePort);
      sockets.push(request.socket);
      response.end('x');
    });
    const http = client();
    const ask = async (): Promise<string> => await (await http.request({ url: base })).text(10);
    await ask();
    await ask();
    expect(ports[0]).toBe(ports[1]);
    // Dead without the client having been told: the next request is written into a reset.
    const server = sockets[1] as Socket;
    server.removeAllListeners('data');
    server.once('readable', () => server.resetAndDestroy());
    server.on('data', () => server.resetAndDestroy());
    expect(await ask()).toBe('x');
    expect(ports[2]).not.toBe(ports[1]);
  });

  it('give every value of a repeated header', async () => {
    const base = await serve((_, response) => {
      response.setHeader('www-authenticate', ['Basic realm="a"', 'Bearer realm="b"']);
      response.end();
    });
    const answer = await client().request({ url: base });
    expect(answer.values('WWW-Authenticate')).toEqual(['Basic realm="a"', 'Bearer realm="b"']);
    expect(answer.values('none')).toEqual([]);
    await answer.discard();
  });

  it('of two lanes do not wait for each other', async () => {
    let held: ServerResponse | undefined;
    const base = await serve((request, response) => {
      if (request.url === '/hold') held = response;
      else response.end('x');
    });
    const http = client({ maxConnections: 1 });
    const first = http.request({ url: `${base}/hold`, lane: 'read' });
    await expect.poll(() => held).toBeDefined();
    expect(await (await http.request({ url: `${base}/`, lane: 'write' })).text(9)).toBe('x');
    const queued = http.request({ url: `${base}/`, lane: 'read' });
    (held as ServerResponse | undefined)?.end();
    await (await first).discard();
    expect(await (await queued).text(9)).toBe('x');
  });
});

describe('deadlines and cancellation', () => {
  it('end a TLS handshake that is never answered', async () => {
    const port = await listen(createTcpServer(() => {}));
    expect(
      await kindOf(client({ deadlines: { connectMs: 50 } }).request({ url: `https://127.0.0.1:${port}` })),
    ).toBe('timeout');
  });

  it('end the wait for an answer', async () => {
    const base = await serve(() => {});
    expect(await kindOf(client().request({ url: base, deadlines: { firstByteMs: 50 } }))).toBe('timeout');
  });

  it('end the wait where interim answers put off the real one for ever, and not where there are some', async () => {
    let most = 100;
    const port = await listen(
      createTcpServer((socket) => {
        socket.on('error', () => {});
        socket.once('data', () => {
          for (let sent = 0; sent < most; sent += 1) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
          if (most === 100) socket.write('HTTP/1.1 204 No Content\r\n\r\n');
        });
      }),
    );
    const ask = async (): Promise<number> =>
      (await client({ deadlines: { firstByteMs: 5000 } }).request({ url: `http://127.0.0.1:${port}` }))
        .status;
    expect(await ask()).toBe(204);
    most = 101;
    await expect(ask()).rejects.toMatchObject({ kind: 'protocol', transient: false });
  });

  it('end a silent body and one that only drips', async () => {
    const base = await serve((request, response) => {
      response.write('x');
      if (request.url !== '/drip') return;
      const timer = setInterval(() => response.write('x'), 10);
      response.once('close', () => clearInterval(timer));
    });
    const http = client({ deadlines: { idleMs: 80, idleBytes: 1000 } });
    for (const path of ['/', '/drip']) {
      const answer = await http.request({ url: `${base}${path}` });
      expect(await kindOf(drain(answer.body))).toBe('timeout');
    }
  });

  it('do not count the time that the reader takes', async () => {
    const base = await serve((_, response) => response.end(Buffer.alloc(300_000)));
    // The only clock that runs is the one that the reader turns.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const answer = await client({ deadlines: { idleMs: 60 } }).request({ url: base });
    let size = 0;
    for await (const part of answer.body) {
      vi.advanceTimersByTime(150);
      size += part.length;
    }
    expect(size).toBe(300_000);
  });

  it('end a request body that nobody takes', async () => {
    const base = await serve((request) => request.pause());
    const body = async function* (): AsyncGenerator<Uint8Array> {
      for (;;) yield Buffer.alloc(65_536);
    };
    const ask = client({ deadlines: { idleMs: 80 } }).request({ method: 'PUT', url: base, body: body() });
    expect(await kindOf(ask)).toBe('timeout');
  });

  it('stop at the signal, before, at the head and in the body, with its reason', async () => {
    const base = await serve((request, response) => {
      if (request.url === '/body') response.write('x');
    });
    const reason = new Error('enough');
    const http = client();
    await expect(http.request({ url: base, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const once = new AbortController();
    const begun = http.request({ url: base, signal: once.signal });
    once.abort(reason);
    await expect(begun).rejects.toBe(reason);
    const head = new AbortController();
    const waiting = http.request({ url: base, signal: head.signal });
    setImmediate(() => head.abort(reason));
    await expect(waiting).rejects.toBe(reason);
    const body = new AbortController();
    const answer = await http.request({ url: `${base}/body`, signal: body.signal });
    const reading = drain(answer.body);
    setImmediate(() => body.abort(reason));
    await expect(reading).rejects.toBe(reason);
  });
});

describe('bodies', () => {
  it('are read up to a limit, announced or not', async () => {
    const base = await serve((request, response) => {
      if (request.url === '/announced') response.setHeader('content-length', 1000);
      response.write(Buffer.alloc(500));
      response.end(Buffer.alloc(500));
    });
    for (const path of ['/announced', '/']) {
      expect(await kindOf((await client().request({ url: `${base}${path}` })).bytes(999))).toBe('too-large');
      expect(await (await client().request({ url: `${base}${path}` })).bytes(1000)).toHaveLength(1000);
    }
  });

  it('that end early are a failure', async () => {
    const base = await serve((request, response) => {
      if (request.url === '/length') response.setHeader('content-length', 1000);
      response.write('x');
      setImmediate(() => response.destroy());
    });
    for (const path of ['/length', '/chunked']) {
      expect(await kindOf((await client().request({ url: `${base}${path}` })).bytes(9999))).toBe('reset');
    }
  });

  it('being sent stop when the peer has already refused', async () => {
    const base = await serve((_, response) => {
      response.statusCode = 401;
      response.end('no');
    });
    let closed = false;
    const body = async function* (): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield Buffer.alloc(65_536);
      } finally {
        closed = true;
      }
    };
    const answer = await client().request({ method: 'PUT', url: base, body: body() });
    expect([answer.status, await answer.text(10)]).toEqual([401, 'no']);
    await expect.poll(() => closed).toBe(true);
  });

  it("fail with their source's own error", async () => {
    const base = await serve((request) => request.resume());
    const reason = new Error('disk');
    const body = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(10);
      throw reason;
    };
    await expect(client().request({ method: 'PUT', url: base, body: body() })).rejects.toBe(reason);
  });

  it('that are no HTTP at all are a failure', async () => {
    const port = await listen(createTcpServer((socket) => socket.end('SSH-2.0-x\r\n')));
    expect(await kindOf(client().request({ url: `http://127.0.0.1:${port}` }))).toBe('protocol');
    const endless = await listen(
      createTcpServer((socket) => {
        socket.on('error', () => {});
        socket.write('HTTP/1.1 200 OK\r\n');
        const timer = setInterval(() => socket.write(`x-${'y'.repeat(8000)}: 1\r\n`), 1);
        socket.once('close', () => clearInterval(timer));
      }),
    );
    expect(await kindOf(client().request({ url: `http://127.0.0.1:${endless}` }))).toBe('protocol');
  });
});

describe('checked addresses', () => {
  it('refuse literal addresses and names before anything is sent', async () => {
    let asked = 0;
    const base = await serve((_, response) => {
      asked += 1;
      response.end();
    });
    const port = new URL(base).port;
    const checkAddress = allowAddresses(['public']);
    const http = client();
    await (await http.request({ url: base })).discard();
    expect(await kindOf(http.request({ url: base, checkAddress }))).toBe('address');
    expect(await kindOf(http.request({ url: `http://localhost:${port}`, checkAddress }))).toBe('address');
    expect(asked).toBe(1);
    const loopback = allowAddresses(['loopback']);
    await (await http.request({ url: `http://localhost:${port}`, checkAddress: loopback })).discard();
    expect(asked).toBe(2);
  });
});

describe('TLS', () => {
  it('trusts the authority handed in, offers a client certificate, and nothing else', async () => {
    const server = createTlsServer(
      {
        cert: TEST_SERVER_CERT,
        key: TEST_SERVER_KEY,
        ca: TEST_CA,
        requestCert: true,
        rejectUnauthorized: false,
      },
      (request, response) => {
        const peer = (request.socket as unknown as { authorized: boolean }).authorized;
        response.end(peer ? 'known' : 'stranger');
      },
    );
    const url = `https://127.0.0.1:${await listen(server)}`;
    expect(await kindOf(client().request({ url }))).toBe('tls');
    const ask = async (options: HttpClientOptions): Promise<string> =>
      await (await client(options).request({ url })).text(99);
    expect(await ask({ tls: { ca: TEST_CA } })).toBe('stranger');
    expect(await ask({ tls: { insecure: true } })).toBe('stranger');
    expect(await ask({ tls: { ca: [TEST_CA], cert: TEST_CLIENT_CERT, key: TEST_CLIENT_KEY } })).toBe('known');
    const http = client();
    await (await http.request({ url, tls: { ca: TEST_CA } })).discard();
    expect(await kindOf(http.request({ url }))).toBe('tls');
  });
});

describe('proxies', () => {
  async function proxy(): Promise<{ readonly url: string; readonly seen: string[] }> {
    const seen: string[] = [];
    const server = createServer((request, response) => {
      seen.push(`${request.method} ${request.url} ${request.headers['proxy-authorization'] ?? ''}`);
      const target = new URL(request.url ?? '');
      request.pipe(
        rawRequest(
          `http://127.0.0.1:${target.port}${target.pathname}`,
          { method: request.method ?? 'GET', headers: { host: target.host } },
          (answer) => answer.pipe(response),
        ),
      );
    });
    server.on('connect', (request: IncomingMessage, socket: Socket) => {
      seen.push(`CONNECT ${request.url} ${request.headers['proxy-authorization'] ?? ''}`);
      if (request.url?.startsWith('refused.test') === true) return void socket.end('HTTP/1.1 403 no\r\n\r\n');
      const port = Number(request.url?.split(':')[1]);
      const far = connect(port, '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 ok\r\n\r\n');
        far.pipe(socket).pipe(far);
      });
    });
    return { url: `http://user:p%40ss@127.0.0.1:${await listen(server)}`, seen };
  }
  const auth = `Basic ${Buffer.from('user:p@ss').toString('base64')}`;

  it('carry https through a tunnel and never see inside', async () => {
    const server = createTlsServer({ cert: TEST_SERVER_CERT, key: TEST_SERVER_KEY }, (_, response) =>
      response.end('secret'),
    );
    const port = await listen(server);
    const { url, seen } = await proxy();
    const http = client({ proxy: { httpsProxy: url }, tls: { ca: TEST_CA } });
    for (const _ of [1, 2])
      expect(await (await http.request({ url: `https://registry.test:${port}/x` })).text(99)).toBe('secret');
    expect(seen).toEqual([`CONNECT registry.test:${port} ${auth}`]);
    expect(await kindOf(http.request({ url: 'https://refused.test/' }))).toBe('proxy');
    // A name that the certificate does not have.
    expect(await kindOf(http.request({ url: `https://other.test:${port}/` }))).toBe('tls');
  });

  it('are asked for plain http by the whole address, unless it must be direct', async () => {
    const base = await serve((request, response) =>
      response.end(request.headers['proxy-authorization'] ?? 'none'),
    );
    const { url, seen } = await proxy();
    const http = client({ proxy: { httpProxy: url } });
    const target = `http://127.0.0.1.invalid:${new URL(base).port}/x?y`;
    expect(await kindOf(http.request({ url: target, direct: true }))).toBe('dns');
    expect(await (await http.request({ url: target })).text(99)).toBe('none');
    expect(seen).toEqual([`GET ${target} ${auth}`]);
    expect(await (await http.request({ url: base })).text(99)).toBe('none');
  });
});

describe('upgrade', () => {
  it('hands over the connection, first bytes included, and closes the writing half alone', async () => {
    const server = createServer();
    server.on('upgrade', (request: IncomingMessage, socket: Socket) => {
      socket.write(
        `HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: ${request.headers.upgrade}\r\n\r\nhello `,
      );
      let text = '';
      socket.on('data', (part) => {
        text += String(part);
      });
      socket.on('end', () => socket.end(`got ${text}`));
    });
    server.on('request', (_, response: ServerResponse) => {
      response.statusCode = 404;
      response.end('no such container');
    });
    const url = `http://127.0.0.1:${await listen(server)}`;
    const answer = await client().upgrade({ method: 'POST', url, headers: { Upgrade: 'tcp' } });
    if (answer.kind !== 'upgraded') throw new Error('not upgraded');
    answer.stream.end('stdin');
    let text = '';
    for await (const part of answer.stream) text += String(part);
    expect([answer.status, text]).toEqual([101, 'hello got stdin']);
  });

  it('gives the ordinary answer where there is one', async () => {
    const base = await serve((_, response) => {
      response.statusCode = 404;
      response.end('no');
    });
    const answer = await client().upgrade({ method: 'POST', url: base, headers: { Upgrade: 'tcp' } });
    expect(answer.kind === 'response' && [answer.response.status, await answer.response.text(9)]).toEqual([
      404,
      'no',
    ]);
  });
});
