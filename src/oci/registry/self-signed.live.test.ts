import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ignoreEvents } from '../../kernel/index.ts';
import { lacking } from '../../testkit/programs.ts';
import { collect, debianRegistry, type RunningRegistry } from '../../testkit/registry/index.ts';
import { digestOf, parseReference } from '../names/index.ts';
import { createRegistryClient } from './client/index.ts';
import { createTlsLookup } from './credentials/index.ts';

// Debian's docker-registry with a certificate of its own making and passwords of `htpasswd -B`.
const lacks = lacking('a registry of Debian', {
  'docker-registry': 'docker-registry',
  htpasswd: 'apache2-utils',
  openssl: 'openssl',
  skopeo: 'skopeo',
});

const transfer = { signal: new AbortController().signal, emit: ignoreEvents };
const [username, password] = ['alice', 'pass word: ü!'] as const;

describe.skipIf(lacks)('a registry that signed its certificate itself, with bcrypt passwords', () => {
  let directory: string;
  let registry: RunningRegistry;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'self-signed-'));
    const make =
      'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=registry -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem';
    execFileSync('openssl', make.split(' '), { cwd: directory, stdio: 'ignore' });
    registry = await debianRegistry(
      { kind: 'htpasswd', users: { [username]: password } },
      { certificate: join(directory, 'cert.pem'), key: join(directory, 'key.pem') },
    );
  });
  afterAll(async () => {
    await registry?.[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  const clientOf = (ca: string | undefined, secret: string): ReturnType<typeof createRegistryClient> =>
    createRegistryClient({
      credentials: async () => ({ kind: 'basic', username, password: secret }),
      tls: createTlsLookup({
        hosts: ca === undefined ? {} : { [registry.host]: { ca } },
        environment: { env: {}, home: directory },
        machineFolders: [],
      }),
    });

  it('is not spoken to, and the message names the setting that would change it', async () => {
    await using client = clientOf(undefined, password);
    const at = parseReference(`${registry.host}/live/app:1`);
    const asked = client.listTags(at, transfer);
    await expect(asked).rejects.toMatchObject({
      code: 'REGISTRY_TLS',
      message: expect.stringContaining('TLS failed (DEPTH_ZERO_SELF_SIGNED_CERT)'),
      hint: expect.stringMatching(/signed its certificate itself.*hosts: \{HOST: \{ca: FILE\}\}/),
    });
  });

  it('takes and gives blobs once its certificate is named, as skopeo does', async () => {
    const ca = join(directory, 'cert.pem');
    await using client = clientOf(ca, password);
    const at = parseReference(`${registry.host}/live/app:1`);
    const bytes = Buffer.from('{}');
    const blob = {
      mediaType: 'application/vnd.oci.empty.v1+json',
      digest: digestOf(bytes),
      size: bytes.length,
    };
    const body = async function* (offset: number): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(offset);
    };
    expect(await client.putBlob(at, blob, body, transfer)).toBe('uploaded');
    expect(await collect(await client.getBlob(at, blob, 0, transfer))).toEqual(bytes);
    const manifest = {
      ...{ schemaVersion: 2, mediaType: 'application/vnd.oci.image.manifest.v1+json' },
      ...{ config: blob, layers: [blob] },
    };
    const raw = Buffer.from(JSON.stringify(manifest));
    const descriptor = { mediaType: manifest.mediaType, digest: digestOf(raw), size: raw.length };
    await client.putManifest(at, { descriptor, bytes: raw }, transfer);
    execFileSync('sh', ['-c', 'mkdir certs && cp cert.pem certs/ca.crt'], { cwd: directory });
    const options = ['--raw', '--cert-dir', join(directory, 'certs'), '--creds', `${username}:${password}`];
    expect(
      execFileSync('skopeo', ['inspect', ...options, `docker://${registry.host}/live/app:1`]).equals(raw),
    ).toBe(true);
  });

  it('refuses a wrong password, and the message says so and not the password', async () => {
    await using client = clientOf(join(directory, 'cert.pem'), 'pass word: u!');
    const asked = client.listTags(parseReference(`${registry.host}/live/app`), transfer);
    await expect(asked).rejects.toMatchObject({
      code: 'REGISTRY_UNAUTHORIZED',
      message: expect.not.stringContaining('pass word'),
    });
  });
});
