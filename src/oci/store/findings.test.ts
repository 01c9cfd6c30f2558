import { cpSync, renameSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inPieces, makeImage, recordingTransfer, tarOf } from '../../testkit/images/index.ts';
import { digestOf, LARGEST_DOCUMENT } from '../names/index.ts';
import type { FsckFinding, LowerForm } from '../port.ts';
import type { Descriptor, Digest, PinnedImage } from '../types.ts';
import { type LayoutStore, openStore } from './index.ts';
import { EMPTY_INDEX } from './layout.ts';

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const CONFIG = 'application/vnd.oci.image.config.v1+json';
const reference = 'localhost/a:1';
const map = { hostBase: 2 ** 30, size: 2 ** 30 };

let directory: string;
let store: LayoutStore;
const transfer = recordingTransfer();
const path = (...parts: string[]): string => join(directory, 'store', ...parts);
const blobPath = (digest: string | undefined): string => path('blobs', ...(digest ?? '').split(':'));

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-findings-'));
  store = await openStore({ directory: path() });
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const check = (): Promise<readonly FsckFinding[]> => store.fsck({ repair: false, ...transfer });
const mend = (): Promise<readonly FsckFinding[]> => store.fsck({ repair: true, ...transfer });
type Wanted = Omit<FsckFinding, 'repaired'>;

/** Just these are found; then mended; then nothing is found. */
async function expectFindings(...wanted: readonly Wanted[]): Promise<void> {
  const all = (repaired: boolean): readonly FsckFinding[] => wanted.map((one) => ({ ...one, repaired }));
  expect(await check()).toEqual(all(false));
  expect(await mend()).toEqual(all(true));
  expect(await check()).toEqual([]);
}

async function put(value: unknown, mediaType: string): Promise<Descriptor> {
  const bytes = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  const descriptor = { mediaType, digest: digestOf(bytes), size: bytes.length };
  await store.ingest(descriptor, async (offset) => inPieces(bytes.subarray(offset), 2 ** 20), transfer);
  return descriptor;
}

const manifest = async (content: string): Promise<Descriptor> =>
  await put(
    { schemaVersion: 2, mediaType: MANIFEST, config: await put({ content }, CONFIG), layers: [] },
    MANIFEST,
  );
const index = (...manifests: Descriptor[]): Promise<Descriptor> =>
  put({ schemaVersion: 2, mediaType: INDEX, manifests }, INDEX);
const names = (manifests: readonly unknown[]): Promise<void> =>
  writeFile(path('index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
const named = (descriptor: Descriptor, name = reference): Descriptor => ({
  ...descriptor,
  annotations: { 'org.opencontainers.image.ref.name': name },
});
const image = (name = reference): Promise<PinnedImage> =>
  makeImage(store, { files: { f: 'x' }, reference: name });

/** Layers are brought to the disk in the background, where their folders get another time. */
async function settle(): Promise<void> {
  await store[Symbol.asyncDispose]();
  store = await openStore({ directory: path() });
}

describe('names', () => {
  it('that cannot be read: the file is kept beside, and is as it was until it is mended', async () => {
    await image();
    await writeFile(path('index.json'), 'rubbish');
    const finding = {
      kind: 'index',
      subject: 'index.json',
      message: 'it cannot be read; names are lost',
    } as const;
    expect(await check()).toEqual([{ ...finding, repaired: false }]);
    expect(await readFile(path('index.json'), 'utf8')).toBe('rubbish');
    await expectFindings(finding);
    expect(await readFile(path('index.json'), 'utf8')).toBe(EMPTY_INDEX);
    expect((await stat(path('index.json'))).mode & 0o777).toBe(0o644);
    const [aside, ...more] = (await readdir(path())).filter((name) => name.startsWith('index.json.'));
    expect(aside).toMatch(/^index\.json\.damaged-[0-9a-f]{8}$/);
    expect(more).toEqual([]);
    expect(await readFile(path(aside ?? ''), 'utf8')).toBe('rubbish');
  });

  it('that lead nowhere are told each, and the good ones stay as they are', async () => {
    const good = named(await manifest('good'), 'localhost/good:1');
    const gone = { mediaType: MANIFEST, digest: digestOf('gone'), size: 4 };
    const config = await put({ no: 'manifest' }, CONFIG);
    const empty = named(await index(), 'localhost/empty:1');
    const hollow = named(await index(gone), 'localhost/hollow:1');
    const half = named(await index(gone, good), 'localhost/half:1');
    const lying = named({ ...good, mediaType: INDEX }, 'localhost/lying:1');
    await names([7, good, named(gone), gone, { ...config, mediaType: MANIFEST }, empty, hollow, half, lying]);
    await expectFindings(
      { kind: 'index', subject: 'index.json', message: 'an entry that is no descriptor' },
      { kind: 'index', subject: reference, message: 'the name leads to a manifest that is not there' },
      { kind: 'index', subject: gone.digest, message: 'the name leads to a manifest that is not there' },
      { kind: 'index', subject: config.digest, message: 'the name leads to something that is no manifest' },
      {
        kind: 'index',
        subject: 'localhost/hollow:1',
        message: 'the name leads to an index none of whose images is there',
      },
      {
        kind: 'index',
        subject: 'localhost/lying:1',
        message: 'the name leads to something that is no manifest',
      },
    );
    expect(JSON.parse(await readFile(path('index.json'), 'utf8'))).toEqual({
      schemaVersion: 2,
      manifests: [good, empty, half],
    });
  });

  it('that lead to something too large for a manifest, and no more than that', async () => {
    const largest = named(await put(' '.repeat(LARGEST_DOCUMENT), MANIFEST), 'localhost/largest:1');
    const larger = named(await put(' '.repeat(LARGEST_DOCUMENT + 1), MANIFEST), 'localhost/larger:1');
    await names([largest, larger]);
    await expectFindings(
      {
        kind: 'index',
        subject: 'localhost/largest:1',
        message: 'the name leads to something that is no manifest',
      },
      {
        kind: 'index',
        subject: 'localhost/larger:1',
        message: 'the name leads to something that is too large for a manifest',
      },
    );
  });

  it('that were left incomplete on purpose are asked for their manifest only', async () => {
    const broken = await put(
      { schemaVersion: 2, config: { mediaType: CONFIG, digest: digestOf('gone'), size: 4 }, layers: [] },
      MANIFEST,
    );
    await store.tag(reference, broken, { sparse: true });
    expect(await check()).toEqual([]);
    await rm(blobPath(broken.digest));
    await expectFindings({
      kind: 'index',
      subject: reference,
      message: 'the name leads to a manifest that is not there',
    });
  });
});

describe('blobs', () => {
  it('that have changed are told with what needs them', async () => {
    const { layers, manifestDigest } = await image();
    const layer = layers[0]?.digest as Digest;
    const bytes = await readFile(blobPath(layer));
    await writeFile(blobPath(layer), bytes.fill(1, 600, 601));
    const damaged = { kind: 'blob-digest', subject: layer, message: 'its bytes have changed' };
    expect(await check()).toEqual([{ ...damaged, repaired: false }]);
    expect(await store.hasBlob(layer)).toBe(true);
    expect(await mend()).toEqual([
      { ...damaged, repaired: true },
      {
        ...{ kind: 'blob-missing', subject: layer, repaired: true },
        message: `${manifestDigest} needs it; which was dropped too`,
      },
      {
        ...{ kind: 'index', subject: reference, repaired: true },
        message: 'the name leads to a manifest that is not there',
      },
    ]);
    expect(await check()).toEqual([]);
    expect(await readdir(path('trash'))).toEqual([]);
  });

  it('that are named, and have changed, are told once until they are mended', async () => {
    const { manifestDigest } = await image();
    await writeFile(blobPath(manifestDigest), 'x');
    const finding = { kind: 'blob-digest', subject: manifestDigest, message: 'its bytes have changed' };
    expect(await check()).toEqual([{ ...finding, repaired: false }]);
  });

  it('that are missing are told with what to do, and what is held stays', async () => {
    const { layers, manifestDigest } = await image();
    const layer = layers[0]?.digest as Digest;
    await rm(blobPath(layer));
    const missing = { kind: 'blob-missing', subject: layer } as const;
    const pull = { ...missing, message: `${manifestDigest} needs it; pull the image again`, repaired: false };
    await writeFile(path('leases', 'dead.json'), '{}');
    expect(await check()).toEqual([pull]);
    expect(await readdir(path('leases'))).toEqual(['dead.json']);
    const lease = await store.lease('pull', [manifestDigest]);
    expect(await mend()).toEqual([pull]);
    expect(await readdir(path('leases'))).not.toContain('dead.json');
    expect(await store.hasBlob(manifestDigest)).toBe(true);
    await lease[Symbol.asyncDispose]();
    const dropped = {
      ...missing,
      message: `${manifestDigest} needs it; which was dropped too`,
      repaired: true,
    };
    expect((await mend())[0]).toEqual(dropped);
    expect(await store.hasBlob(manifestDigest)).toBe(false);
  });

  it('that somebody brought anew just now stay', async () => {
    const blob = await put('good', 'x');
    await writeFile(blobPath(blob.digest), 'evil');
    // Found, and the lock is about to be taken.
    const signal = watched('checkBlobs', 2, () => writeFileSync(blobPath(blob.digest), 'good'));
    expect(await store.fsck({ repair: true, ...transfer, signal })).toMatchObject([{ kind: 'blob-digest' }]);
    expect(await readFile(blobPath(blob.digest), 'utf8')).toBe('good');
  });
});

describe('what was left', () => {
  it('is told each, and stays until it is mended', async () => {
    const part = `sha256-${'a'.repeat(64)}.part`;
    for (const name of [part, 'note']) await writeFile(path('ingest', name), '');
    await mkdir(path('layers', 'tmp-bb-1'));
    await writeFile(path('trash', 'x'), '');
    await rm(path('leases'), { recursive: true });
    const message = 'left by an interrupted command';
    const wanted = [part, 'tmp-bb-1'].map((subject) => ({ kind: 'partial', subject, message }) as const);
    expect(await check()).toEqual(wanted.map((one) => ({ ...one, repaired: false })));
    expect(await readdir(path())).not.toContain('leases');
    expect(await readdir(path('trash'))).toEqual(['x']);
    expect(await readdir(path('ingest'))).toHaveLength(2);
    await expectFindings(...wanted);
    expect(await readdir(path('ingest'))).toEqual(['note']);
    expect(await readdir(path('trash'))).toEqual([]);
    expect(await readdir(path('leases'))).toEqual([]);
  });
});

describe.each<LowerForm>(['folder', 'erofs'])('unpacked layers, %s', (form) => {
  const lowersOf = async (made: PinnedImage): Promise<readonly string[]> => {
    const lowers = await store.lowers(made, map, { ...transfer, form });
    await settle();
    return lowers.map((lower) => lower.path);
  };
  const chained = (name: string): Promise<PinnedImage> =>
    makeImage(store, {
      reference: name,
      layers: [
        { files: [{ path: 'f', content: 'below' }] },
        { tar: inPieces(tarOf([{ path: 'h', type: 'link', linkPath: 'f' }])) },
      ],
    });
  /** Content that is not what the blob holds, in a place of its own. */
  async function spoil(lower: string): Promise<string> {
    if (form === 'folder') await writeFile(join(lower, 'f'), 'evil');
    else await writeFile(lower, 'evil');
    return dirname(lower).slice(path('layers').length + 1);
  }
  const message =
    form === 'folder'
      ? 'an unpacked layer is not what its blob holds: "f" has changed'
      : 'the file of an unpacked layer has been replaced or changed';

  it('are good, alone and chained, shifted or not', async () => {
    for (const made of [await image('localhost/b:1'), await chained(reference)]) {
      await lowersOf(made);
      await store.lowers(made, undefined, { ...transfer, form });
    }
    expect(await check()).toEqual([]);
    expect(await mend()).toEqual([]);
  });

  it('that have changed are told, and only they', async () => {
    const [lower] = await lowersOf(await image());
    await lowersOf(await makeImage(store, { files: { g: 'other' }, reference: 'localhost/b:1' }));
    const subject = await spoil(lower ?? '');
    await expectFindings({ kind: 'layer', subject, message });
    expect(await readdir(path('layers'))).toHaveLength(1);
    expect(await readdir(path('trash'))).toEqual([]);
  });

  it('that a run uses are told so, and stay', async () => {
    const made = await image();
    const [lower] = await lowersOf(made);
    const subject = await spoil(lower ?? '');
    await using _lease = await store.lease('run', [made.manifestDigest]);
    const inUse = {
      kind: 'layer',
      subject,
      message: `${message}; in use, so it stays until the run has ended`,
    };
    expect(await mend()).toEqual([{ ...inUse, repaired: false }]);
    expect(await check()).toEqual([{ kind: 'layer', subject, message, repaired: false }]);
    expect(await readdir(path('layers'))).toEqual([subject]);
  });

  it('without a record, and without their content, are told apart', async () => {
    const [lower] = await lowersOf(await image());
    await mkdir(path('layers', 'strange'));
    const key = dirname(lower ?? '').slice(path('layers').length + 1);
    await rm(lower ?? '', { recursive: true });
    if (form === 'folder') await writeFile(lower ?? '', '');
    const wanted = [
      {
        subject: key,
        message: form === 'folder' ? 'an unpacked layer without its files' : message,
      },
      { subject: 'strange', message: 'an unpacked layer without its record' },
    ];
    await expectFindings(...wanted.map((one) => ({ kind: 'layer' as const, ...one })));
    expect(await readdir(path('layers'))).toEqual([]);
  });

  it('that are replaced by others meanwhile are not told of, nor touched', async () => {
    const [lower] = await lowersOf(await image());
    const subject = await spoil(lower ?? '');
    const swap = (): void => {
      renameSync(path('layers', subject), path('swapped'));
      cpSync(path('swapped'), path('layers', subject), { recursive: true });
    };
    // The lock is about to be taken: what was told of is not what stands there.
    const signal = watched('remove', 1, swap);
    expect(await store.fsck({ repair: true, ...transfer, signal })).toMatchObject([
      { kind: 'layer', subject },
    ]);
    expect(await readdir(path('layers'))).toEqual([subject]);
    expect(await readdir(path('trash'))).toEqual([]);
  });

  it('are compared with nothing where their blob is damaged or gone, or no name leads to them', async () => {
    const made = await image();
    const [lower] = await lowersOf(made);
    await spoil(lower ?? '');
    const changed = form === 'erofs' ? [expect.objectContaining({ kind: 'layer' })] : [];
    await store.untag(reference);
    expect(await check()).toEqual(changed);
    await store.tag(reference, (await store.list())[0]?.descriptor ?? (await described(made)));
    const layer = made.layers[0]?.digest as Digest;
    const bytes = await readFile(blobPath(layer));
    await writeFile(blobPath(layer), bytes.fill(1, 600, 601));
    expect(await check()).toEqual([expect.objectContaining({ kind: 'blob-digest' }), ...changed]);
    await rm(blobPath(layer));
    expect(await check()).toEqual([expect.objectContaining({ kind: 'blob-missing' }), ...changed]);
  });

  it('that link below are compared with nothing where what is below is gone', async () => {
    const made = await chained(reference);
    const [below, top] = await lowersOf(made);
    await rm(dirname(below ?? ''), { recursive: true });
    expect(await check()).toEqual([]);
    if (form === 'erofs') return;
    await writeFile(join(top ?? '', 'h'), 'evil');
    expect(await check()).toEqual([]);
    await lowersOf(made);
    expect(await check()).toMatchObject([{ message: expect.stringContaining('"h" has changed') }]);
  });

  const described = async (made: PinnedImage): Promise<Descriptor> => ({
    mediaType: MANIFEST,
    digest: made.manifestDigest,
    size: (await store.blobSize(made.manifestDigest)) ?? 0,
  });
});

/** A signal that nobody gives, and that acts when this function looks at it, itself or by what it calls, for the nth time. */
function watched(name: string, time: number, act: () => void): AbortSignal {
  const { signal } = new AbortController();
  let looks = 0;
  Object.defineProperty(signal, 'aborted', {
    get: () => {
      if (new RegExp(`at (async )?${name} `).test(new Error().stack ?? '') && ++looks === time) act();
      return false;
    },
  });
  return signal;
}

it('a check that is stopped says so, wherever it is', async () => {
  await image();
  await store.lowers(await image(), undefined, transfer);
  const said: string[] = [];
  for (let looks = 0; ; looks++) {
    const { signal } = new AbortController();
    let left = looks;
    Object.defineProperty(signal, 'aborted', { get: () => left-- <= 0 });
    const outcome = await store.fsck({ repair: false, ...transfer, signal }).then(
      (findings) => `${findings.length} findings`,
      (error: Error) => error.message,
    );
    said.push(outcome);
    if (outcome === '0 findings') break;
  }
  const [wait, blob] = ['cancelled while waiting for the store', 'cancelled while the store was checked'];
  expect(said).toEqual([
    ...[wait, blob, blob, blob, wait, wait, blob],
    'cancelled while unpacking a layer',
    '0 findings',
  ]);
});
