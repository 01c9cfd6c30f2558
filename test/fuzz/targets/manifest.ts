import { type Index, type Manifest, parseManifestOrIndex } from '../../../src/oci/image/parse.ts';
import type { Descriptor } from '../../../src/oci/index.ts';
import { mutateJson } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { Case, Target } from '../types.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
/** What the descriptor announces, by the first byte of an input. */
const ANNOUNCED = [
  undefined,
  MANIFEST,
  INDEX,
  'application/vnd.docker.distribution.manifest.v2+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
];
const DEEPEST = 64;
const MOST = 4096;

type Json = Record<string, unknown>;

function descriptor(random: Random): Json {
  const hex = (length: number): string => random.text('0123456789abcdef', length);
  const platform = {
    os: random.pick(['linux', 'windows', 'Linux']),
    architecture: random.pick(['amd64', 'arm64', 'arm', 'aarch64']),
    ...(random.chance(0.3) ? { variant: random.pick(['v7', 'v8', '6', '']) } : {}),
    ...(random.chance(0.2) ? { 'os.version': random.pick(['10.0.1', '']) } : {}),
  };
  return {
    mediaType: random.pick([MANIFEST, 'application/vnd.oci.image.layer.v1.tar+gzip', 'text/x']),
    digest: random.chance(0.2) ? `sha512:${hex(128)}` : `sha256:${hex(64)}`,
    size: random.pick([0, 1, 4096, 2 ** 53 - 1]),
    ...(random.chance(0.3) ? { platform } : {}),
    ...(random.chance(0.2) ? { annotations: { a: 'b', gone: null } } : {}),
    ...(random.chance(0.1) ? { artifactType: 'application/x' } : {}),
    ...(random.chance(0.1) ? { data: 'e30=' } : {}),
    ...(random.chance(0.1) ? { urls: ['https://a.example/x'] } : {}),
  };
}

function make(random: Random): Case {
  const list = Array.from({ length: random.below(4) }, () => descriptor(random));
  const more = {
    ...(random.chance(0.3) ? { annotations: { 'a.b': 'é', c: null } } : {}),
    ...(random.chance(0.2) ? { subject: descriptor(random) } : {}),
    ...(random.chance(0.2) ? { future: [{}] } : {}),
  };
  const isIndex = random.chance(0.4);
  const kind = isIndex ? random.pick([2, 4]) : random.pick([1, 3]);
  const own = random.chance(0.7) ? { mediaType: ANNOUNCED[kind] } : {};
  const announced = random.chance(0.5) || (Object.keys(own).length === 0 && kind > 2) ? kind : 0;
  const document: Json = isIndex
    ? { schemaVersion: 2, ...own, manifests: list, ...more }
    : {
        schemaVersion: 2,
        ...own,
        config: descriptor(random),
        layers: random.chance(0.1) ? null : list,
        ...more,
      };
  if (!isIndex && random.chance(0.1)) document.artifactType = 'application/x';
  return withEdge(document, announced, random);
}

/** The document, or the document just inside or outside of a limit. */
function withEdge(document: Json, announced: number, random: Random): Case {
  const head = Buffer.from([announced]);
  const text = JSON.stringify(document);
  const inject = (part: string): Buffer => Buffer.concat([head, Buffer.from(`{${part},${text.slice(1)}`)]);
  switch (random.below(random.chance(0.02) ? 8 : 7)) {
    case 0: {
      const extra = random.below(2);
      const depth = DEEPEST - 1 + extra;
      return { bytes: inject(`"deep":${'['.repeat(depth)}${']'.repeat(depth)}`), accepted: extra === 0 };
    }
    case 1:
      return { bytes: inject('"schemaVersion":2'), accepted: false };
    case 2: {
      const wrong = random.pick([
        '{"fsLayers":[]}',
        '{"history":[]}',
        '{"manifests":[],"layers":[],"config":{}}',
      ]);
      const both = { ...document, ...(JSON.parse(wrong) as Json) };
      return { bytes: Buffer.concat([head, Buffer.from(JSON.stringify(both))]), accepted: false };
    }
    case 7: {
      const count = MOST + random.below(2);
      const key = 'manifests' in document ? 'manifests' : 'layers';
      const items = Array.from({ length: count }, () => ({
        mediaType: 'x',
        digest: `sha256:${'a'.repeat(64)}`,
        size: 1,
      }));
      const long = Buffer.from(JSON.stringify({ ...document, [key]: items }));
      return { bytes: Buffer.concat([head, long]), accepted: count <= MOST };
    }
    default:
      return { bytes: Buffer.concat([head, Buffer.from(text)]), accepted: true };
  }
}

function written({ platform, ...rest }: Descriptor): Json {
  if (platform === undefined) return rest;
  const { osVersion, ...named } = platform;
  return { ...rest, platform: { ...named, ...(osVersion === undefined ? {} : { 'os.version': osVersion }) } };
}

function format(value: Manifest | Index): Buffer {
  const { kind: _kind, ...rest } = value;
  const subject = value.subject === undefined ? {} : { subject: written(value.subject) };
  const parts =
    value.kind === 'index'
      ? { manifests: value.manifests.map(written) }
      : { config: written(value.config), layers: value.layers.map(written) };
  return Buffer.from(JSON.stringify({ schemaVersion: 2, ...rest, ...parts, ...subject }));
}

function judge(value: Manifest | Index): string | undefined {
  const all = value.kind === 'index' ? value.manifests : [value.config, ...value.layers];
  for (const { digest, size } of all) {
    if (!/^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$/.test(digest)) return `${digest} is no digest`;
    if (!(size >= 0 && size < 2 ** 53 && size === Math.floor(size))) return `${size} is no size`;
  }
  const again = JSON.stringify(parseManifestOrIndex(format(value), value.mediaType));
  return again === JSON.stringify(value) ? undefined : `${JSON.stringify(value)} comes back as ${again}`;
}

export const target: Target<Manifest | Index> = {
  name: 'manifest',
  judgedBy: 'limits known on both sides; the document written again and read',
  sources: {
    'src/oci/image/json.ts': 'all',
    'src/oci/image/parse.ts': [
      'parseDescriptor',
      'parsePlatformObject',
      'parseManifestOrIndex',
      'readManifest',
      'readIndex',
      'common',
    ],
  },
  planted: {
    file: 'src/oci/image/json.ts',
    from: 'open.length > MAX_DEPTH)',
    to: 'open.length > MAX_DEPTH + 1)',
  },
  make,
  seeds: () =>
    ['', '{', '[]', '{"schemaVersion":1}', '{"schemaVersion":2,"mediaType":"text/x"}', '"\xff"'].map((text) =>
      Buffer.from(`\0${text}`, 'latin1'),
    ),
  mutate: (bytes, random, other) =>
    Buffer.concat([
      random.chance(0.05) ? Buffer.from([random.below(ANNOUNCED.length)]) : bytes.subarray(0, 1),
      mutateJson(bytes.subarray(1), random, other.subarray(1)),
    ]),
  parse: (bytes) => parseManifestOrIndex(bytes.subarray(1), ANNOUNCED[bytes[0] ?? 0]),
  canonical: (value) => JSON.stringify(value),
  judge,
};
