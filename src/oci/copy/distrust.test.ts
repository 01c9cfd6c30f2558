import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isSkycapError } from '../../kernel/index.ts';
import { makeImage, recordingTransfer } from '../../testkit/images/index.ts';
import { buildIndex } from '../image/index.ts';
import { createRegistryClient } from '../registry/client/index.ts';
import { serveRegistry } from '../registry/server/index.ts';
import { type LayoutStore, openStore } from '../store/index.ts';
import type { Descriptor, PinnedImage } from '../types.ts';
import { endsClient, endsIn } from './ends.fixture.ts';
import {
  type Copied,
  copyImage,
  type Ends,
  type ImageSource,
  type ImageTarget,
  openSource,
  openTarget,
  parseTransport,
  readSourceImage,
  readSourceTree,
  validateImage,
} from './index.ts';

const amd = { os: 'linux', architecture: 'amd64' };
const arm = { os: 'linux', architecture: 'arm64' };
let directory: string;
let store: LayoutStore;
let one: PinnedImage;
let both: Descriptor;
let transfer: ReturnType<typeof recordingTransfer>;
// Every blob is synced, which is slow on a disk that others use.
const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

beforeEach(async () => {
  directory = await mkdtemp(join(base, 'skycap-distrust-'));
  store = await openStore({ directory: join(directory, 'store') });
  transfer = recordingTransfer();
  const files = { f: 'amd', big: { content: randomBytes(100_000) } };
  one = await makeImage(store, { platform: amd, files, reference: 'localhost/t/i:amd' });
  const two = await makeImage(store, { platform: arm, files: { f: 'arm' }, reference: 'localhost/t/i:arm' });
  both = await buildIndex(store, [one, two], { ...transfer, reference: 'localhost/t/i:1' });
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});
afterAll(() => endsClient[Symbol.asyncDispose]());

function ends(more: Partial<Ends> = {}): Ends {
  return endsIn(directory, { ...transfer, store: async () => store }, more);
}

async function copyFrom(source: ImageSource, to: string, more: Partial<Ends> = {}): Promise<Copied> {
  await using target = await openTarget(parseTransport(to, 'docker'), ends(more), { replace: false });
  const options = { ...transfer, platforms: [], referrers: false, defaultPlatform: amd };
  return await copyImage(source, target, options);
}

async function copy(from: string, to: string, more: Partial<Ends> = {}): Promise<Copied> {
  await using source = await openSource(parseTransport(from, 'docker'), ends(more));
  return await copyFrom(source, to, more);
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'done',
    (error: unknown) => (isSkycapError(error) ? error.code : `not coded: ${String(error)}`),
  );
}

async function valid(place: string): Promise<readonly unknown[]> {
  await using source = await openSource(parseTransport(place, 'store'), ends());
  return (await validateImage(source, { ...transfer, platforms: [] })).findings;
}

async function withRegistry(name: string, work: (host: string) => Promise<void>): Promise<void> {
  await using remote = await openStore({ directory: join(directory, name) });
  const server = await serveRegistry({ store: remote, port: 0, writable: true });
  try {
    await work(server.host);
  } finally {
    await server.close();
  }
}

/** Other bytes than those of the layer, from a mirror unless none is to be asked, or from everywhere. */
function withBadMirror(
  real: ImageSource,
  layer: string | undefined,
  fill = 'x',
  everywhere = false,
): ImageSource {
  return {
    ...real,
    async blob(descriptor, offset, options) {
      const own = options.mirrors === false;
      if (descriptor.digest !== layer || (own && !everywhere))
        return await real.blob(descriptor, offset, options);
      async function* bad(): AsyncGenerator<Uint8Array> {
        yield Buffer.alloc(descriptor.size - offset, fill);
      }
      return Object.assign(bad(), own ? {} : { mirror: 'm.test' });
    },
  };
}

describe('mirrors', () => {
  it('what a mirror of the target has is sent to the target all the same', async () => {
    const name = 'store:localhost/t/i:1';
    await withRegistry('mirror', async (mirror) => {
      const first = await copy(name, `docker://${mirror}/a/b:1`);
      expect(first.blobs.copied).toBeGreaterThan(0);
      await withRegistry('target', async (host) => {
        const mirrors = [{ location: mirror, insecure: false }];
        await using mirrored = createRegistryClient({
          rules: [{ prefix: host, mirrors, insecure: false, blocked: false }],
        });
        const registry = async (): Promise<typeof mirrored> => mirrored;
        const again = await copy(name, `docker://${host}/a/b:1`, { registry });
        expect(again.blobs).toEqual(first.blobs);
        expect(await valid(`docker://${host}/a/b:1`)).toEqual([]);
      });
    });
  });

  it('R52 takes a blob from the registry itself where a mirror of it gave other bytes', async () => {
    await using real = await openSource(parseTransport('store:localhost/t/i:amd', 'docker'), ends());
    const source = withBadMirror(real, one.layers[0]?.digest);
    for (const to of ['oci:past', 'oci-archive:past.tar']) {
      expect((await copyFrom(source, to)).digest).toBe(one.digest);
      expect(await valid(to)).toEqual([]);
    }
    const warnings = transfer.events.filter((event) => event.type === 'registry.warning');
    expect(warnings).toMatchObject([{ registry: 'm.test' }, { registry: 'm.test' }]);
  });

  it('R52 reads a layer from the registry itself where a mirror of it gave other bytes, to check it and to list its files', async () => {
    await using real = await openSource(parseTransport('store:localhost/t/i:amd', 'docker'), ends());
    const layer = one.layers[0]?.digest;
    const { value } = await readSourceImage(real, amd, transfer);
    const files = async (source: ImageSource): Promise<readonly string[]> => [
      ...(await readSourceTree(source, value, { ...transfer, hash: true })).keys(),
    ];
    const findings = async (source: ImageSource): Promise<readonly unknown[]> =>
      (await validateImage(source, { ...transfer, platforms: [] })).findings;
    const whole = await files(real);
    expect(whole).toContain('big');
    const warnings = (): number =>
      transfer.events.filter((event) => event.type === 'registry.warning').length;
    // Found out by the digest, and before it: bytes that nobody can unpack.
    for (const wrong of ['x', '\0'] as const) {
      const source = withBadMirror(real, layer, wrong);
      const before = warnings();
      expect(await findings(source)).toEqual([]);
      expect(await files(source)).toEqual(whole);
      expect(warnings() - before).toBe(2);
    }
    // The registry's own word is final.
    const bad: ImageSource = { ...withBadMirror(real, layer, 'x', true) };
    expect(await findings(bad)).toMatchObject([{ code: 'OCI_BLOB_CORRUPT' }]);
    expect(await codeOf(files(bad))).toMatch(/^OCI_LAYER_/);
  });
});

describe('what others wrote', () => {
  it('in a layout is believed once it was read, and otherwise written anew', async () => {
    await copy('store:localhost/t/i:1', 'oci:old:v1');
    for (const digest of [one.layers[0]?.digest ?? '', both.digest]) {
      const path = join(directory, 'old/blobs', ...digest.split(':'));
      await writeFile(path, Buffer.alloc((await stat(path)).size, 'x'));
    }
    const again = await copy('store:localhost/t/i:1', 'oci:old:v2');
    expect(again.blobs).toMatchObject({ copied: 1, present: 3 });
    for (const place of ['oci:old:v1', 'oci:old:v2']) expect(await valid(place)).toEqual([]);
  });

  it('in a layout stays where a copy into it is stopped', async () => {
    await copy('store:localhost/t/i:amd', 'oci:kept:v1');
    const stop = new AbortController();
    const stopped = { ...transfer, signal: stop.signal };
    {
      await using source = await openSource(parseTransport('store:localhost/t/i:1', 'docker'), ends(stopped));
      await using target = await openTarget(parseTransport('oci:kept:v2', 'docker'), ends(stopped), {
        replace: false,
      });
      const cut: ImageTarget = {
        ...target,
        async putManifest(manifest, place, options) {
          if (place.kind === 'root') stop.abort();
          await target.putManifest(manifest, place, options);
        },
      };
      const options = { ...stopped, platforms: [], referrers: false, defaultPlatform: amd };
      expect(await codeOf(copyImage(source, cut, options))).toBe('CANCELLED');
    }
    expect(await valid('oci:kept:v1')).toEqual([]);
    expect(await codeOf(valid('oci:kept:v2'))).toBe('OCI_IMAGE_MISSING');
  });

  it('where an archive is prepared gets into none', async () => {
    const staging = join(directory, '.p.tar.skycap-copy');
    const code = (): Promise<string> => codeOf(copy('store:localhost/t/i:amd', 'oci-archive:p.tar'));
    await mkdir(staging, { mode: 0o755 });
    expect(await code()).toBe('OCI_ARCHIVE_WRITE');
    await rm(staging, { recursive: true });
    await mkdir(join(directory, 'elsewhere'), { mode: 0o700 });
    await symlink(join(directory, 'elsewhere'), staging);
    expect(await code()).toBe('OCI_ARCHIVE_WRITE');
    await rm(staging);
    await mkdir(staging, { mode: 0o700 });
    const owner = vi.spyOn(process, 'geteuid').mockReturnValue((await stat(staging)).uid + 1);
    expect(await code()).toBe('OCI_ARCHIVE_WRITE');
    owner.mockRestore();
    const layer = one.layers[0];
    await mkdir(join(staging, 'blobs/sha256'), { recursive: true });
    const planted = join(staging, 'blobs', ...(layer?.digest ?? '').split(':'));
    await writeFile(planted, Buffer.alloc(layer?.size ?? 0, 'x'));
    expect(await code()).toBe('done');
    expect(await valid('oci-archive:p.tar')).toEqual([]);
  });
});
