import { execFileSync } from 'node:child_process';
import {
  chmod,
  cp,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inPieces, makeImage, recordingTransfer, tarOf } from '../../testkit/images/index.ts';
import { lacking } from '../../testkit/programs.ts';
import { buildIndex, pinnedFromStore } from '../image/index.ts';
import type { FsckFinding } from '../port.ts';
import type { Descriptor, PinnedImage } from '../types.ts';
import { type LayoutStore, openStore } from './index.ts';
import { acquireLock } from './lock.ts';

const platform = { os: 'linux', architecture: 'amd64' };
const arm = { os: 'linux', architecture: 'arm64' };
const reference = 'localhost/a:1';

let directory: string;
let store: LayoutStore;
const transfer = recordingTransfer();
const path = (...parts: string[]): string => join(directory, 'store', ...parts);
const blobPath = (digest: string | undefined): string => path('blobs', ...(digest ?? '').split(':'));

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-fsck-'));
  store = await openStore({ directory: path() });
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const kinds = (findings: readonly FsckFinding[]): readonly unknown[] =>
  findings.map(({ kind, repaired }) => [kind, repaired]);
const check = (): Promise<readonly FsckFinding[]> => store.fsck({ repair: false, ...transfer });
const mend = (): Promise<readonly FsckFinding[]> => store.fsck({ repair: true, ...transfer });

/** Found, then mended, then nothing is found. */
async function expectMended(...wanted: string[]): Promise<readonly FsckFinding[]> {
  const found = await check();
  expect(found.map(({ repaired }) => repaired)).not.toContain(true);
  expect(found.length).toBeGreaterThan(0);
  expect(kinds(await mend())).toEqual(wanted.map((kind) => [kind, true]));
  expect(await check()).toEqual([]);
  return found;
}

describe('a blob', () => {
  let image: PinnedImage;
  beforeEach(async () => {
    image = await makeImage(store, { platform, files: { f: 'x' }, reference });
  });
  const layer = (): string => blobPath(image.layers[0]?.digest);

  it.each<[string, () => Promise<unknown>, RegExp]>([
    [
      'a flipped bit',
      async () => writeFile(layer(), (await readFile(layer())).fill(1, 5, 6)),
      /its bytes have changed/,
    ],
    ['a lost end', () => truncate(layer(), 10), /its bytes have changed/],
    ['a folder in its place', () => rm(layer()).then(() => mkdir(layer())), /it is no file/],
    ['a FIFO in its place', () => rm(layer()).then(() => execFileSync('mkfifo', [layer()])), /it is no file/],
    ['a link in its place', () => rm(layer()).then(() => symlink('/dev/zero', layer())), /it cannot be read/],
  ])('with %s is dropped, with all that needs it', async (_what, damage, message) => {
    await damage();
    const [found] = await expectMended('blob-digest', 'blob-missing', 'index');
    expect(found).toMatchObject({ kind: 'blob-digest', subject: image.layers[0]?.digest });
    expect(found?.message).toMatch(message);
    expect(await store.list()).toEqual([]);
    expect(await readdir(path('trash'))).toEqual([]);
  });

  it('that is missing takes the manifest that needs it, unless a pull is bringing it', async () => {
    await rm(layer());
    const lease = await store.lease('pull', [image.digest]);
    expect(kinds(await mend())).toEqual([['blob-missing', false]]);
    expect(await store.hasBlob(image.digest)).toBe(true);
    await lease[Symbol.asyncDispose]();
    await expectMended('blob-missing', 'index');
    expect(await store.hasBlob(image.digest)).toBe(false);
  });

  it('that is missing leaves the other platforms of an index', async () => {
    const other = await makeImage(store, { platform: arm, files: { f: 'arm' } });
    await buildIndex(store, [image, other], { ...transfer, reference: 'localhost/both:1' });
    await store.untag(reference);
    await store.untag('localhost/test/image:latest');
    await rm(layer());
    await expectMended('blob-missing');
    expect(await pinnedFromStore(store, 'localhost/both:1', arm)).toBeDefined();
    expect(await pinnedFromStore(store, 'localhost/both:1', platform)).toBeUndefined();
    await rm(blobPath(other.layers[0]?.digest));
    await expectMended('blob-missing', 'index');
    expect(await store.list()).toEqual([]);
  });

  it('that was left out on purpose is not missed', async () => {
    const descriptor = (await store.resolve(reference)) as Descriptor;
    await store.untag(reference);
    await rm(layer());
    await store.tag('localhost/sparse:1', descriptor, { sparse: true });
    expect(await check()).toEqual([]);
    expect(await mend()).toEqual([]);
    expect(await store.resolve('localhost/sparse:1')).toBeDefined();
    await rm(blobPath(image.digest));
    await expectMended('index');
  });
});

describe('names', () => {
  it('that lead nowhere are dropped, and the others stay', async () => {
    await makeImage(store, { platform, files: { f: 'x' }, reference });
    const gone = await makeImage(store, { platform, files: { f: 'y' }, reference: 'localhost/b:1' });
    await rm(blobPath(gone.digest));
    const [found] = await expectMended('index');
    expect(found).toMatchObject({ subject: 'localhost/b:1' });
    expect((await store.list()).map((item) => item.reference)).toEqual([reference]);
  });

  it('that are no descriptors, or lead to no manifest, are dropped', async () => {
    const { configDigest } = await makeImage(store, { platform, files: { f: 'x' }, reference });
    const index = JSON.parse(await readFile(path('index.json'), 'utf8')) as { manifests: Descriptor[] };
    const config = { ...index.manifests[0], digest: configDigest, annotations: {} };
    await writeFile(
      path('index.json'),
      JSON.stringify({ ...index, manifests: [1, ...index.manifests, config] }),
    );
    await expectMended('index', 'index');
    expect((await store.list()).map((item) => item.reference)).toEqual([reference]);
  });

  it.each<[string, () => Promise<unknown>, boolean]>([
    ['rubbish', () => writeFile(path('index.json'), 'rubbish'), true],
    ['no list', () => writeFile(path('index.json'), '{"manifests":{}}'), true],
    ['a folder', () => rm(path('index.json')).then(() => mkdir(path('index.json'))), true],
    ['gone', () => rm(path('index.json')), false],
  ])('in an index.json that is %s are lost, and nothing else', async (_what, damage, aside) => {
    const { digest } = await makeImage(store, { platform, files: { f: 'x' }, reference });
    await damage();
    await expectMended('index');
    expect(await store.list()).toEqual([]);
    expect(await store.hasBlob(digest)).toBe(true);
    const kept = (await readdir(path())).filter((name) => name.startsWith('index.json.damaged-'));
    expect(kept).toHaveLength(aside ? 1 : 0);
  });
});

describe('what was left half done', () => {
  it('is swept, but not under the hands of one who is at it', async () => {
    const part = `sha256-${'a'.repeat(64)}.part`;
    await writeFile(path('ingest', part), 'x');
    await mkdir(path('layers', 'tmp-bb-1'));
    {
      using _blob = await acquireLock(path('locks', 'blob-aa'), transfer);
      using _layer = await acquireLock(path('locks', 'layer-bb'), transfer);
      expect(await check()).toEqual([]);
      expect(await mend()).toEqual([]);
    }
    const found = await expectMended('partial', 'partial');
    expect(found.map(({ subject }) => subject)).toEqual([part, 'tmp-bb-1']);
  });

  it('and folders that are gone are made again', async () => {
    await rm(path('ingest'), { recursive: true });
    await rm(path('trash'), { recursive: true });
    await mend();
    expect(await check()).toEqual([]);
  });
});

describe('an unpacked layer', () => {
  let root: string;
  const content = [
    { path: 'd', type: 'directory' as const, mode: 0o750 },
    { path: 'd/f', content: 'hello', mode: 0o640 },
    { path: 'd/g', type: 'link' as const, linkPath: 'd/f' },
    { path: 'l', type: 'symlink' as const, linkPath: 'd/f' },
    {
      path: 'other',
      content: 'other',
      xattrs: new Map(['a', 'b'].map((name) => [`user.${name}`, Buffer.from('1')])),
    },
  ];

  beforeEach(async () => {
    const image = await makeImage(store, {
      platform,
      reference,
      layers: [{ files: [{ path: 'below', content: 'b' }] }, { tar: inPieces(tarOf(content)) }],
    });
    root = (await store.lowers(image, undefined, transfer))[1]?.path ?? '';
    // Until then records are written.
    await store[Symbol.asyncDispose]();
    store = await openStore({ directory: path() });
    expect(await check()).toEqual([]);
  });

  const attributes: readonly [string, () => Promise<unknown>, RegExp][] = [
    [
      'another attribute',
      async () => execFileSync('setfattr', ['-n', 'user.a', '-v', '2', join(root, 'other')]),
      /"other" has changed/,
    ],
    [
      'an attribute less',
      async () => execFileSync('setfattr', ['-x', 'user.b', join(root, 'other')]),
      /"other" has changed/,
    ],
  ];
  it.each<[string, () => Promise<unknown>, RegExp]>([
    ['a changed byte', () => writeFile(join(root, 'd/f'), 'hellO'), /"d\/f" has changed/],
    ['a longer file', () => writeFile(join(root, 'd/f'), 'hello!'), /"d\/f" has changed/],
    ['another mode', () => chmod(join(root, 'd/f'), 0o600), /"d\/f" has changed/],
    ['another mode of a folder', () => chmod(join(root, 'd'), 0o755), /"d" has changed/],
    [
      'another target of a link',
      () => rm(join(root, 'l')).then(() => symlink('d/x', join(root, 'l'))),
      /"l" has changed/,
    ],
    ...(lacking('attributes of an unpacked layer', { setfattr: 'attr' }) ? [] : attributes),
    ['a file less', () => rm(join(root, 'd/f')), /"d\/f" is gone/],
    ['a folder less', () => rm(join(root, 'd'), { recursive: true }), /is gone/],
    ['a file more', () => writeFile(join(root, 'd/new'), ''), /"d\/new" was added/],
    [
      'a copy for a hard link',
      async () => {
        await rm(join(root, 'd/g'));
        await cp(join(root, 'd/f'), join(root, 'd/g'));
        await chmod(join(root, 'd/g'), 0o644);
      },
      /hard links have changed/,
    ],
    [
      'a hard link for a file of its own',
      async () => {
        await rm(join(root, 'other'));
        await link(join(root, 'd/f'), join(root, 'other'));
      },
      /"other" has changed/,
    ],
    ['no files', () => rm(root, { recursive: true }), /without its files/],
    ['no record', () => rm(join(root, '..', 'layer.json')), /without its record/],
    ['a damaged record', () => writeFile(join(root, '..', 'layer.json'), '{'), /without its record/],
  ])('with %s is dropped and unpacked anew', async (_what, damage, message) => {
    await damage();
    const [found] = await expectMended('layer');
    expect(found?.message).toMatch(message);
    expect(await readdir(path('layers'))).toHaveLength(1);
    const image = await pinnedFromStore(store, reference, platform);
    const again = await store.lowers(image as PinnedImage, undefined, transfer);
    expect(await readFile(join(again[1]?.path ?? '', 'd/f'), 'utf8')).toBe('hello');
    expect(await check()).toEqual([]);
  });

  it.each(['folder', 'erofs'] as const)(
    'with another root than it names is not what it was: %s',
    async (form) => {
      const layers = [{ tar: inPieces(tarOf([{ path: '.wh..wh..opq' }, { path: 'f' }])) }];
      const image = await makeImage(store, { platform, reference: 'localhost/opaque:1', layers });
      const [lower] = await store.lowers(image, undefined, { ...transfer, form });
      expect(await check()).toEqual([]);
      if (form === 'erofs') return;
      await chmod(lower?.path ?? '', 0o711);
      const [found] = await expectMended('layer');
      expect(found?.message).toMatch(/its root folder has changed/);
    },
  );

  it('that a run is using stays until it has ended', async () => {
    await writeFile(join(root, 'd/f'), 'hellO');
    const image = (await pinnedFromStore(store, reference, platform)) as PinnedImage;
    const lease = await store.lease('run', [image.manifestDigest]);
    const [found] = await mend();
    expect(found).toMatchObject({ kind: 'layer', repaired: false });
    expect(found?.message).toContain('in use');
    expect((await lstat(root)).isDirectory()).toBe(true);
    await lease[Symbol.asyncDispose]();
    await expectMended('layer');
  });

  it('that links into its parents is compared with them', async () => {
    const image = await makeImage(store, {
      platform,
      reference: 'localhost/chain:1',
      layers: [
        { files: [{ path: 'f', content: 'below' }] },
        { tar: inPieces(tarOf([{ path: 'h', type: 'link', linkPath: 'f' }])) },
      ],
    });
    const top = (await store.lowers(image, undefined, transfer))[1]?.path ?? '';
    expect(await readFile(join(top, 'h'), 'utf8')).toBe('below');
    expect(await check()).toEqual([]);
    await writeFile(join(top, 'h'), 'Below');
    await expectMended('layer');
  });
});
