import { getEventListeners, once } from 'node:events';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { kernelError } from '../../../kernel/index.ts';
import {
  collect,
  LAYER,
  type ServedWorld,
  servedWorld,
  TEST_CA,
  TEST_CLIENT_KEY,
  TEST_SERVER_CERT,
  TEST_SERVER_KEY,
} from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf } from '../../names/index.ts';
import { serveRegistry } from './index.ts';
import type { ServedRequest, ServeOptions } from './types.ts';

const HOUR = 3_600_000;
let world: ServedWorld;
beforeEach(async () => {
  world = await servedWorld();
});
afterEach(async () => {
  vi.restoreAllMocks();
  await world[Symbol.asyncDispose]();
});

/** The answer to what a client sends byte for byte. */
async function raw(text: string): Promise<string> {
  const socket = connect(world.served.port, '127.0.0.1');
  socket.write(text);
  return (await collect(socket)).toString();
}

describe('each address and each method', () => {
  const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
  const paths = async (): Promise<Readonly<Record<string, string>>> => {
    const { manifest, layer } = await world.image('docker.io/library/tool:1');
    return {
      root: '/v2/',
      catalog: '/v2/_catalog',
      tags: '/v2/tool/tags/list',
      referrers: `/v2/tool/referrers/${manifest.digest}`,
      manifest: '/v2/tool/manifests/1',
      blob: `/v2/tool/blobs/${layer.digest}`,
      uploads: '/v2/tool/blobs/uploads/',
      upload: '/v2/tool/blobs/uploads/00000000-0000-4000-8000-000000000000',
    };
  };
  /** What is not refused as an operation, by the code of its answer. */
  const table = async (options: Partial<ServeOptions>): Promise<Readonly<Record<string, unknown>>> => {
    const all = await paths();
    await world.start(options);
    const refused = new Set<string | undefined>();
    const done: Record<string, string> = {};
    for (const [kind, path] of Object.entries(all)) {
      for (const method of METHODS) {
        const answer = await world.ask(`${method} ${path}`);
        if (answer.status === 405 && method !== 'HEAD') {
          expect(answer.code).toBe('UNSUPPORTED');
          refused.add(answer.message);
        }
        if (answer.status !== 405) done[`${method} ${kind}`] = `${answer.status} ${answer.code ?? ''}`.trim();
      }
    }
    return { done, refused: [...refused] };
  };
  const read = {
    ...Object.fromEntries(
      ['root', 'catalog', 'tags', 'referrers', 'manifest', 'blob'].flatMap((kind) => [
        [`GET ${kind}`, '200'],
        [`HEAD ${kind}`, '200'],
      ]),
    ),
  };
  const written = {
    'GET upload': '404 BLOB_UPLOAD_UNKNOWN',
    'POST uploads': '202',
    'PUT manifest': '400 MANIFEST_INVALID',
    'PATCH upload': '404 BLOB_UPLOAD_UNKNOWN',
    'PUT upload': '404 BLOB_UPLOAD_UNKNOWN',
    'DELETE upload': '404 BLOB_UPLOAD_UNKNOWN',
  };

  it('reads where nothing is written', async () => {
    expect(await table({})).toEqual({ done: read, refused: ['this registry is read-only'] });
  });

  it('writes and deletes where that is allowed', async () => {
    expect(await table({ writable: true })).toEqual({
      done: { ...read, ...written, 'DELETE manifest': '202', 'DELETE blob': '202' },
      refused: ['no such operation'],
    });
  });

  it('deletes uploads alone where nothing else is deleted', async () => {
    expect(await table({ writable: true, deletable: false })).toEqual({
      done: { ...read, ...written },
      refused: ['no such operation', 'nothing is deleted here'],
    });
  });

  it('says what is wrong with an address', async () => {
    await world.start();
    const unknown = { status: 404, code: 'NAME_UNKNOWN', message: 'no such address' };
    const malformed = { status: 400, message: 'malformed name, tag or digest' };
    for (const method of ['GET', 'POST']) {
      expect(await world.ask(`${method} /elsewhere`)).toMatchObject(unknown);
      expect(await world.ask(`${method} /v2/A/manifests/1`)).toMatchObject({
        ...malformed,
        code: 'NAME_INVALID',
      });
      expect(await world.ask(`${method} /v2/a/manifests/-`)).toMatchObject({
        ...malformed,
        code: 'TAG_INVALID',
      });
      expect(await world.ask(`${method} /v2/a/blobs/x`)).toMatchObject({
        ...malformed,
        code: 'DIGEST_INVALID',
      });
    }
  });
});

describe('every answer', () => {
  it('is told of with its method, path and status, and says which protocol it is of', async () => {
    const seen: ServedRequest[] = [];
    await world.start({ onRequest: (request) => void seen.push(request) });
    const common = { 'docker-distribution-api-version': 'registry/2.0', 'x-content-type-options': 'nosniff' };
    expect(await world.ask('GET /v2/?a=b')).toMatchObject({
      status: 200,
      headers: { ...common, 'content-type': 'application/json', 'content-length': '2' },
      body: Buffer.from('{}'),
    });
    expect(await world.ask('HEAD /v2/')).toMatchObject({
      headers: { ...common, 'content-length': '2' },
      body: Buffer.alloc(0),
    });
    expect((await world.ask('GET /v2/a/manifests/1?x?y')).headers).toMatchObject(common);
    expect(seen).toEqual([
      { method: 'GET', path: '/v2/', status: 200 },
      { method: 'HEAD', path: '/v2/', status: 200 },
      { method: 'GET', path: '/v2/a/manifests/1', status: 404 },
    ]);
  });

  it('that is an error has the form of the specification, and leaves the connection open', async () => {
    await world.start();
    const answer = await world.ask('GET /v2/a/manifests/1');
    expect(answer.headers).toMatchObject({ 'content-type': 'application/json' });
    expect(answer.headers.connection).not.toBe('close');
    expect(answer.body.toString()).toBe(
      '{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such manifest"}]}',
    );
  });

  it('that comes before the body does closes the connection', async () => {
    await world.start({ writable: true });
    const answer = await raw(
      'PUT /v2/a/manifests/- HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 400 .*\r\nconnection: close\r\n.*TAG_INVALID/is);
  });

  it.each([
    [507, 'no space left', kernelError('DISK_FULL', 'full')],
    [500, 'OCI_STORE_INVALID', ociError('OCI_STORE_INVALID', 'a path that is nobody else’s business')],
    [500, 'internal error', new Error('a path that is nobody else’s business')],
  ] as const)('of a fault is %i: %s', async (status, message, fault) => {
    await world.start({ store: { ...world.store, list: () => Promise.reject(fault) } });
    expect(await world.ask('GET /v2/_catalog')).toMatchObject({ status, code: 'UNKNOWN', message });
  });
});

describe('the name of this server', () => {
  const status = async (header: string): Promise<string | undefined> =>
    (await raw(`GET /v2/ HTTP/1.1\r\n${header}\r\nConnection: close\r\n\r\n`)).split(' ')[1];

  it.each([
    'Host: LocalHost',
    'Host: localhost:54321',
    'Host: [::1]',
    'Host: 127.0.0.2:1',
    'Host: own.test:1',
  ])('is %s', async (header) => {
    await world.start({ hostNames: ['own.test'] });
    expect(await status(header)).toBe('200');
  });

  it.each([
    'Host: localhost:1x',
    'Host: x.localhost.test',
    'Host: [:[:1]',
    'Host: [::]1]',
    'Host:',
    'Host: own.test',
  ])('is not %s', async (header) => {
    await world.start();
    expect(await status(header)).toBe('403');
  });

  it('is asked for by people and programs, and not by pages', async () => {
    await world.start();
    expect(await status('Host: localhost\r\nSec-Fetch-Site: none')).toBe('200');
    const asked = (headers: Record<string, string>) => world.ask('GET /v2/', { headers });
    const page = { status: 403, code: 'DENIED', message: 'not for browsers' };
    expect(await asked({ 'sec-fetch-site': 'same-origin' })).toMatchObject(page);
    expect(await asked({ origin: 'http://localhost' })).toMatchObject(page);
    expect(await asked({ host: 'evil.test' })).toMatchObject({
      status: 403,
      code: 'DENIED',
      message: 'this server does not go by that name',
    });
  });
});

describe('serving', () => {
  it('says why it cannot', async () => {
    await world.start();
    const { store } = world;
    await expect(serveRegistry({ store, address: '192.0.2.1' })).rejects.toMatchObject({
      code: 'REGISTRY_SERVE_FAILED',
      message: '192.0.2.1 is not a loopback address',
      hint: 'serve on 127.0.0.1 and put a proxy with TLS and authentication before it',
    });
    const { port } = world.served;
    await expect(serveRegistry({ store, port })).rejects.toMatchObject({
      code: 'REGISTRY_SERVE_FAILED',
      message: `cannot listen on 127.0.0.1:${port}: another program listens there (EADDRINUSE)`,
      hint: 'choose another port with --port, or 0 for any',
    });
    for (const tls of [
      { cert: TEST_SERVER_CERT, key: TEST_CLIENT_KEY },
      { cert: ' ', key: TEST_SERVER_KEY },
      { cert: TEST_SERVER_CERT, key: '\n' },
    ])
      await expect(serveRegistry({ store, tls })).rejects.toMatchObject({
        code: 'REGISTRY_SERVE_FAILED',
        message: 'the certificate and the key cannot be used together',
        hint: 'give a certificate and its own key without a passphrase, both as PEM',
      });
  });

  it('is at an address with a port that it tells', async () => {
    const served = await world.start({ address: 'localhost' });
    expect(served.port).toBeGreaterThan(0);
    expect([served.url, served.host]).toEqual([`http://${served.host}`, expect.stringMatching(/:\d+$/)]);
    expect((await world.ask('GET /v2/')).status).toBe(200);
    const again = await world.start({ port: served.port });
    expect(again).toMatchObject({
      address: '127.0.0.1',
      port: served.port,
      host: `127.0.0.1:${served.port}`,
    });
  });

  it('does not begin once it is to end, and forgets the signal when it ends', async () => {
    const stopped = AbortSignal.abort(new Error('stopped before'));
    await expect(serveRegistry({ store: world.store, signal: stopped })).rejects.toThrow('stopped before');
    const { signal } = new AbortController();
    const served = await serveRegistry({ store: world.store, signal });
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    expect(served.close()).toBe(served.close());
    await served.close();
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('ends what is going on when it closes', async () => {
    await world.start({ writable: true });
    const begun = await world.ask('POST /v2/a/blobs/uploads/');
    const socket = connect(world.served.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      `PATCH ${begun.headers.location} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc`,
    );
    await once(socket, 'connect');
    const ended = new Promise((resolve) => socket.once('close', resolve));
    await world.served.close();
    await ended;
  });

  it('speaks HTTP/1.1 over TLS', async () => {
    const { port } = await world.start({ tls: { cert: TEST_SERVER_CERT, key: TEST_SERVER_KEY } });
    const socket = connectTls({
      port,
      host: '127.0.0.1',
      ca: TEST_CA,
      servername: 'localhost',
      ALPNProtocols: ['h2', 'http/1.1'],
    });
    await once(socket, 'secureConnect');
    expect(socket.alpnProtocol).toBe('http/1.1');
    socket.destroy();
  });

  it('leases what is pushed for an hour, and no longer', async () => {
    const leased: unknown[] = [];
    let ended = 0;
    const lease = async (...asked: unknown[]): Promise<AsyncDisposable> => {
      leased.push(asked);
      return {
        [Symbol.asyncDispose]: async () => {
          ended += 1;
        },
      };
    };
    const base = performance.now();
    const clock = vi.spyOn(performance, 'now').mockReturnValue(base);
    await world.start({ writable: true, store: { ...world.store, lease } });
    await world.upload(LAYER);
    expect(leased).toEqual([['registry push', [digestOf(LAYER)], { ttlMs: HOUR }]]);
    clock.mockReturnValue(base + HOUR);
    await world.upload('two');
    expect(ended).toBe(0);
    clock.mockReturnValue(base + HOUR + 1);
    await world.upload('three');
    expect(ended).toBe(1);
    await world.served.close();
    expect(ended).toBe(3);
  });
});
