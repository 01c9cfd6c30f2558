import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeImage, recordingTransfer } from '../../testkit/images/index.ts';
import { debianRegistry, type RunningRegistry } from '../../testkit/registry/index.ts';
import { createRegistryClient } from '../registry/client/index.ts';
import { type LayoutStore, openStore } from '../store/index.ts';
import { buildIndex, pullImage, pushImage } from './index.ts';

// What buildah, skopeo and docker write into Debian's docker-registry is read, and what we write they read.
const amd = { os: 'linux', architecture: 'amd64' };
const transfer = recordingTransfer();
let directory: string;
let host: string;
let registry: RunningRegistry;
let source: LayoutStore;

function sh(script: string): string {
  const env = {
    ...process.env,
    STORAGE_DRIVER: 'vfs',
    XDG_DATA_HOME: directory,
    BUILDAH_ISOLATION: 'chroot',
  };
  return execFileSync('bash', ['-euc', script], {
    cwd: directory,
    encoding: 'utf8',
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-peers-'));
  registry = await debianRegistry({ kind: 'open' });
  host = registry.host;
  source = await openStore({ directory: join(directory, 'source') });
});
afterAll(async () => {
  await registry[Symbol.asyncDispose]();
  await source[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function pulled(reference: string, platform = amd): Promise<string> {
  const folder = join(directory, `store-${Math.random().toString(36).slice(2)}`);
  await using store = await openStore({ directory: folder });
  await using client = createRegistryClient({});
  const image = await pullImage(client, store, reference, { ...transfer, platform, unpack: 'unshifted' });
  const lowers = await store.lowers(image, undefined, transfer);
  return await readFile(join(lowers.at(-1)?.path ?? '', 'etc/motd'), 'utf8');
}

describe('what peers write is read', () => {
  it.each([
    ['buildah, gzip', '--compression-format gzip'],
    ['buildah, zstd', '--compression-format zstd'],
    ['buildah, schema 2', '--format v2s2'],
  ])('%s', async (what, flags) => {
    const tag = what.replaceAll(/[^a-z0-9]/g, '');
    sh(`
      export buildah="buildah --root $PWD/containers --runroot $PWD/run --storage-driver vfs"
      echo "from ${what}" > motd; id=$($buildah from scratch)
      $buildah copy -q $id motd /etc/motd >/dev/null
      $buildah config --arch amd64 --entrypoint '["/run"]' $id
      $buildah commit -q --rm $id made:${tag} >/dev/null
      $buildah push -q --tls-verify=false ${flags} made:${tag} docker://${host}/peer/image:${tag}`);
    expect(await pulled(`${host}/peer/image:${tag}`)).toBe(`from ${what}\n`);
  });

  it('docker, schema 2', async () => {
    sh(`mkdir -p d/etc; echo "from docker" > d/etc/motd
      tar -C d -c . | docker import --platform linux/amd64 - ${host}/peer/image:docker >/dev/null
      docker push -q ${host}/peer/image:docker >/dev/null; docker rmi -f ${host}/peer/image:docker >/dev/null`);
    expect(await pulled(`${host}/peer/image:docker`)).toBe('from docker\n');
  });

  it('skopeo, an index of two platforms', async () => {
    const arm = { os: 'linux', architecture: 'arm64' };
    const one = await makeImage(source, {
      platform: amd,
      files: { 'etc/motd': 'amd' },
      reference: `${host}/i:amd`,
    });
    const two = await makeImage(source, {
      platform: arm,
      files: { 'etc/motd': 'arm' },
      reference: `${host}/i:arm`,
    });
    await buildIndex(source, [one, two], { ...transfer, reference: `${host}/i:both` });
    sh(
      `skopeo copy -q --all --dest-tls-verify=false oci:source:${host}/i:both docker://${host}/peer/index:1`,
    );
    expect(await pulled(`${host}/peer/index:1`)).toBe('amd');
    expect(await pulled(`${host}/peer/index:1`, arm)).toBe('arm');
  });
});

describe('what we write peers read', () => {
  it.each(['gzip', 'none', 'zstd'] as const)('%s, by skopeo and docker', async (compression) => {
    const reference = `${host}/ours/image:${compression}`;
    const files = { 'etc/motd': `ours ${compression}` };
    const made = await makeImage(source, { platform: amd, files, compression, reference });
    await using client = createRegistryClient({});
    await pushImage(client, source, reference, { ...transfer, target: reference });
    const inspected = JSON.parse(sh(`skopeo inspect --tls-verify=false docker://${reference}`)) as {
      Digest: string;
    };
    expect(inspected.Digest).toBe(made.digest);
    expect(await pulled(reference)).toBe(files['etc/motd']);
    // Docker 20.10 does not know zstd.
    if (compression !== 'zstd')
      sh(`docker pull -q ${reference} >/dev/null; docker rmi -f ${reference} >/dev/null`);
  });
});
