import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeImage, recordingTransfer, signImage } from '../../testkit/images/index.ts';
import { debianRegistry, type RunningRegistry } from '../../testkit/registry/index.ts';
import { buildIndex, diffTrees, type FileTree } from '../image/index.ts';
import { createRegistryClient } from '../registry/client/index.ts';
import { type LayoutStore, openStore } from '../store/index.ts';
import type { Descriptor, PinnedImage } from '../types.ts';
import {
  type Copied,
  copyImage,
  type Ends,
  openSource,
  openTarget,
  parseTransport,
  readSourceImage,
  readSourceTree,
} from './index.ts';

// What skopeo, docker and docker-registry write is read, and what we write they read, over every transport.
const amd = { os: 'linux', architecture: 'amd64' };
const arm = { os: 'linux', architecture: 'arm64' };
const SOCKET = '/var/run/docker.sock';
const transfer = recordingTransfer();
const tag = `skycap-copy-${process.pid}`;
let directory: string;
let registry: RunningRegistry;
let counting: { readonly server: Server; readonly host: string; bytes: number };
let store: LayoutStore;
let one: PinnedImage;
let both: Descriptor;
let files: FileTree;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-copy-live-'));
  registry = await debianRegistry({ kind: 'open' });
  counting = await countBytes(registry.host);
  store = await openStore({ directory: join(directory, 'store') });
  const content = randomBytes(2_000_000);
  const more = {
    f: { content: 'x', mode: 0o4755, uid: 70_000 },
    l: { type: 'symlink' as const, linkPath: 'f' },
  };
  one = await makeImage(store, {
    platform: amd,
    files: { 'd/one': 'amd', content: { content }, ...more },
    layers: [
      {
        files: [
          { path: 'd/.wh.one' },
          { path: 'd/two', content: 'y' },
          { path: 'h', type: 'link', linkPath: 'd/two' },
        ],
      },
    ],
    config: { entrypoint: ['/f'], env: ['A=1'], labels: { k: 'v' } },
    compression: 'gzip',
    reference: 'localhost/t/i:amd',
  });
  const two = await makeImage(store, { platform: arm, files: { f: 'arm' }, reference: 'localhost/t/i:arm' });
  both = await buildIndex(store, [one, two], { ...transfer, reference: 'localhost/t/i:1' });
  files = await treeOf('store:localhost/t/i:amd');
});
afterAll(async () => {
  counting.server.close();
  await registry[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  for (const name of [tag, `${tag}-s`]) sh(`docker rmi -f ${name}:1 >/dev/null 2>&1 || true`);
  await rm(directory, { recursive: true, force: true });
});

/** A way to the registry that counts what goes over it, both ways. */
async function countBytes(host: string): Promise<typeof counting> {
  const [address, port] = host.split(':');
  const counted = { bytes: 0 };
  const server = createServer((client) => {
    const upstream = connect(Number(port), address);
    for (const [from, to] of [[client, upstream] as const, [upstream, client] as const]) {
      from.on('data', (chunk) => {
        counted.bytes += chunk.length;
      });
      from.on('error', () => to.destroy());
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(counted, { server, host: `127.0.0.1:${(server.address() as AddressInfo).port}` });
}

function sh(script: string): string {
  return execFileSync('bash', ['-euc', script], {
    cwd: directory,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

const ends = (): Ends => ({
  ...transfer,
  directory,
  store: async () => store,
  registry: async () => createRegistryClient({}),
  dockerSocket: async () => SOCKET,
  scratch: async () => join(directory, 'scratch'),
});

async function copy(
  from: string,
  to: string,
  platforms: (typeof amd)[] = [],
  referrers = false,
): Promise<Copied> {
  await using source = await openSource(parseTransport(from, 'docker'), ends());
  await using target = await openTarget(parseTransport(to, 'docker'), ends(), { replace: false });
  return await copyImage(source, target, { ...transfer, platforms, referrers, defaultPlatform: amd });
}

async function treeOf(place: string): Promise<FileTree> {
  await using source = await openSource(parseTransport(place, 'docker'), ends());
  const { value } = await readSourceImage(source, amd, transfer);
  return await readSourceTree(source, value, { ...transfer, hash: true });
}

/** What skopeo finds there: digest of the manifest, of the config, and the layers' diffIDs. */
function bySkopeo(
  place: string,
  keeps: boolean,
): { digest: string; diffIds: readonly string[]; config: unknown } {
  // An archive of Docker has no digest to preserve: skopeo makes up a manifest too.
  const flag = keeps ? '--preserve-digests' : '--format oci';
  sh(`rm -rf seen; skopeo copy -q --src-tls-verify=false ${flag} ${place} oci:seen:x`);
  const config = JSON.parse(sh('skopeo inspect --config --raw oci:seen:x')) as {
    config: unknown;
    rootfs: { diff_ids: readonly string[] };
  };
  const digest = sh('skopeo inspect --format "{{.Digest}}" oci:seen:x').trim();
  return { digest, diffIds: config.rootfs.diff_ids, config: config.config };
}

describe('what we write skopeo reads', () => {
  it.each([
    ['docker', (): string => `docker://${registry.host}/ours/i:1`, true],
    ['oci', (): string => 'oci:ours:v1', true],
    ['oci-archive', (): string => 'oci-archive:ours.tar:v1', true],
    ['docker-archive', (): string => `docker-archive:ours-d.tar:${tag}:1`, false],
    ['docker-daemon', (): string => `docker-daemon:${tag}:1`, false],
  ] as const)('%s', async (_kind, place, keeps) => {
    const copied = await copy('store:localhost/t/i:1', place(), [amd]);
    const seen = bySkopeo(place(), keeps);
    expect(seen.diffIds).toEqual(one.layers.map((layer) => layer.diffId));
    expect(seen.config).toMatchObject({ Entrypoint: ['/f'], Env: ['A=1'], Labels: { k: 'v' } });
    expect(copied.digest === one.digest).toBe(keeps);
    if (keeps) expect(seen.digest).toBe(one.digest);
    else expect(copied.imageId).toBe(one.configDigest);
  });

  it('an index whole, in a registry, a layout and an archive', async () => {
    for (const place of [`docker://${registry.host}/ours/all:1`, 'oci:all:v1', 'oci-archive:all.tar:v1']) {
      expect((await copy('store:localhost/t/i:1', place)).digest).toBe(both.digest);
      const seen = sh(`skopeo inspect --tls-verify=false --raw ${place} | sha256sum`);
      expect(`sha256:${seen.slice(0, 64)}`).toBe(both.digest);
      sh(`rm -rf seen; skopeo copy -q --all --src-tls-verify=false ${place} oci:seen:x`);
    }
  });

  it('docker loads the archive and runs nothing else', async () => {
    sh(`docker load -q -i ours-d.tar`);
    expect(sh(`docker image inspect --format '{{.Id}}' ${tag}:1`).trim()).toBe(one.configDigest);
  });
});

describe('what skopeo and docker write we read', () => {
  it.each([
    ['docker', (): string => `docker://${registry.host}/theirs/i:1`],
    ['oci', (): string => 'oci:theirs:v1'],
    ['oci-archive', (): string => 'oci-archive:theirs.tar:v1'],
    ['docker-archive', (): string => `docker-archive:theirs-d.tar:${tag}-s:1`],
    ['docker-daemon', (): string => `docker-daemon:${tag}-s:1`],
  ] as const)('%s', async (_kind, place) => {
    await copy('store:localhost/t/i:amd', 'oci:from:v1');
    sh(`skopeo copy -q --dest-tls-verify=false oci:from:v1 ${place()}`);
    const copied = await copy(place(), 'store:localhost/t/theirs:1');
    expect(copied.changed).toBeUndefined();
    expect(diffTrees(files, await treeOf('store:localhost/t/theirs:1'), { times: true })).toEqual([]);
    expect(diffTrees(files, await treeOf(place()), { times: true })).toEqual([]);
  });

  it('docker save, two images in one file, by name and packed', async () => {
    await copy('store:localhost/t/i:amd', `docker-daemon:${tag}:1`);
    sh(`docker tag ${tag}:1 ${tag}-s:1; docker save ${tag}:1 ${tag}-s:1 > saved.tar; gzip -k saved.tar`);
    for (const file of ['saved.tar', 'saved.tar.gz']) {
      expect(diffTrees(files, await treeOf(`docker-archive:${file}:${tag}-s:1`), { times: true })).toEqual(
        [],
      );
    }
  });
});

it('between repositories of docker-registry the layers stay where they are', async () => {
  await copy('store:localhost/t/i:1', `docker://${counting.host}/a/b:1`);
  const layers = one.layers.reduce((sum, layer) => sum + layer.size, 0);
  expect(counting.bytes).toBeGreaterThan(layers);
  counting.bytes = 0;
  const copied = await copy(`${counting.host}/a/b:1`, `${counting.host}/c/d:1`);
  expect(copied.blobs).toMatchObject({ copied: 0 });
  expect(copied.blobs.mounted).toBeGreaterThan(0);
  // Manifests, heads and requests only.
  expect(counting.bytes).toBeLessThan(40_000);
  expect(layers).toBeGreaterThan(40_000);
});

it('signatures go to a registry that keeps no list of referrers, and come back', async () => {
  const { referrer, signature } = await signImage(store, 'localhost/t/i', one.manifestDigest);
  const there = `docker://${registry.host}/signed/i:1`;
  expect(await copy('store:localhost/t/i:1', there, [], true)).toMatchObject({
    digest: both.digest,
    referrers: 2,
  });
  expect(await copy(there, 'store:localhost/back/i:1', [], true)).toMatchObject({ referrers: 2 });
  expect(await store.resolve(`localhost/back/i@${referrer}`)).toMatchObject({ digest: referrer });
  const tag = one.manifestDigest.replace(':', '-');
  const seen = sh(
    `skopeo inspect --tls-verify=false --raw docker://${registry.host}/signed/i:${tag}.sig | sha256sum`,
  );
  expect(`sha256:${seen.slice(0, 64)}`).toBe(signature);
});
