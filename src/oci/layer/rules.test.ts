import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { inPieces, type TarFile, tarFile, tarOf } from '../../testkit/images/index.ts';
import {
  bytesOf,
  type Hostile,
  hostileLayers,
  MergedTree,
  ModelSink,
  paxHeader,
} from '../../testkit/layers/index.ts';
import { digestOf } from '../names/index.ts';
import type { IdMap } from '../port.ts';
import type { Digest } from '../types.ts';
import { endOfArchive, toBytes, unpackLayer } from './index.ts';
import { DEFAULT_LIMITS, type LayerLimits } from './limits.ts';

// The rules of docs/layers.md, by number. What the layers of testkit/layers/hostile.ts do to a disk is seen in
// oracle.live.test.ts; here it is what they may make.
const hostile = hostileLayers('/srv/canary');

interface Options {
  readonly map?: IdMap;
  readonly limits?: LayerLimits;
}

async function outcome(layers: readonly Uint8Array[], options: Options = {}): Promise<string | MergedTree> {
  const merged = new MergedTree();
  try {
    for (const layer of layers) {
      const sink = new ModelSink();
      await unpackLayer(inPieces(layer), sink, {
        map: options.map,
        lower: (path) => merged.lower(path),
        signal: new AbortController().signal,
        ...(options.limits === undefined ? {} : { limits: options.limits }),
      });
      merged.add(sink);
    }
    return merged;
  } catch (error) {
    return codeFrom(error);
  }
}

async function expectHeld(rule: string, atLeast: number): Promise<void> {
  const ours = hostile.filter((one) => one.rule === rule);
  expect(ours.length, `layers that try to break ${rule}`).toBeGreaterThanOrEqual(atLeast);
  for (const one of ours) {
    const wanted = typeof one.outcome === 'string' ? one.outcome : one.outcome.map(toBytes);
    expect(await made({ ...one, outcome: wanted }), one.name).toEqual(wanted);
  }
}

/** The names that the last layer makes, folders on the way left out. */
async function made(one: Hostile): Promise<string | readonly string[]> {
  const tree = await outcome(one.layers);
  if (typeof tree === 'string') return tree;
  const names = [...(tree.last?.inodes.keys() ?? [])].filter((name) => name !== '');
  const wanted = typeof one.outcome === 'string' ? [] : one.outcome;
  return names
    .filter((name) => wanted.includes(name) || !names.some((other) => other.startsWith(`${name}/`)))
    .toSorted((a, b) => wanted.indexOf(a) - wanted.indexOf(b));
}

describe('hostile layers', () => {
  it('L2 a damaged stream', () => expectHeld('L2', 2));
  it('L5 an archive that two readers cut differently', () => expectHeld('L5', 11));
  it('L6 records for all later entries', () => expectHeld('L6', 2));
  it('L8 names that leave the root', () => expectHeld('L8', 9));
  it('L9 a name twice', () => expectHeld('L9', 6));
  it('L10 a root that is no directory', () => expectHeld('L10', 3));
  it('L11 links of a layer below', () => expectHeld('L11', 1));
  it('L12 names through links of the layer', () => expectHeld('L12', 27));
  it('L13 hard links that leave', () => expectHeld('L13', 11));
  it('L14 hard links into layers below', () => expectHeld('L14', 4));
  it('L15 attributes through a hard link', () => expectHeld('L15', 1));
  it('L20 the device that deletes', () => expectHeld('L20', 1));
  it('L23 whiteouts of nothing', () => expectHeld('L23', 4));
  it('L24 names, records and maps beyond the limits', () => expectHeld('L24', 8));

  it('stand under a rule that is tested', () => {
    const tested = [2, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 20, 23, 24].map((number) => `L${number}`);
    expect(hostile.filter((one) => !tested.includes(one.rule))).toEqual([]);
  });
});

describe('limits', () => {
  const of = (limits: Partial<LayerLimits>): Options => ({ limits: { ...DEFAULT_LIMITS, ...limits } });
  const many = (count: number): Uint8Array =>
    tarOf(Array.from({ length: count }, (_, at): TarFile => ({ path: `f${at}` })));
  const zeros = gzipSync(tarOf([{ path: 'f', content: Buffer.alloc(300_000) }]));

  const holes = (path: string): Buffer =>
    Buffer.concat([
      paxHeader(['GNU.sparse.map=0,0', 'GNU.sparse.numblocks=1', 'GNU.sparse.size=300000']),
      tarFile({ path }),
    ]);
  const sparse = Buffer.concat([holes('a'), holes('b'), endOfArchive()]);

  it.each<[string, Uint8Array, Partial<LayerLimits>]>([
    ['holes of all files', sparse, { maxBytes: 500_000 }],
    ['holes, by ratio', gzipSync(sparse), { ratioFreeBytes: 500_000, maxRatio: 250 }],
    ['entries', many(11), { maxEntries: 10 }],
    ['entries, whiteouts too', tarOf([{ path: '.wh.a' }, { path: '.wh.b' }]), { maxEntries: 1 }],
    ['directories that no entry names', tarOf([{ path: 'a/b/c/d/e/f/g/h/i/j/k' }]), { maxEntries: 10 }],
    ['bytes', zeros, { maxBytes: 299_999 }],
    ['ratio', zeros, { ratioFreeBytes: 1000, maxRatio: 250 }],
    ['depth', tarOf([{ path: 'a/b/c/d' }]), { maxDepth: 2 }],
    ['a record', tarOf([{ path: 'n'.repeat(240).concat('/f') }]), { maxMetaBytes: 100 }],
  ])('L24 stop a bomb: %s', async (_what, layer, limits) => {
    expect(await outcome([layer], of(limits))).toBe('OCI_LAYER_LIMIT');
    expect(await outcome([layer])).toBeInstanceOf(MergedTree);
  });

  it('L24 a directory that is named later counts once', async () => {
    const files = [
      { path: 'a/b/c' },
      { path: 'a', type: 'directory' },
      { path: 'a/b', type: 'directory' },
    ] as const;
    expect(await outcome([tarOf(files)], of({ maxEntries: 4 }))).toBeInstanceOf(MergedTree);
  });

  it('L24 a deep tree is not walked anew for each of its names, nor links for each that goes through them', async () => {
    const deep = 'd/'.repeat(650);
    const links = Array.from({ length: 39 }, (_, at): TarFile => {
      const linkPath = at === 0 ? deep : `${deep}${'../'.repeat(650)}l${at - 1}`;
      return { path: `l${at}`, type: 'symlink', linkPath };
    });
    const names = Array.from({ length: 500 }, (_, at): TarFile[] => [
      { path: `${deep}${at}/f` },
      { path: `l38/${at}/g` },
    ]);
    const sink = { put: async () => {}, finish: async () => {}, abort: async () => {} };
    const before = process.threadCpuUsage();
    await unpackLayer(inPieces(tarOf([...links, ...names.flat()]), 65_536), sink, {
      map: undefined,
      signal: new AbortController().signal,
    });
    const { user, system } = process.threadCpuUsage(before);
    expect((user + system) / 1e6).toBeLessThan(5);
  });

  it('L24 stop a bomb: copies of files of layers below', async () => {
    const link = (path: string, linkPath: string): TarFile => ({ path, type: 'link', linkPath });
    const below = tarOf([{ path: 'f', content: Buffer.alloc(300_000) }, link('g', 'f')]);
    const top = tarOf([link('x', 'f'), link('y', 'g')]);
    expect(await outcome([below, top], of({ maxBytes: 500_000 }))).toBe('OCI_LAYER_LIMIT');
    expect(await outcome([below, top])).toBeInstanceOf(MergedTree);
  });

  it('L24 what is at the limit is unpacked', async () => {
    expect(await outcome([sparse], of({ maxBytes: 600_000 + sparse.length }))).toBeInstanceOf(MergedTree);
    expect(await outcome([many(10)], of({ maxEntries: 10 }))).toBeInstanceOf(MergedTree);
    expect(await outcome([tarOf([{ path: 'a/b/c' }])], of({ maxDepth: 2 }))).toBeInstanceOf(MergedTree);
    expect(await outcome([tarOf([{ path: `${'d/'.repeat(1024)}f` }])])).toBeInstanceOf(MergedTree);
    expect(await outcome([tarOf([{ path: 'n'.repeat(255) }])])).toBeInstanceOf(MergedTree);
  });
});

describe('attributes', () => {
  it.each([
    [4_294_967_295, 0],
    [4_294_967_301, 5],
    [4_294_967_294, 4_294_967_294],
    [2_097_152, 2_097_152],
  ])('L18 the owner %d is %d without a map', async (stated, kept) => {
    const tree = await outcome([tarOf([{ path: 'f', uid: stated, gid: stated }])]);
    expect(tree).toBeInstanceOf(MergedTree);
    if (typeof tree !== 'string') expect(tree.entries()[0]).toMatchObject({ uid: kept, gid: kept });
  });

  it('L18 and with one refused where it is outside', async () => {
    const map = { hostBase: 1_000_000, size: 65_536 };
    for (const uid of [65_536, 2 ** 32 - 1, 2 ** 32 + 5])
      expect(await outcome([tarOf([{ path: 'f', uid }])], { map })).toBe('OCI_LAYER_UNSAFE');
  });

  it('L17 L19 are kept as stated, and dropped where they steer the host', async () => {
    const names = ['user.empty', 'user.a', 'trusted.a', 'trusted.overlay.opaque', 'security.selinux'];
    const xattrs = new Map(names.map((name) => [name, Buffer.from(name === 'user.empty' ? '' : 'y')]));
    const mtime = { seconds: -86_400, nanos: 1 };
    const tree = await outcome([tarOf([{ path: 'f', xattrs, mtime, mode: 0o6751 }])]);
    if (typeof tree === 'string') return expect.fail(tree);
    const [entry] = tree.entries();
    expect(entry).toMatchObject({ mode: '6751', mtime: '-86399999999999' });
    expect(Object.keys(entry?.xattrs ?? {})).toEqual(['user.a', 'user.empty']);
  });
});

describe('what manifest and config state', () => {
  const signal = new AbortController().signal;
  const layer = tarOf([{ path: 'f' }]);
  const code = async (given: { readonly diffId?: Digest; readonly mediaType?: string }): Promise<string> =>
    await unpackLayer(inPieces(layer), new ModelSink(), { map: undefined, signal, ...given }).then(
      () => 'unpacked',
      codeFrom,
    );

  it('L3 is compared with the bytes', async () => {
    expect(await code({ diffId: digestOf(layer) })).toBe('unpacked');
    expect(await code({ diffId: digestOf('other') })).toBe('OCI_LAYER_DIFFID');
    expect(await code({ diffId: digestOf(layer, 'sha512') })).toBe('unpacked');
    expect(await code({ diffId: digestOf('other', 'sha512') })).toBe('OCI_LAYER_DIFFID');
  });

  it.each([
    ['application/vnd.oci.image.layer.v1.tar', 'unpacked'],
    ['application/vnd.oci.image.layer.v1.tar+gzip', 'unpacked'],
    ['application/vnd.oci.image.layer.v1.tar+zstd', 'unpacked'],
    ['application/vnd.oci.image.layer.nondistributable.v1.tar+gzip', 'unpacked'],
    ['application/vnd.docker.image.rootfs.diff.tar.gzip', 'unpacked'],
    ['application/vnd.docker.image.rootfs.foreign.diff.tar.gzip', 'unpacked'],
    ['application/vnd.oci.image.layer.v1.tar+gzip+encrypted', 'OCI_LAYER_INVALID'],
    ['application/vnd.cncf.helm.chart.content.v1.tar+gzip', 'OCI_LAYER_INVALID'],
    ['application/json', 'OCI_LAYER_INVALID'],
  ])('L4 a layer of type %s', async (mediaType, result) => {
    expect(await code({ mediaType })).toBe(result);
  });
});

describe('several layers', () => {
  const lower = tarOf([
    { path: 'd/a' },
    { path: 'd/b' },
    { path: 'f' },
    { path: 'g', type: 'link', linkPath: 'f' },
  ]);
  const names = async (...layers: readonly Uint8Array[]): Promise<readonly string[]> => {
    const tree = await outcome([lower, ...layers]);
    return typeof tree === 'string' ? [tree] : tree.entries().map(bytesOf).toSorted();
  };

  it('L16 L21 L22 whiteouts take what is below and leave what the layer has', async () => {
    expect(await names(tarOf([{ path: '.wh.f' }]))).toEqual(['d', 'd/a', 'd/b', 'g']);
    expect(await names(tarOf([{ path: 'f' }, { path: '.wh.f' }]))).toEqual(['d', 'd/a', 'd/b', 'f', 'g']);
    expect(await names(tarOf([{ path: '.wh.d' }, { path: 'd/new' }]))).toEqual(['d', 'd/new', 'f', 'g']);
    expect(await names(tarOf([{ path: 'd/.wh.a' }, { path: '.wh.d' }]))).toEqual(['f', 'g']);
    expect(await names(tarOf([{ path: 'd/new' }, { path: 'd/.wh..wh..opq' }]))).toEqual([
      'd',
      'd/new',
      'f',
      'g',
    ]);
    expect(await names(tarOf([{ path: 'new' }, { path: '.wh..wh..opq' }]))).toEqual(['new']);
  });
});
