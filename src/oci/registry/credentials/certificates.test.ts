import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isSkycapError, type SkycapError } from '../../../kernel/index.ts';
import type { RegistryHost } from '../../../settings/index.ts';
import {
  asking,
  codeOf,
  TEST_CA,
  TEST_CLIENT_CERT,
  TEST_CLIENT_KEY,
  TEST_SERVER_CERT,
  TEST_SERVER_KEY,
} from '../../../testkit/registry/index.ts';
import { createTlsLookup } from './certificates.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'certs-'));
});
afterEach(() => rm(root, { recursive: true }));

async function put(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(root, path, '..'), { recursive: true });
    await writeFile(join(root, path), text);
  }
}

const lookup = (hosts: Readonly<Record<string, RegistryHost>> = {}): ReturnType<typeof createTlsLookup> =>
  createTlsLookup({
    hosts,
    environment: { env: {}, home: join(root, 'home') },
    machineFolders: [join(root, 'containers'), join(root, 'docker')],
  });

/** A registry that lets nobody in but the holder of the client certificate. */
async function strictRegistry(): Promise<AsyncDisposable & { readonly host: string }> {
  const options = {
    cert: TEST_SERVER_CERT,
    key: TEST_SERVER_KEY,
    ca: TEST_CA,
    requestCert: true,
    rejectUnauthorized: false,
  };
  const server = createServer(options, (request, response) => {
    response.statusCode = (request.socket as TLSSocket).authorized ? 200 : 403;
    response.setHeader('content-type', 'application/vnd.oci.image.manifest.v1+json');
    response.end(JSON.stringify({ schemaVersion: 2, config: {}, layers: [] }));
  });
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

function failureOf(run: () => unknown): SkycapError | undefined {
  try {
    run();
  } catch (error) {
    if (isSkycapError(error)) return error;
  }
  return undefined;
}

async function ask(host: string, tls: ReturnType<typeof createTlsLookup>): Promise<string> {
  await using asked = asking({ tls });
  return await codeOf(asked.client.getManifest(asked.at(host), asked.options));
}

describe('authorities and client certificates', () => {
  it('R58 come from certs.d of containers and Docker, the user’s folder first', async () => {
    await using registry = await strictRegistry();
    expect(await ask(registry.host, lookup())).toBe('REGISTRY_TLS');
    await put({ [`docker/${registry.host}/ca.crt`]: TEST_CA });
    expect(await ask(registry.host, lookup())).toBe('REGISTRY_FORBIDDEN');
    await put({
      [`containers/${registry.host}/ca.crt`]: TEST_CA,
      [`containers/${registry.host}/client.cert`]: TEST_CLIENT_CERT,
      [`containers/${registry.host}/client.key`]: TEST_CLIENT_KEY,
    });
    expect(await ask(registry.host, lookup())).toBe('no error');
    await put({ [`home/.config/containers/certs.d/${registry.host}/other.crt`]: TEST_CA });
    expect(await ask(registry.host, lookup())).toBe('REGISTRY_FORBIDDEN');
    // Another port is another host.
    expect(lookup()(registry.host.replace(/:.*/, ''))).toBeUndefined();
  });

  it('R58 come from the configuration in place of any folder', async () => {
    await using registry = await strictRegistry();
    await put({ 'ca.pem': TEST_CA, 'me.pem': TEST_CLIENT_CERT, 'me.key': TEST_CLIENT_KEY });
    await put({ [`containers/${registry.host}/ca.crt`]: 'broken' });
    const files = { ca: join(root, 'ca.pem'), certificate: join(root, 'me.pem'), key: join(root, 'me.key') };
    expect(await ask(registry.host, lookup({ [registry.host]: files }))).toBe('no error');
    expect(await ask(registry.host, lookup({ [registry.host]: { realms: ['x.test'] } }))).toBe(
      'REGISTRY_TLS',
    );
  });

  it('R58 count beside the usual authorities, and Docker Hub is known by its names', async () => {
    await put({ 'docker/docker.io/ca.crt': TEST_CA });
    const { ca } = lookup()('registry-1.docker.io') ?? {};
    expect(Array.isArray(ca) && ca.length).toBeGreaterThan(100);
  });

  const BROKEN = [
    [{ 'ca.crt': 'no certificate' }, 'PEM'],
    [{ 'client.cert': TEST_CLIENT_CERT }, 'client.key'],
    [{ 'client.key': TEST_CLIENT_KEY }, 'no certificate'],
    [{ 'client.cert': TEST_CLIENT_CERT, 'client.key': TEST_SERVER_KEY }, 'not a PEM certificate and its key'],
  ] as const;
  it.each(BROKEN)('R58 that do not fit together are an error with their path: %#', async (files, message) => {
    await put(
      Object.fromEntries(Object.entries(files).map(([name, text]) => [`docker/r.test/${name}`, text])),
    );
    const failure = failureOf(() => lookup()('r.test'));
    expect([failure?.code, failure?.exitCode]).toEqual(['REGISTRY_TLS', 26]);
    expect(String(failure)).toContain(message);
    expect(String(failure)).toContain(join(root, 'docker/r.test'));
    expect(String(failure)).not.toContain('PRIVATE');
  });
});
