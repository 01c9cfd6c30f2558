import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { recordingTransfer, type TarFile, tarOf } from '../../testkit/images/index.ts';
import { keepsAcls } from '../layer/index.ts';
import { digestOf } from '../names/index.ts';
import type { IdMap, Lower } from '../port.ts';
import type { PinnedLayer } from '../types.ts';
import { type CompareInput, layerDifference } from './compare.ts';
import { type Layout, openLayout } from './layout.ts';
import { Unpacker } from './unpacking.ts';

vi.mock(import('../layer/index.ts'), async (original) => {
  const actual = await original();
  return { ...actual, keepsAcls: vi.fn(actual.keepsAcls) };
});

const mediaType = 'application/vnd.oci.image.layer.v1.tar';
const map = { hostBase: 2 ** 30, size: 2 ** 30 };
const { signal } = new AbortController();
let directory: string;
let layout: Layout;
let unpacker: Unpacker;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-compare-'));
  layout = await openLayout(join(directory, 'store'));
  unpacker = new Unpacker(layout);
});
afterEach(async () => {
  await unpacker.close();
  await rm(directory, { recursive: true, force: true });
});

async function put(files: readonly TarFile[], raw = false): Promise<PinnedLayer> {
  const bytes = tarOf(files, { raw });
  const digest = digestOf(bytes);
  await writeFile(layout.blob(digest), bytes);
  return { digest, diffId: digest, mediaType, size: bytes.length };
}

type Form = Lower['kind'];

interface Setting {
  readonly form: Form;
  readonly ids?: IdMap | undefined;
  readonly asRoot?: boolean;
}

/** What is said of `found`, unpacked, where the blob holds `wanted`. */
async function difference(
  wanted: readonly TarFile[],
  found: readonly TarFile[],
  { form, ids = map, asRoot }: Setting,
): Promise<string | undefined> {
  const blob = await put(wanted, true);
  const lower = await unpacker.layer(await put(found, true), { map: ids, form }, recordingTransfer());
  if (lower === undefined) return expect.fail('it needs its parents');
  const input: CompareInput = {
    ...{ blob: layout.blob(blob.digest), diffId: blob.diffId, lower, map: ids, parents: undefined, signal },
    ...(asRoot === undefined ? {} : { asRoot }),
  };
  return await layerDifference(input);
}

const dir = (path: string, more: Partial<TarFile> = {}): TarFile => ({ path, type: 'directory', ...more });
const sym = (path: string, linkPath: string): TarFile => ({ path, type: 'symlink', linkPath });
const link = (path: string, linkPath: string, more: Partial<TarFile> = {}): TarFile => ({
  ...{ path, type: 'link', linkPath },
  ...more,
});
const dev = (path: string, devMajor: number, devMinor: number, type: 'char' | 'block' = 'char'): TarFile => ({
  ...{ path, type, devMajor, devMinor },
});
const attr = (path: string, ...pairs: readonly [string, string][]): TarFile => ({
  ...{ path, content: 'x' },
  xattrs: new Map(pairs.map(([name, value]) => [name, Buffer.from(value)])),
});
/** linux/posix_acl_xattr.h: owner rw, a user's rights, group r, mask rwx, others r. */
const acl = (path: string, user: number, rights: number, name = 'access'): TarFile => {
  const entries = [
    [1, 6],
    [2, rights, user],
    [4, 4],
    [16, 7],
    [32, 4],
  ];
  const bytes = Buffer.alloc(4 + 8 * entries.length);
  bytes.writeUInt32LE(2, 0);
  for (const [index, [tag = 0, may = 0, id = 0xffff_ffff]] of entries.entries()) {
    bytes.writeUInt16LE(tag, 4 + 8 * index);
    bytes.writeUInt16LE(may, 6 + 8 * index);
    bytes.writeUInt32LE(id, 8 + 8 * index);
  }
  const xattrs = new Map([[`system.posix_acl_${name}`, bytes]]);
  return name === 'default' ? dir(path, { xattrs }) : { path, content: 'x', mode: 0o674, xattrs };
};
const otherwise: readonly TarFile[] = [
  { ...acl('f', 7, 7), mode: 0o4705 },
  dir('d', { xattrs: acl('d', 7, 7).xattrs ?? new Map(), mode: 0o1070 }),
];
const plain: TarFile = { path: 'f', content: 'x', mode: 0o674 };
const f = (more: Partial<TarFile> = {}): TarFile => ({ path: 'f', content: 'hello', ...more });

const opaque: TarFile = { path: 'd/.wh..wh..opq' };
const isRoot = process.geteuid?.() === 0;
const changed = '"f" has changed';
const unequal: readonly (readonly [string, readonly TarFile[], readonly TarFile[], string])[] = [
  ['content', [f()], [f({ content: 'hellO' })], changed],
  ['length', [f()], [f({ content: 'hello!' })], changed],
  ['mode', [f()], [f({ mode: 0o600 })], changed],
  ['set-uid', [f({ mode: 0o755 })], [f({ mode: 0o4755 })], changed],
  ['owner', [f()], [f({ uid: 1 })], changed],
  ['group', [f()], [f({ gid: 1 })], changed],
  ['kind, file and folder', [f()], [dir('f', { mode: 0o644 })], changed],
  ['kind, file and link', [f()], [sym('f', 'hello')], changed],
  ['kind, FIFO and file', [{ path: 'f', type: 'fifo' }], [f({ content: '' })], changed],
  ['target', [sym('f', 'a')], [sym('f', 'b')], changed],
  ['mode of a folder', [dir('f')], [dir('f', { mode: 0o700 })], changed],
  ['major number', [dev('f', 1, 3)], [dev('f', 2, 3)], changed],
  ['minor number', [dev('f', 1, 3)], [dev('f', 1, 4)], changed],
  ['kind of a device', [dev('f', 1, 3)], [dev('f', 1, 3, 'block')], changed],
  ['attribute', [attr('f', ['user.a', '1'])], [attr('f', ['user.a', '2'])], changed],
  ['name of an attribute', [attr('f', ['user.a', '1'])], [attr('f', ['user.b', '1'])], changed],
  ['attribute less', [attr('f', ['user.a', '1'])], [attr('f')], changed],
  ['attribute more', [attr('f')], [attr('f', ['user.a', '1'])], changed],
  ['that a folder hides what is below', [opaque], [dir('d')], '"d" has changed'],
  ['whom an access list names', [acl('f', 7, 7)], [acl('f', 8, 7)], changed],
  ['what an access list allows', [acl('f', 7, 7)], [acl('f', 7, 6)], changed],
  ['one of two access lists', [acl('f', 7, 7), acl('g', 7, 7)], [plain, acl('g', 7, 7)], changed],
  ['an access list more', [plain], [acl('f', 7, 7)], changed],
  ['the access list for new files', [acl('f', 7, 7, 'default')], [acl('f', 7, 5, 'default')], changed],
  ['a file less', [f(), f({ path: 'g' })], [f()], '"g" is gone'],
  ['a file more', [f()], [f(), f({ path: 'g' })], '"g" was added'],
  ['a folder less', [dir('d'), f({ path: 'd/f' })], [dir('d')], '"d/f" is gone'],
  ['a deletion less', [{ path: '.wh.f' }], [dir('d')], '"f" is gone'],
  ['a link less', [f(), link('g', 'f')], [f()], '"g" is gone'],
  ['a copy for a link', [f(), link('g', 'f')], [f(), f({ path: 'g' })], 'hard links have changed'],
  ['a link for a copy', [f(), f({ path: 'g' })], [f(), link('g', 'f')], 'hard links have changed'],
  [
    'a link to another file of the same content',
    [f(), f({ path: 'g' }), link('h', 'f')],
    [f(), f({ path: 'g' }), link('h', 'g')],
    'hard links have changed',
  ],
  [
    'a link to another file of another content',
    [f(), f({ path: 'g', content: 'other' }), link('h', 'f')],
    [f(), f({ path: 'g', content: 'other' }), link('h', 'g')],
    '"h" has changed',
  ],
  ['the root', [dir('./', { mode: 0o755 })], [dir('./', { mode: 0o711 })], 'its root folder has changed'],
  ['a strange name', [f({ path: 'a\n\xff' })], [f()], `${JSON.stringify('a\n\ufffd')} is gone`],
];

const equal: readonly (readonly [string, readonly TarFile[], readonly TarFile[]])[] = [
  ['nothing', [], []],
  ['a file', [f()], [f()]],
  ['times', [f()], [f({ mtime: { seconds: 1, nanos: 5 } })]],
  ['the order of names', [f(), f({ path: 'g' })], [f({ path: 'g' }), f()]],
  ['how names are written', [dir('d'), f({ path: 'd/f' })], [dir('./d/'), f({ path: './d/f' })]],
  ['which name of a file comes first', [f(), link('g', 'f')], [f({ path: 'g' }), link('f', 'g')]],
  [
    'whose link a link is',
    [f(), link('g', 'f'), link('h', 'g'), link('d/i', 'h')],
    [f({ path: 'h' }), link('f', 'h'), link('d/i', 'f'), link('g', 'h')],
  ],
  [
    'what a link says of its file',
    [f(), link('g', 'f', { mode: 0o600, uid: 5, gid: 6 })],
    [f({ mode: 0o600, uid: 5, gid: 6 }), link('g', 'f', { mode: 0o600, uid: 5, gid: 6 })],
  ],
  [
    'what a link of a link says of its file',
    [f(), link('g', 'f'), link('h', 'g', { mode: 0o640, uid: 7 })],
    [
      f({ mode: 0o640, uid: 7 }),
      link('g', 'f', { mode: 0o640, uid: 7 }),
      link('h', 'f', { mode: 0o640, uid: 7 }),
    ],
  ],
  [
    'the order of attributes',
    [attr('f', ['user.a', '1'], ['user.b', '2'])],
    [attr('f', ['user.b', '2'], ['user.a', '1'])],
  ],
  ['access lists that say other than the mode', otherwise, otherwise],
  ['access lists', [acl('f', 7, 7), acl('d', 7, 5, 'default')], [acl('f', 7, 7), acl('d', 7, 5, 'default')]],
  [
    'all kinds',
    [dir('d'), sym('d/l', '../x'), dev('d/c', 1, 3), { path: 'd/p', type: 'fifo' }],
    [dir('d'), sym('d/l', '../x'), dev('d/c', 1, 3), { path: 'd/p', type: 'fifo' }],
  ],
  [
    'deletions',
    [{ path: 'd/.wh.x' }, { path: 'd/.wh..wh..opq' }],
    [{ path: 'd/.wh.x' }, { path: 'd/.wh..wh..opq' }],
  ],
  ['content of several pieces', [f({ content: 'x'.repeat(200_000) })], [f({ content: 'x'.repeat(200_000) })]],
];

describe.skipIf(!isRoot).each<Form>(['folder', 'erofs'])('an unpacked layer and its blob, %s', (form) => {
  it.each(unequal)('differ by %s', async (_what, wanted, found, said) => {
    expect(await difference(wanted, found, { form })).toBe(said);
  });

  it.each(equal)('do not differ by %s', async (_what, wanted, found) => {
    expect(await difference(wanted, found, { form })).toBeUndefined();
    expect(await difference(wanted, found, { form, ids: undefined })).toBeUndefined();
  });

  it('differ by the only access list, unless the file system may have kept none', async () => {
    for (const keeps of [true, false]) {
      vi.mocked(keepsAcls).mockResolvedValueOnce(keeps);
      const said = await difference([acl('f', 7, 7)], [plain], { form });
      expect(said).toBe(keeps || form === 'erofs' ? changed : undefined);
    }
  });

  it('differ where the ids are shifted otherwise', async () => {
    const lower = await unpacker.layer(await put([f()]), { map, form }, recordingTransfer());
    const blob = await put([f()]);
    const input = {
      blob: layout.blob(blob.digest),
      diffId: blob.diffId,
      lower: lower as Lower,
      parents: undefined,
      signal,
    };
    expect(await layerDifference({ ...input, map: undefined })).toBe(changed);
    expect(await layerDifference({ ...input, map: { hostBase: 2 ** 29, size: 2 ** 29 } })).toBe(changed);
    expect(await layerDifference({ ...input, map })).toBeUndefined();
  });

  it('cannot be compared where the blob is no layer, or needs parents that are not there', async () => {
    const lower = await unpacker.layer(await put([f()]), { map, form }, recordingTransfer());
    const compared = async (blob: PinnedLayer, diffId = blob.diffId): Promise<string | undefined> =>
      await layerDifference({
        ...{ blob: layout.blob(blob.digest), diffId, lower: lower as Lower, map, parents: undefined, signal },
      });
    expect(await compared(await put([link('g', 'below')]))).toBeUndefined();
    expect(await compared(await put([f({ content: 'other' })]), digestOf('x'))).toBeUndefined();
    expect(await compared(await put([]))).toBe('"f" was added');
  });

  it('are compared through the layers below, where it links into them', async () => {
    const below = await put([f({ path: 'below', content: 'hello' })]);
    const top = await put([link('f', 'below')]);
    const lowers = await unpacker.all([below, top], { map, form }, recordingTransfer());
    const input = {
      ...{ blob: layout.blob(top.digest), diffId: top.diffId, lower: lowers[1] as Lower, map, signal },
      parents: lowers.slice(0, 1),
    };
    expect(await layerDifference(input)).toBeUndefined();
    const other = await unpacker.layer(
      await put([f({ path: 'below', content: 'other' })]),
      { map, form },
      recordingTransfer(),
    );
    expect(await layerDifference({ ...input, parents: [other as Lower] })).toMatch(
      /^"(f|below)" has changed$/,
    );
  });

  it('are not compared to the end by one who was stopped', async () => {
    const lower = await unpacker.layer(await put([f()]), { map, form }, recordingTransfer());
    const blob = await put([f()]);
    const stopped = AbortSignal.abort();
    const work = layerDifference({
      ...{
        blob: layout.blob(blob.digest),
        diffId: blob.diffId,
        lower: lower as Lower,
        map,
        parents: undefined,
      },
      signal: stopped,
    });
    await expect(work).rejects.toMatchObject({ code: 'CANCELLED' });
  });
});

/** Its files have nothing but contents: the rest is in a model beside them. */
describe.skipIf(!isRoot)('a layer of an ordinary user and its blob', () => {
  const setting: Setting = { form: 'folder', ids: undefined, asRoot: false };

  it.each(['content', 'length', 'target', 'kind, file and folder', 'kind, file and link', 'a file less'])(
    'differ by %s',
    async (what) => {
      const [, wanted, found, said] = unequal.find(([name]) => name === what) ?? expect.fail(what);
      expect(await difference(wanted, found, setting)).toBe(said);
    },
  );

  it.each([
    'mode',
    'set-uid',
    'owner',
    'group',
    'attribute',
    'attribute less',
    'a file more',
    'a copy for a link',
    'minor number',
  ])('do not differ by %s', async (what) => {
    const [, wanted, found] = unequal.find(([name]) => name === what) ?? expect.fail(what);
    expect(await difference(wanted, found, setting)).toBeUndefined();
  });

  it('do not differ by what is no file, link or folder', async () => {
    expect(
      await difference([f(), dev('c', 1, 3), { path: 'p', type: 'fifo' }], [f()], setting),
    ).toBeUndefined();
    expect(await difference([dir('d')], [f()], setting)).toBe('"d" is gone');
    expect(await difference([sym('l', 'x')], [f()], setting)).toBe('"l" is gone');
  });
});
