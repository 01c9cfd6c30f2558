import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isSkycapError } from '../../kernel/index.ts';
import { makeImage, recordingTransfer, storeRegistry } from '../../testkit/images/index.ts';
import { digestOf } from '../names/index.ts';
import type { RegistryClient } from '../port.ts';
import { type LayoutStore, openStore } from '../store/index.ts';
import type { Descriptor, Digest } from '../types.ts';
import {
  appendLayer,
  buildIndex,
  chooseManifest,
  inspectImage,
  mutateConfig,
  pinnedFromStore,
  pullImage,
  pushImage,
} from './index.ts';
import { MAX_INDEX_DEPTH, OCI_CONFIG, OCI_INDEX, OCI_MANIFEST } from './media-types.ts';

const amd = { os: 'linux', architecture: 'amd64' };
const arm = { os: 'linux', architecture: 'arm64' };
const name = 'localhost/test/image:1';
let directory: string;
let remote: LayoutStore;
let store: LayoutStore;
let transfer: ReturnType<typeof recordingTransfer>;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-transfer-'));
  remote = await openStore({ directory: join(directory, 'remote') });
  store = await openStore({ directory: join(directory, 'store') });
  transfer = recordingTransfer();
});
afterEach(async () => {
  await remote[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function codeOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'done',
    (error: unknown) => (isSkycapError(error) ? error.code : `not coded: ${String(error)}`),
  );
}

async function makeBoth(): Promise<void> {
  const one = await makeImage(remote, {
    platform: amd,
    files: { f: 'amd' },
    reference: 'localhost/test/image:amd',
  });
  const two = await makeImage(remote, {
    platform: arm,
    files: { f: 'arm' },
    reference: 'localhost/test/image:arm',
  });
  await buildIndex(remote, [one, two], { ...transfer, reference: name });
}

describe('pull', () => {
  it('brings the platform asked for and nothing of the other', async () => {
    await makeBoth();
    const registry = storeRegistry(remote);
    const image = await pullImage(registry, store, name, { ...transfer, platform: arm });
    expect(image.platform).toEqual(arm);
    expect(image.reference).toBe(name);
    expect(image.manifestDigest).not.toBe(image.digest);
    expect(registry.log.filter((line) => line.startsWith('blob'))).toHaveLength(2);
    expect(await pinnedFromStore(store, name, arm)).toEqual(image);
    expect(await pinnedFromStore(store, name, amd)).toBeUndefined();
    expect(transfer.events.map((event) => event.type)).toContain('image.pulled');
  });

  it('asks for nothing that is there, and by digest for nothing at all', async () => {
    await makeBoth();
    const first = await pullImage(storeRegistry(remote), store, name, { ...transfer, platform: amd });
    const again = storeRegistry(remote);
    await pullImage(again, store, name, { ...transfer, platform: amd });
    expect(again.log).toEqual([`manifest ${first.digest}`]);
    const pinned = storeRegistry(remote);
    await pullImage(pinned, store, `localhost/test/image@${first.digest}`, { ...transfer, platform: amd });
    expect(pinned.log).toEqual([]);
  });

  it('unpacks on the way where asked', async () => {
    await makeImage(remote, { platform: amd, files: { f: 'x' }, reference: name });
    const image = await pullImage(storeRegistry(remote), store, name, {
      ...transfer,
      platform: amd,
      unpack: 'unshifted',
    });
    expect(transfer.events.filter((event) => event.type === 'layer.unpacked')).toHaveLength(1);
    await store.lowers(image, undefined, transfer);
    expect(transfer.events.filter((event) => event.type === 'layer.unpacked')).toHaveLength(1);
  });

  it('mends what fsck dropped', async () => {
    const made = await makeImage(remote, { platform: amd, files: { f: 'x' }, reference: name });
    await pullImage(storeRegistry(remote), store, name, { ...transfer, platform: amd });
    const blob = made.layers[0]?.digest ?? '';
    await rm(join(store.directory, 'blobs', ...blob.split(':')));
    expect(await pinnedFromStore(store, name, amd)).toBeUndefined();
    await pullImage(storeRegistry(remote), store, name, { ...transfer, platform: amd });
    expect(await pinnedFromStore(store, name, amd)).toBeDefined();
  });

  it.each(['manifest', 'config', 'layer'] as const)('believes no other bytes for a %s', async (what) => {
    const made = await makeImage(remote, { platform: amd, files: { f: 'x' }, reference: name });
    const digests = { manifest: made.digest, config: made.configDigest, layer: made.layers[0]?.digest };
    const registry = storeRegistry(remote, {
      tamper: (digest, bytes) => (digest === digests[what] ? Buffer.from(bytes).fill(0x20, 0, 1) : bytes),
    });
    const pull = pullImage(registry, store, name, { ...transfer, platform: amd });
    expect(await codeOf(pull)).toBe('OCI_BLOB_CORRUPT');
    expect(await store.list()).toEqual([]);
  });

  it('R52 takes a blob from the registry itself where a mirror of it gave other bytes', async () => {
    const made = await makeImage(remote, { platform: amd, files: { f: 'x' }, reference: name });
    const layer = made.layers[0]?.digest;
    const own = storeRegistry(remote);
    const bad = storeRegistry(remote, {
      tamper: (digest, bytes) => (digest === layer ? Buffer.from(bytes).fill(0x20, 0, 1) : bytes),
    });
    const registry: RegistryClient = {
      ...own,
      async getBlob(reference, blob, offset, options) {
        if (options.mirrors === false) return await own.getBlob(reference, blob, offset, options);
        return Object.assign(await bad.getBlob(reference, blob, offset, options), { mirror: 'm.test' });
      },
    };
    const image = await pullImage(registry, store, name, { ...transfer, platform: amd });
    expect(image.digest).toBe(made.digest);
    expect(own.log.filter((line) => line.startsWith('blob'))).toEqual([`blob ${layer} 0`]);
    const warnings = transfer.events.filter((event) => event.type === 'registry.warning');
    expect(warnings).toMatchObject([{ registry: 'm.test' }]);
  });

  it('follows as many indexes in indexes as a copy does, and no more', async () => {
    const documents = new Map<Digest, Uint8Array>();
    const put = (mediaType: string, value: object): Descriptor => {
      const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, ...value }));
      documents.set(digestOf(bytes), bytes);
      return { mediaType, digest: digestOf(bytes), size: bytes.length };
    };
    const config = { mediaType: OCI_CONFIG, digest: digestOf('{}'), size: 2 };
    const manifest = put(OCI_MANIFEST, { config, layers: [] });
    const choose = async (root: Descriptor): Promise<Digest> =>
      (await chooseManifest(root, amd, async ({ digest }) => documents.get(digest) ?? new Uint8Array()))
        .descriptor.digest;
    let root = manifest;
    for (let depth = 0; depth < MAX_INDEX_DEPTH; depth += 1)
      root = put(OCI_INDEX, { manifests: [{ ...root, platform: amd }] });
    expect(await choose(root)).toBe(manifest.digest);
    const deeper = put(OCI_INDEX, { manifests: [{ ...root, platform: amd }] });
    expect(await codeOf(choose(deeper))).toBe('OCI_MANIFEST_INVALID');
  });

  it('says which platforms there are', async () => {
    await makeBoth();
    const pull = pullImage(storeRegistry(remote), store, name, {
      ...transfer,
      platform: { os: 'linux', architecture: 's390x' },
    });
    await expect(pull).rejects.toMatchObject({
      code: 'OCI_PLATFORM_MISSING',
      hint: 'it has linux/amd64, linux/arm64',
    });
  });

  it('refuses an image for another platform that stands alone', async () => {
    await makeImage(remote, { platform: arm, files: { f: 'x' }, reference: name });
    const pull = pullImage(storeRegistry(remote), store, name, { ...transfer, platform: amd });
    expect(await codeOf(pull)).toBe('OCI_PLATFORM_MISSING');
  });

  it('stops when cancelled and leaves nothing half', async () => {
    await makeImage(remote, {
      platform: amd,
      files: { f: { content: Buffer.alloc(500_000, 'x') } },
      reference: name,
    });
    const stop = new AbortController();
    let parts = 0;
    const registry = storeRegistry(remote, {
      beforePart: () => {
        if (++parts === 4) stop.abort();
      },
    });
    const pull = pullImage(registry, store, name, { ...recordingTransfer(stop.signal), platform: amd });
    expect(await codeOf(pull)).toBe('CANCELLED');
    expect(
      (await store.fsck({ repair: false, ...transfer })).filter((finding) => finding.kind === 'partial'),
    ).toEqual([]);
  });
});

describe('push', () => {
  it('sends children first and the name last, and skips what is there', async () => {
    await makeBoth();
    const registry = storeRegistry(store);
    const root = await pushImage(registry, remote, name, { ...transfer, target: 'localhost/other/image:2' });
    expect(registry.log.at(-1)).toBe(`put ${root.digest} 2`);
    expect(registry.log).toHaveLength(7);
    const again = storeRegistry(store);
    await pushImage(again, remote, name, { ...transfer, target: 'localhost/other/image:3' });
    expect(again.log).toHaveLength(3);
    expect(await pinnedFromStore(store, 'localhost/other/image:2', arm)).toBeDefined();
  });

  it('sends one platform where only one was pulled', async () => {
    await makeBoth();
    await pullImage(storeRegistry(remote), store, name, { ...transfer, platform: arm });
    await using third = await openStore({ directory: join(directory, 'third') });
    const whole = pushImage(storeRegistry(third), store, name, { ...transfer, target: name });
    expect(await codeOf(whole)).toBe('OCI_BLOB_MISSING');
    const pushed = await pushImage(storeRegistry(third), store, name, {
      ...transfer,
      target: name,
      platform: arm,
    });
    expect((await third.resolve(name))?.digest).toBe(pushed.digest);
  });

  it('the first fault stops the other uploads, before the lease ends', async () => {
    await makeBoth();
    const fault = new Error('refused');
    const ended: string[] = [];
    let begun = 0;
    const registry: RegistryClient = {
      ...storeRegistry(store),
      async putBlob(_reference, _blob, _source, { signal }) {
        begun += 1;
        if (begun === 2) throw fault;
        await once(signal, 'abort');
        ended.push('stopped');
        throw new Error('stopped');
      },
    };
    const push = pushImage(registry, remote, name, { ...transfer, target: name, concurrency: 2 });
    await expect(push).rejects.toBe(fault);
    expect([begun, ended]).toEqual([2, ['stopped']]);
  });

  it('begins with the upper layers, where an image changes', async () => {
    const pushed = await makeImage(remote, {
      layers: ['a', 'b', 'c'].map((path) => ({ files: [{ path, content: Buffer.from(path) }] })),
      platform: amd,
      reference: name,
    });
    const asked: string[] = [];
    const registry: RegistryClient = {
      ...storeRegistry(store),
      async putBlob(_reference, blob) {
        asked.push(blob.digest);
        return 'present';
      },
      async putManifest() {},
    };
    await pushImage(registry, remote, name, { ...transfer, target: name, concurrency: 1 });
    expect(asked).toEqual([pushed.configDigest, ...pushed.layers.map(({ digest }) => digest).toReversed()]);
  });

  it('of nothing says so', async () => {
    const push = pushImage(storeRegistry(store), remote, name, { ...transfer, target: name });
    expect(await codeOf(push)).toBe('OCI_IMAGE_MISSING');
  });
});

describe('algebra', () => {
  it('appends layers and changes settings, and leaves the rest', async () => {
    const base = await makeImage(remote, {
      platform: amd,
      files: { f: 'x' },
      config: { env: ['A=1'] },
      reference: name,
    });
    const source = { files: [{ path: 'g', content: 'y' }] };
    const more = await appendLayer(remote, base, {
      ...transfer,
      source,
      reference: 'localhost/test/image:2',
    });
    expect(more.layers.slice(0, 1)).toEqual(base.layers);
    expect(more.layers).toHaveLength(2);
    const changed = await mutateConfig(remote, more, {
      ...transfer,
      edit: { user: '7', entrypoint: ['/g'] },
      reference: 'localhost/test/image:3',
    });
    expect(changed.config).toMatchObject({ env: ['A=1'], user: '7', entrypoint: ['/g'] });
    const seen = await inspectImage(remote, 'localhost/test/image:3');
    expect(seen.manifests[0]?.config).toMatchObject({ config: { User: '7' }, architecture: 'amd64' });
    expect(await codeOf(inspectImage(remote, 'localhost/none:1'))).toBe('OCI_IMAGE_MISSING');
  });
});
