import { buildImage, buildIndex, type LayerSource } from '../../src/oci/image/index.ts';
import type { Descriptor, Digest, PinnedImage, Platform, Store } from '../../src/oci/index.ts';
import { encodeEntry, endOfArchive, padding, type TarEntry } from '../../src/oci/layer/index.ts';
import { digestOf } from '../../src/oci/names/index.ts';

/** One of the fixed images, as it lies in the store under `localhost/fixed/NAME:1`. */
export interface Fixture {
  readonly name: string;
  readonly about: string;
  readonly root: Digest;
  /** Of the manifests of an index; empty for others. */
  readonly manifests: readonly Digest[];
  readonly configs: readonly Digest[];
  readonly platforms: readonly Platform[];
}

const amd64: Platform = { os: 'linux', architecture: 'amd64' };
const arm64: Platform = { os: 'linux', architecture: 'arm64' };
const armv7: Platform = { os: 'linux', architecture: 'arm', variant: 'v7' };
const transfer = { signal: new AbortController().signal, emit: () => {} };
const TIME = 1_700_000_000;

export const nameOf = (name: string): string => `localhost/fixed/${name}:1`;

interface File extends Partial<Omit<TarEntry, 'size'>> {
  readonly path: string;
  readonly body?: string;
}

/** A layer from entries, for what a plain list of files cannot say. */
function layer(files: readonly File[]): LayerSource {
  async function* tar(): AsyncGenerator<Uint8Array> {
    for (const { body = '', ...file } of files) {
      const bytes = Buffer.from(body);
      yield encodeEntry({
        type: 'file',
        mode: file.type === 'directory' ? 0o755 : 0o644,
        uid: 0,
        gid: 0,
        mtime: { seconds: TIME, nanos: 0 },
        linkPath: '',
        devMajor: 0,
        devMinor: 0,
        size: bytes.length,
        ...file,
      });
      yield bytes;
      yield padding(bytes.length);
    }
    yield endOfArchive();
  }
  return { tar: tar() };
}

const directory = (path: string): File => ({ path, type: 'directory' });

function someFiles(label: string): LayerSource {
  const numbers = Array.from({ length: 5000 }, (_, index) => `${label} ${index}\n`).join('');
  return layer([
    directory('etc'),
    { path: 'etc/motd', body: `from ${label}\n` },
    { path: 'etc/shadow', body: 'x\n', mode: 0o600, uid: 1000, gid: 42 },
    directory('opt'),
    { path: 'opt/numbers', body: numbers },
    { path: 'opt/run', body: '#!/bin/sh\n', mode: 0o4755 },
    { path: 'opt/link', type: 'symlink', mode: 0o777, linkPath: '../etc/motd' },
  ]);
}

function withAttributes(): LayerSource {
  // cap_net_bind_service+ep, version 2 of the kernel's format.
  const capability = Buffer.from('0100000200040000000000000000000000000000', 'hex');
  return layer([
    { path: 'plain', body: 'a\n', xattrs: new Map([['user.note', Buffer.from('hello')]]) },
    { path: 'binary', body: 'b\n', xattrs: new Map([['user.bytes', Buffer.from([0, 1, 10, 61, 255])]]) },
    { path: 'server', body: 'c\n', mode: 0o755, xattrs: new Map([['security.capability', capability]]) },
  ]);
}

function withLinks(): readonly LayerSource[] {
  return [
    layer([
      directory('a'),
      directory('b'),
      { path: 'a/first', body: 'shared\n' },
      { path: 'b/second', type: 'link', linkPath: 'a/first' },
      { path: 'third', type: 'link', linkPath: 'b/second' },
      { path: 'a/kept', body: 'kept\n' },
      { path: 'b/kept', type: 'link', linkPath: 'a/kept' },
    ]),
    layer([directory('b'), { path: 'b/second', body: 'its own\n' }]),
  ];
}

function withWhiteouts(): readonly LayerSource[] {
  return [
    layer([
      directory('d'),
      { path: 'd/removed', body: 'x' },
      { path: 'd/stays', body: 'y' },
      directory('d/sub'),
      { path: 'd/sub/deep', body: 'z' },
      directory('opaque'),
      { path: 'opaque/old', body: 'o' },
      { path: 'link', type: 'symlink', mode: 0o777, linkPath: 'd' },
    ]),
    layer([
      directory('d'),
      { path: 'd/.wh.removed' },
      { path: 'd/.wh.sub' },
      directory('opaque'),
      { path: 'opaque/.wh..wh..opq' },
      { path: 'opaque/new', body: 'n' },
      { path: '.wh.link' },
    ]),
  ];
}

/** 4,000 bytes of path: 16 names of 249 and the slashes between. */
function withLongNames(): LayerSource {
  const parts = Array.from({ length: 16 }, (_, index) => String.fromCharCode(97 + index).repeat(249));
  const folders = parts.slice(0, -1).map((_, index) => directory(parts.slice(0, index + 1).join('/')));
  return layer([
    ...folders,
    { path: parts.join('/').padEnd(4000, 'z'), body: 'deep\n' },
    { path: 'n'.repeat(255), body: 'wide\n' },
    { path: Buffer.from('smörgås ☃').toString('latin1'), body: 'text\n' },
  ]);
}

export async function makeFixtures(store: Store): Promise<readonly Fixture[]> {
  const image = (
    name: string,
    layers: readonly LayerSource[],
    more: { readonly compression?: 'gzip' | 'zstd'; readonly platform?: Platform } = {},
  ): Promise<PinnedImage> =>
    buildImage(
      store,
      {
        layers,
        reference: nameOf(name),
        platform: amd64,
        compression: 'gzip',
        config: { cmd: ['/opt/run'], env: ['PATH=/bin'], labels: { fixture: name } },
        ...more,
      },
      transfer,
    );
  const fixture = (name: string, about: string, made: PinnedImage): Fixture => ({
    name,
    about,
    root: made.digest,
    manifests: [],
    configs: [made.configDigest],
    platforms: [amd64],
  });
  const old = await image('schema2', [someFiles('docker'), someFiles('docker again')]);
  const gzip = await image('gzip', [someFiles('gzip'), someFiles('gzip again')]);
  const both = await Promise.all(
    [amd64, arm64, armv7].map((platform) =>
      image(`index-${platform.architecture}`, [someFiles(platform.architecture)], { platform }),
    ),
  );
  const index = await buildIndex(store, both, { ...transfer, reference: nameOf('index') });
  return [
    await schemaTwo(store, old),
    fixture('gzip', 'OCI, gzip, two layers', gzip),
    fixture('zstd', 'OCI, zstd', await image('zstd', [someFiles('zstd')], { compression: 'zstd' })),
    {
      name: 'index',
      about: 'an index of amd64, arm64 and arm/v7',
      root: index.digest,
      manifests: both.map(({ manifestDigest }) => manifestDigest),
      configs: both.map(({ configDigest }) => configDigest),
      platforms: [amd64, arm64, armv7],
    },
    fixture(
      'xattrs',
      'extended attributes, binary ones, a capability',
      await image('xattrs', [withAttributes()]),
    ),
    fixture(
      'hardlinks',
      'hard links, one of them broken by the layer above',
      await image('hardlinks', withLinks()),
    ),
    fixture(
      'whiteouts',
      'files, folders and links removed, an opaque folder',
      await image('whiteouts', withWhiteouts()),
    ),
    fixture(
      'longnames',
      'a path of 4,000 bytes, a name of 255, UTF-8',
      await image('longnames', [withLongNames()]),
    ),
    await artifact(store),
  ];
}

/** The same content as Docker wrote it before OCI: only the media types differ. */
async function schemaTwo(store: Store, made: PinnedImage): Promise<Fixture> {
  const source = JSON.parse(Buffer.from(await store.readSmall(made.manifestDigest)).toString()) as {
    config: Descriptor;
    layers: Descriptor[];
  };
  const type = 'application/vnd.docker.distribution.manifest.v2+json';
  const text = JSON.stringify({
    schemaVersion: 2,
    mediaType: type,
    config: { ...source.config, mediaType: 'application/vnd.docker.container.image.v1+json' },
    layers: source.layers.map((one) => ({
      ...one,
      mediaType: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
    })),
  });
  const root = await keep(store, text, { name: 'schema2', type });
  return {
    name: 'schema2',
    about: 'Docker schema 2, gzip, two layers',
    root: root.digest,
    manifests: [],
    configs: [made.configDigest],
    platforms: [amd64],
  };
}

async function artifact(store: Store): Promise<Fixture> {
  const config = await put(store, '{}', 'application/vnd.oci.empty.v1+json');
  const type = 'application/vnd.oci.image.manifest.v1+json';
  const text = JSON.stringify({
    schemaVersion: 2,
    mediaType: type,
    artifactType: 'application/vnd.example.note.v1',
    config,
    layers: [],
    annotations: { 'org.example.note': 'nothing but this' },
  });
  const root = await keep(store, text, { name: 'artifact', type });
  return {
    name: 'artifact',
    about: 'an artifact with no layers',
    root: root.digest,
    manifests: [],
    configs: [config.digest],
    platforms: [],
  };
}

async function put(store: Store, text: string, mediaType: string): Promise<Descriptor> {
  const bytes = Buffer.from(text);
  const descriptor = { mediaType, digest: digestOf(bytes), size: bytes.length };
  await store.ingest(
    descriptor,
    async (offset) =>
      (async function* () {
        yield bytes.subarray(offset);
      })(),
    transfer,
  );
  return descriptor;
}

async function keep(
  store: Store,
  text: string,
  { name, type }: { readonly name: string; readonly type: string },
): Promise<Descriptor> {
  const descriptor = await put(store, text, type);
  await store.tag(nameOf(name), descriptor);
  return descriptor;
}
