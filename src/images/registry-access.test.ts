import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { RegistryClient, Store } from '../oci/index.ts';
import { type DigestAlgorithm, digestOf, parsePlatform } from '../oci/names/index.ts';
import { openStore } from '../oci/store/index.ts';
import { inPieces, recordingTransfer } from '../testkit/images/index.ts';
import type { DescribedImage } from './access.ts';
import { createImageAccess } from './registry-access.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const CONFIG = 'application/vnd.oci.image.config.v1+json';

/** A registry with one image, all of whose digests are of one algorithm. */
function registryOf(algorithm: DigestAlgorithm, sent?: Uint8Array): RegistryClient {
  const layer = {
    mediaType: 'application/vnd.oci.image.layer.v1.tar',
    digest: digestOf('x', algorithm),
    size: 1,
  };
  const rootfs = { type: 'layers', diff_ids: [layer.digest] };
  const config = Buffer.from(JSON.stringify({ os: 'linux', architecture: 'amd64', config: {}, rootfs }));
  const named = { mediaType: CONFIG, digest: digestOf(config, algorithm), size: config.length };
  const bytes = Buffer.from(
    JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config: named, layers: [layer] }),
  );
  const descriptor = { mediaType: MANIFEST, digest: digestOf(bytes, algorithm), size: bytes.length };
  return {
    getManifest: async () => ({ descriptor, bytes }),
    getBlob: async () => inPieces(sent ?? config),
  } as unknown as RegistryClient;
}

const describeImage = (client: RegistryClient): Promise<DescribedImage> =>
  createImageAccess(async () => client, {} as Store, recordingTransfer()).describe('localhost/a:1');

it.each<DigestAlgorithm>(['sha256', 'sha512'])(
  'an image whose config has a digest of %s is described',
  async (algorithm) => {
    expect(await describeImage(registryOf(algorithm))).toMatchObject({
      platforms: [
        { configDigest: expect.stringMatching(`^${algorithm}:`), platform: { architecture: 'amd64' } },
      ],
    });
  },
);

it.each<DigestAlgorithm>(['sha256', 'sha512'])(
  'and another config than that of %s is refused',
  async (algorithm) => {
    const client = registryOf(algorithm, Buffer.from('{}'));
    await expect(describeImage(client)).rejects.toMatchObject({ code: 'LOCK_MISMATCH' });
  },
);

it('says of a config that cannot be read which image it is of', async () => {
  const sent = Buffer.from('[]');
  const manifest = { mediaType: CONFIG, digest: digestOf(sent, 'sha256'), size: sent.length };
  const bytes = Buffer.from(
    JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, config: manifest, layers: [] }),
  );
  const descriptor = { mediaType: MANIFEST, digest: digestOf(bytes, 'sha256'), size: bytes.length };
  const client = { ...registryOf('sha256', sent), getManifest: async () => ({ descriptor, bytes }) };
  await expect(describeImage(client)).rejects.toMatchObject({
    code: 'OCI_MANIFEST_INVALID',
    message: expect.stringMatching(/^localhost\/a:1: /),
  });
});

it('a transfer ends with the signal of its own, and leaves no lease', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'skycap-access-'));
  await using store = await openStore({ directory });
  const stop = new AbortController();
  const leases = async (): Promise<readonly string[]> =>
    (await readdir(directory, { recursive: true })).filter((name) => /lease.*json$/.test(name));
  let during: readonly string[] = [];
  const client = {
    ...registryOf('sha256'),
    async getBlob(_reference: unknown, _blob: unknown, _from: number, { signal }: { signal: AbortSignal }) {
      during = await leases();
      stop.abort(new Error('another image failed'));
      signal.throwIfAborted();
      throw new Error('the signal did not come');
    },
  } as unknown as RegistryClient;
  const access = createImageAccess(async () => client, store, recordingTransfer());
  const { digest } = await describeImage(registryOf('sha256'));

  const fetched = access.fetch(`localhost/a@${digest}`, parsePlatform('linux/amd64'), stop.signal);

  await expect(fetched).rejects.toThrow('another image failed');
  expect(during).toHaveLength(1);
  expect(await leases()).toEqual([]);
  await rm(directory, { recursive: true });
});
