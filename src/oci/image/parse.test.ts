import { describe, expect, it } from 'vitest';
import { isSkycapError } from '../../kernel/index.ts';
import { fc } from '../../testkit/property.ts';
import { DOCKER_LIST, DOCKER_MANIFEST, OCI_CONFIG, OCI_INDEX, OCI_MANIFEST } from './media-types.ts';
import { parseImageConfig, parseIndex, parseManifest, parseManifestOrIndex } from './parse.ts';

const digest = `sha256:${'a'.repeat(64)}`;
const config = { mediaType: OCI_CONFIG, digest, size: 2 };
const layer = { mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip', digest, size: 3 };
const manifest = { schemaVersion: 2, mediaType: OCI_MANIFEST, config, layers: [layer] };
const index = { schemaVersion: 2, mediaType: OCI_INDEX, manifests: [{ ...config, mediaType: OCI_MANIFEST }] };

const bytes = (value: unknown): Buffer =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));

function codeOf(work: () => unknown): string {
  try {
    work();
    return 'accepted';
  } catch (error) {
    return isSkycapError(error) ? error.code : `not coded: ${String(error)}`;
  }
}

describe('manifests and indexes', () => {
  it.each<[string, unknown, string | undefined, string]>([
    ['a manifest', manifest, OCI_MANIFEST, 'manifest'],
    [
      'a manifest without its own media type',
      { ...manifest, mediaType: undefined },
      OCI_MANIFEST,
      'manifest',
    ],
    ['one of Docker', { ...manifest, mediaType: DOCKER_MANIFEST }, DOCKER_MANIFEST, 'manifest'],
    ['an index', index, OCI_INDEX, 'index'],
    ['a list of Docker', { ...index, mediaType: DOCKER_LIST }, undefined, 'index'],
    ['an index that nothing announced', { ...index, mediaType: undefined }, undefined, 'index'],
    ['layers that are null', { ...manifest, layers: null }, OCI_MANIFEST, 'manifest'],
    ['an unknown field', { ...manifest, future: { a: [1] } }, OCI_MANIFEST, 'manifest'],
    [
      'an unknown layer type',
      { ...manifest, layers: [{ ...layer, mediaType: 'text/x' }] },
      OCI_MANIFEST,
      'manifest',
    ],
  ])('%s is read', (_what, document, announced, kind) => {
    expect(parseManifestOrIndex(bytes(document), announced).kind).toBe(kind);
  });

  it.each<[string, unknown, string?]>([
    ['both at once (CVE-2021-41190)', { ...manifest, manifests: index.manifests }],
    ['an index with a config', { ...index, config }],
    ['another type than announced', manifest, OCI_INDEX],
    ['an unknown type', { ...manifest, mediaType: 'application/json' }],
    ['schema 1', { ...manifest, schemaVersion: 1 }],
    ['schema 1 in disguise', { ...manifest, fsLayers: [] }],
    [
      'a digest with a path (CVE-2024-3727)',
      { ...manifest, config: { ...config, digest: 'sha256:../../etc/passwd' } },
    ],
    ['a short digest', { ...manifest, config: { ...config, digest: 'sha256:aa' } }],
    ['a digest in capitals', { ...manifest, config: { ...config, digest: digest.toUpperCase() } }],
    ['a negative size', { ...manifest, config: { ...config, size: -1 } }],
    ['a size that is no number', { ...manifest, config: { ...config, size: '2' } }],
    ['no config', { ...manifest, config: undefined }],
    ['layers that are no list', { ...manifest, layers: {} }],
    ['too many layers', { ...manifest, layers: Array.from({ length: 5000 }, () => layer) }],
    ['manifests that are missing', { ...index, manifests: undefined }],
    ['an annotation that is no string', { ...manifest, annotations: { a: 1 } }],
    ['not JSON', '{'],
    ['not an object', '[]'],
    ['a key twice', `{"schemaVersion":2,"schemaVersion":2,"config":${JSON.stringify(config)},"layers":[]}`],
    [
      'a key twice, once escaped',
      `{"schemaVersion":2,"\\u0063onfig":{},"config":${JSON.stringify(config)},"layers":[]}`,
    ],
    ['nested without end', `{"a":${'['.repeat(100)}${']'.repeat(100)}}`],
    ['not UTF-8', Buffer.from([0x22, 0xff, 0x22]).toString('latin1')],
  ])('%s is refused', (_what, document, announced) => {
    const raw = _what === 'not UTF-8' ? Buffer.from([0x22, 0xff, 0x22]) : bytes(document);
    expect(codeOf(() => parseManifestOrIndex(raw, announced))).toBe('OCI_MANIFEST_INVALID');
  });

  it('one is not taken for the other', () => {
    expect(codeOf(() => parseManifest(bytes(index)))).toBe('OCI_MANIFEST_INVALID');
    expect(codeOf(() => parseIndex(bytes(manifest)))).toBe('OCI_MANIFEST_INVALID');
  });

  it('a key may come again in another object, and look like one in a text', () => {
    const text = `{"schemaVersion":2,"config":${JSON.stringify(config)},"layers":[${JSON.stringify(layer)}],"annotations":{"config":"\\"config\\":{"}}`;
    expect(codeOf(() => parseManifest(bytes(text)))).toBe('accepted');
  });

  it('whatever the bytes, it is read or refused with a code', () => {
    const text = JSON.stringify(manifest);
    fc.assert(
      fc.property(fc.nat(text.length), fc.string({ maxLength: 8 }), fc.nat(8), (at, insert, cut) => {
        const changed = text.slice(0, at) + insert + text.slice(at + cut);
        expect(codeOf(() => parseManifestOrIndex(bytes(changed), undefined))).toMatch(
          /^(accepted|OCI_MANIFEST_INVALID)$/,
        );
      }),
      { numRuns: 500 },
    );
    fc.assert(
      fc.property(fc.json(), (json) => {
        expect(codeOf(() => parseManifestOrIndex(bytes(json), undefined))).toBe('OCI_MANIFEST_INVALID');
      }),
    );
  });
});

describe('image configs', () => {
  const image = {
    architecture: 'aarch64',
    os: 'linux',
    config: {
      Entrypoint: ['/run'],
      Cmd: null,
      Env: ['A=b'],
      User: '1000:50',
      Labels: { a: 'b', none: null },
    },
    rootfs: { type: 'layers', diff_ids: [digest] },
    history: [{ empty_layer: true }, {}],
  };

  it('give what runs, null for absent, platforms in one spelling', () => {
    const parsed = parseImageConfig(bytes({ ...image, future: 1 }), 1);
    expect(parsed.platform).toEqual({ os: 'linux', architecture: 'arm64' });
    expect(parsed.run).toEqual({
      entrypoint: ['/run'],
      cmd: [],
      env: ['A=b'],
      user: '1000:50',
      workingDir: '',
      labels: { a: 'b' },
    });
    expect(parsed.raw.future).toBe(1);
    expect(parseImageConfig(bytes({ ...image, config: null }), 1).run.entrypoint).toEqual([]);
  });

  it.each<[string, unknown]>([
    ['fewer diffIDs than layers', { ...image, rootfs: { type: 'layers', diff_ids: [] } }],
    ['more diffIDs than layers', { ...image, rootfs: { type: 'layers', diff_ids: [digest, digest] } }],
    ['another rootfs', { ...image, rootfs: { type: 'base', diff_ids: [digest] } }],
    ['no rootfs', { ...image, rootfs: undefined }],
    ['a diffID that is none', { ...image, rootfs: { type: 'layers', diff_ids: ['sha256:x'] } }],
    ['a history of other layers', { ...image, history: [{}, {}] }],
    ['a user above int32 (CVE-2024-40635)', { ...image, config: { User: '4294967296' } }],
    ['a group above int32', { ...image, config: { User: '0:2147483648' } }],
    ['a negative user', { ...image, config: { User: '-1' } }],
    ['a user with a line break', { ...image, config: { User: 'root\nx' } }],
    ['an entrypoint that is no list', { ...image, config: { Entrypoint: '/run' } }],
    ['env without a name', { ...image, config: { Env: ['=x'] } }],
    ['a label that is no string', { ...image, config: { Labels: { a: {} } } }],
  ])('with %s are refused', (_what, document) => {
    expect(codeOf(() => parseImageConfig(bytes(document), 1))).toBe('OCI_MANIFEST_INVALID');
  });

  it('whatever the bytes, it is read or refused with a code, and a read one has no user that is none', () => {
    const text = JSON.stringify(image);
    const numbers = fc.constantFrom('', '-1', '2147483647', '2147483648', '9'.repeat(20), '0:', ':0', '+7');
    const change = fc.record({
      at: fc.nat(text.length),
      insert: fc.string({ maxLength: 8 }),
      cut: fc.nat(8),
    });
    fc.assert(
      fc.property(fc.option(change), numbers, (some, user) => {
        const whole = text.replace('1000:50', user);
        const changed =
          some === null ? whole : whole.slice(0, some.at) + some.insert + whole.slice(some.at + some.cut);
        let read: ReturnType<typeof parseImageConfig> | undefined;
        const code = codeOf(() => {
          read = parseImageConfig(bytes(changed), 1);
        });
        expect(code).toMatch(/^(accepted|OCI_MANIFEST_INVALID)$/);
        for (const part of read?.run.user.split(':') ?? [])
          if (/^[+-]?[0-9]+$/.test(part)) expect(Number(part) >= 0 && Number(part) < 2 ** 31).toBe(true);
      }),
      { numRuns: 1000 },
    );
    fc.assert(
      fc.property(fc.json(), (json) => {
        expect(codeOf(() => parseImageConfig(bytes(json), 1))).toBe('OCI_MANIFEST_INVALID');
      }),
    );
  });
});
