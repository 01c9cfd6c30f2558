import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { createServer, type IncomingMessage, request as rawRequest } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { proxySettings } from '../../../kernel/http/index.ts';
import { asking, codeOf, type Reply, scriptedRegistry, TEST_CA } from '../../../testkit/registry/index.ts';

const names = vi.hoisted(() => new Map<string, readonly { address: string; family: number }[]>());
vi.mock('node:dns', async (original) => {
  const dns = await original<typeof import('node:dns')>();
  const lookup = ((
    host: string,
    options: object,
    callback: (error: Error | null, found: LookupAddress[]) => void,
  ) => {
    const known = names.get(host);
    if (known !== undefined) return callback(null, [...known]);
    return (dns.lookup as (...args: unknown[]) => void)(host, options, callback);
  }) as unknown as typeof dns.lookup;
  return { ...dns, lookup, default: { ...dns, lookup } };
});

const manifest: Reply = {
  headers: { 'content-type': 'application/vnd.oci.image.manifest.v1+json' },
  body: JSON.stringify({ schemaVersion: 2, config: {}, layers: [] }),
};
const KEY = 'GET /v2/team/app/manifests/1';
const alice = { kind: 'basic', username: 'alice', password: 'secret' } as const;
const cleanups: (() => void)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup();
  names.clear();
});

/** Answers for any host at loopback, and remembers what it was asked with. */
async function proxy(): Promise<{ readonly url: string; readonly seen: readonly string[] }> {
  const seen: string[] = [];
  const note = (request: IncomingMessage): void => {
    const { authorization, 'proxy-authorization': own } = request.headers;
    seen.push(`${request.method} ${request.url} ${own ?? '-'} ${authorization ?? '-'}`);
  };
  const server = createServer((request, response) => {
    note(request);
    const { port, pathname, host } = new URL(request.url ?? '');
    const { 'proxy-authorization': _, ...headers } = request.headers;
    rawRequest(`http://127.0.0.1:${port}${pathname}`, { headers: { ...headers, host } }, (answer) => {
      response.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(response);
    }).end();
  });
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    note(request);
    const far = connect(Number(request.url?.split(':')[1]), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 ok\r\n\r\n');
      far.pipe(socket).pipe(far);
    });
    far.on('error', () => socket.destroy());
    socket.on('error', () => far.destroy());
  });
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { url: `http://me:p%40ss@127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

describe('proxies', () => {
  const own = `Basic ${Buffer.from('me:p@ss').toString('base64')}`;

  it('R57 of the environment carry https through CONNECT, and know their own credentials alone', async () => {
    await using registry = await scriptedRegistry(
      {
        [KEY]: ({ headers }) =>
          headers.authorization === undefined
            ? { status: 401, headers: { 'www-authenticate': 'Basic realm="x"' } }
            : manifest,
      },
      { tls: true },
    );
    const { url, seen } = await proxy();
    const host = `registry.test:${registry.host.split(':')[1]}`;
    const tls = (): { readonly ca: string } => ({ ca: TEST_CA });
    await using asked = asking({
      proxy: proxySettings({ HTTPS_PROXY: url }),
      credentials: async () => alice,
      tls,
    });
    await asked.client.getManifest(asked.at(host), asked.options);
    expect([...new Set(seen)]).toEqual([`CONNECT ${host} ${own} -`]);
    expect(registry.asked.every(({ headers }) => headers['proxy-authorization'] === undefined)).toBe(true);
    expect(proxySettings({ https_proxy: 'a', HTTPS_PROXY: 'b', HTTP_PROXY: 'c' })).toEqual({
      httpsProxy: 'a',
      httpProxy: 'c',
    });
    // NO_PROXY exempts, loopback needs no mention.
    names.set('registry.test', [{ address: '127.0.0.1', family: 4 }]);
    const before = seen.length;
    for (const env of [{ HTTPS_PROXY: url, NO_PROXY: '.test' }, { ALL_PROXY: url }]) {
      await using direct = asking({ proxy: proxySettings(env), credentials: async () => alice, tls });
      const name = 'NO_PROXY' in env ? host : registry.host;
      await direct.client.getManifest(direct.at(name), direct.options);
    }
    expect(seen).toHaveLength(before);
  });

  it('R57 are asked for plain http by whole addresses, where the configuration allows it', async () => {
    await using registry = await scriptedRegistry({ [KEY]: manifest });
    const { url, seen } = await proxy();
    const host = `registry.test:${registry.host.split(':')[1]}`;
    await using asked = asking({
      proxy: proxySettings({ HTTP_PROXY: url }),
      rules: [{ prefix: host, mirrors: [], insecure: true, blocked: false }],
    });
    names.set('registry.test', [{ address: '127.0.0.1', family: 4 }]);
    await asked.client.getManifest(asked.at(host), asked.options);
    expect(seen.at(-1)).toBe(`GET http://${host}/v2/team/app/manifests/1 ${own} -`);
  });

  it('R57 that are none, or refuse, are an error that tells no password', async () => {
    for (const value of [
      'socks5://me:hunter2@p.test',
      'http://me:hunter2@[bad',
      'http://me:hunter2@127.0.0.1:1',
    ]) {
      await using asked = asking({ proxy: proxySettings({ HTTPS_PROXY: value }) });
      const failure = asked.client.getManifest(asked.at('registry.test'), asked.options);
      await expect(failure).rejects.toMatchObject({
        code: 'REGISTRY_UNREACHABLE',
        hint: 'check HTTP_PROXY, HTTPS_PROXY and NO_PROXY',
      });
      await expect(failure).rejects.not.toThrow('hunter2');
    }
  });
});

describe('connections', () => {
  it('R59 go to the address of a name that answers', async () => {
    await using registry = await scriptedRegistry({ [KEY]: manifest });
    // Nothing listens on the first two; one alone would be the end of it.
    names.set('two-ways.test', [
      { address: '::1', family: 6 },
      { address: '127.0.0.9', family: 4 },
      { address: '127.0.0.1', family: 4 },
    ]);
    await using asked = asking();
    const host = `two-ways.test:${registry.host.split(':')[1]}`;
    await asked.client.getManifest(asked.at(host), asked.options);
    names.set('nowhere.test', [{ address: '127.0.0.9', family: 4 }]);
    expect(
      await codeOf(asked.client.getManifest(asked.at(host.replace('two-ways', 'nowhere')), asked.options)),
    ).toBe('REGISTRY_UNREACHABLE');
  });

  it('R59 are kept, and no more of them than allowed', async () => {
    await using registry = await scriptedRegistry({ [KEY]: manifest });
    await using asked = asking({ maxConnections: 3 });
    const burst = Array.from({ length: 24 }, () =>
      asked.client.getManifest(asked.at(registry.host), asked.options),
    );
    await Promise.all(burst);
    const used = (): number =>
      new Set(registry.asked.filter(({ path }) => path !== '/v2/').map(({ connection }) => connection)).size;
    expect(registry.lines()).toHaveLength(24);
    expect(used()).toBeLessThanOrEqual(3);
    const before = used();
    await asked.client.getManifest(asked.at(registry.host), asked.options);
    expect(used()).toBe(before);
  });
});
