import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asking, debianRegistry, type RunningRegistry } from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import type { ManifestBytes } from '../../port.ts';
import type { Descriptor } from '../../types.ts';
import { referrersTag } from './index.ts';

/** Debian's docker-registry 2.8 keeps no referrers, takes no single POST and forgets an upload whose connection broke. */
let registry: RunningRegistry;
const isMissing = ((): boolean => {
  try {
    execFileSync('sh', ['-c', 'command -v docker-registry'], { stdio: 'ignore' });
    return false;
  } catch {
    return true;
  }
})();
const isRequired = process.env.SKYCAP_REQUIRE_ENGINES === '1';
if (isMissing && !isRequired) console.warn('NOT TESTED against docker-registry: not installed');
const suite = isMissing && !isRequired ? describe.skip : describe;

const IMAGE = 'application/vnd.oci.image.manifest.v1+json';
const EMPTY = Buffer.from('{}');
const config = { mediaType: 'application/vnd.oci.empty.v1+json', digest: digestOf(EMPTY), size: 2 };

function manifest(more: object): ManifestBytes {
  const bytes = Buffer.from(
    JSON.stringify({ schemaVersion: 2, mediaType: IMAGE, config, layers: [], ...more }),
  );
  return { descriptor: { mediaType: IMAGE, digest: digestOf(bytes), size: bytes.length }, bytes };
}

const from = (bytes: Uint8Array) =>
  async function* (offset: number): AsyncGenerator<Uint8Array> {
    for (let at = offset; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
  };

suite('docker-registry 2.8', () => {
  beforeAll(async () => {
    registry = await debianRegistry({ kind: 'open' });
  });
  afterAll(async () => {
    await registry[Symbol.asyncDispose]();
  });

  describe('a registry without referrers', () => {
    it('R92 R93 R98 has them at the fallback tag, kept on push and on delete', async () => {
      await using asked = asking();
      const { client, options } = asked;
      const at = { registry: registry.host, repository: 'live/referrers' };
      await client.putBlob(at, config, from(EMPTY), options);
      const image = manifest({});
      await client.putManifest({ ...at, tag: '1' }, image, options);
      const subject = { ...at, digest: image.descriptor.digest };
      expect(await client.listReferrers(subject, options)).toEqual([]);
      const [one, two] = ['t/one', 't/two'].map((artifactType) =>
        manifest({ artifactType, subject: image.descriptor, annotations: { k: artifactType } }),
      ) as [ManifestBytes, ManifestBytes];
      await client.putManifest({ ...at, digest: one.descriptor.digest }, one, options);
      await client.putManifest({ ...at, digest: two.descriptor.digest }, two, options);
      expect((await client.listReferrers(subject, options)).map((item) => item.artifactType)).toEqual([
        't/one',
        't/two',
      ]);
      expect(await client.listReferrers(subject, { ...options, artifactType: 't/two' })).toEqual([
        { ...two.descriptor, artifactType: 't/two', annotations: { k: 't/two' } },
      ]);
      expect(await client.listTags(at, options)).toContain(referrersTag(image.descriptor.digest));
      for (const { descriptor } of [one, two])
        await client.deleteManifest({ ...at, digest: descriptor.digest }, options);
      expect(await client.listReferrers(subject, options)).toEqual([]);
      await client.deleteBlob(at, config.digest, options);
      expect(await client.hasBlob(at, config.digest, options)).toBe(false);
    });
  });

  describe('a connection that breaks', () => {
    /** Passes bytes on; breaks the first connection that has sent `after` bytes. */
    async function breakingAt(
      after: number,
    ): Promise<AsyncDisposable & { readonly host: string; broken(): boolean }> {
      let isBroken = false;
      const sockets = new Set<Socket>();
      const server = createServer((near) => {
        const [name, port] = registry.host.split(':');
        const far = connect(Number(port), name);
        let sent = 0;
        for (const socket of [near, far]) {
          sockets.add(socket);
          socket.on('error', () => {});
        }
        near.on('data', (part) => {
          sent += part.length;
          far.write(part);
          if (isBroken || sent < after) return;
          isBroken = true;
          far.end();
          near.destroy();
        });
        near.on('close', () => far.end());
        far.pipe(near);
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      return {
        host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
        broken: () => isBroken,
        [Symbol.asyncDispose]: async () => {
          server.close();
          for (const socket of sockets) socket.destroy();
        },
      };
    }

    it.each([undefined, 1_000_000])(
      'R78 loses nothing of an upload that the registry then forgets (chunks of %s)',
      async (chunkSize) => {
        const bytes = randomBytes(8_000_000);
        const blob: Descriptor = { mediaType: 'x', digest: digestOf(bytes), size: bytes.length };
        await using proxy = await breakingAt(3_000_000);
        await using asked = asking(chunkSize === undefined ? {} : { chunkSize });
        const at = { registry: proxy.host, repository: 'live/broken' };
        expect(await asked.client.putBlob(at, blob, from(bytes), asked.options)).toBe('uploaded');
        expect(proxy.broken()).toBe(true);
        const parts: Uint8Array[] = [];
        for await (const part of await asked.client.getBlob(at, blob, 0, asked.options)) parts.push(part);
        expect(digestOf(Buffer.concat(parts))).toBe(blob.digest);
      },
    );
  });
});
