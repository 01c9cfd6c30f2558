import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeEach, expect, it, vi } from 'vitest';
import { inPieces, makeImage, recordingTransfer } from '../../testkit/images/index.ts';
import { digestOf } from '../names/index.ts';
import type { Descriptor, PinnedImage } from '../types.ts';
import { type LayoutStore, openStore } from './index.ts';
import { type StoreStep, storeSteps } from './steps.ts';

/** What was met since it was last asked. */
const met = vi.hoisted(() => [] as string[]);
vi.mock(import('../../kernel/index.ts'), async (original) => ({
  ...(await original()),
  failpoint: (moment) => void met.push(moment),
}));

const transfer = recordingTransfer();
const reference = 'localhost/a:1';
const ever = new Set<string>();
let directory: string;
let store: LayoutStore;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-steps-'));
  store = await openStore({ directory: join(directory, 'store') });
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
  taken();
});

function taken(): readonly string[] {
  for (const name of met) ever.add(name);
  return met.splice(0);
}

/** The steps of this work, in the order in which they are met; without those of what goes on in the background. */
async function stepsOf(work: () => Promise<unknown>, background = false): Promise<readonly string[]> {
  taken();
  await work();
  return taken().filter((step) => background || step !== 'layer.durable');
}

const path = (...parts: string[]): string => join(store.directory, ...parts);
const image = (): Promise<PinnedImage> => makeImage(store, { files: { f: 'x' }, reference });
const folderOf = async (made: PinnedImage): Promise<string> => {
  const [lower] = await store.lowers(made, undefined, transfer);
  // Nothing goes on in the background any more.
  await store[Symbol.asyncDispose]();
  store = await openStore({ directory: store.directory });
  return dirname(lower?.path ?? '');
};

async function put(length: number): Promise<Descriptor> {
  const bytes = Buffer.alloc(length, 7);
  const blob = { mediaType: 'x', digest: digestOf(bytes), size: bytes.length };
  await store.ingest(blob, async (offset) => inPieces(bytes.subarray(offset), 65_536), transfer);
  return blob;
}

it('a new store has its folders before its names, and its own mark at last; an old one is opened as it is', async () => {
  const other = { directory: join(directory, 'other') };
  expect(await stepsOf(() => openStore(other))).toEqual(['store.folders', 'store.index', 'store.layout']);
  expect(await stepsOf(() => openStore(other))).toEqual([]);
});

const blobSteps = (writes: number): readonly StoreStep[] => [
  'blob.begin',
  ...Array.from({ length: writes }, () => 'blob.write' as const),
  'blob.sync',
  'blob.rename',
  'blob.renamed',
];

it('a blob is synced before it is shown, and written by the MiB', async () => {
  expect(await stepsOf(() => put(10_000))).toEqual(['lock.made', ...blobSteps(1)]);
  expect(await stepsOf(() => put(10_000))).toEqual([]);
  expect(await stepsOf(() => put(2 ** 20))).toEqual(blobSteps(1));
  expect(await stepsOf(() => put(2 ** 20 + 1))).toEqual(blobSteps(2));
  expect(await stepsOf(() => put(3_500_000))).toEqual(blobSteps(4));
  expect(await stepsOf(() => put(0))).toEqual(blobSteps(0));
});

it('a blob of our own is a spool until its digest is known', async () => {
  const steps = await stepsOf(image);
  const spool = new Set(steps.filter((step) => step.startsWith('spool.')));
  expect([...spool]).toEqual(['spool.write', 'spool.written']);
  expect(steps.slice(-2)).toEqual(['index.written', 'index.renamed']);
});

it('a lease that outlives its process is written so that it does; one that does not is not waited for', async () => {
  const lease = (ttlMs: number): (() => Promise<unknown>) => {
    return () => store.lease('run', [digestOf('x')], { ttlMs });
  };
  expect(await stepsOf(lease(60_000))).toEqual(['lock.made', 'lease.written', 'lease.renamed']);
  expect(await stepsOf(() => store.lease('run', []))).toEqual(['lease.written', 'lease.renamed']);
  expect(await stepsOf(() => store.endLeases('run'))).toEqual([]);
});

it('a name is written when it says something new', async () => {
  await image();
  const descriptor = (await store.resolve(reference)) as Descriptor;
  expect(await stepsOf(() => store.tag(reference, descriptor))).toEqual([]);
  const written = ['index.written', 'index.renamed'];
  expect(await stepsOf(() => store.tag('localhost/b:1', descriptor))).toEqual(written);
  expect(await stepsOf(() => store.untag('localhost/b:1'))).toEqual(written);
  expect(await stepsOf(() => store.untag('localhost/b:1'))).toEqual([]);
});

const layerSteps = ['layer.begin', 'layer.unpacked', 'layer.record', 'layer.renamed'];

it.each(['folder', 'erofs'] as const)(
  'an unpacked layer is shown whole, and durable later: %s',
  async (form) => {
    const made = await image();
    const unpack = (): Promise<unknown> => store.lowers(made, undefined, { ...transfer, form });
    const close = async (): Promise<void> => {
      await store[Symbol.asyncDispose]();
      store = await openStore({ directory: store.directory });
    };
    const all = async (): Promise<readonly string[]> =>
      await stepsOf(async () => {
        await unpack();
        await close();
      }, true);
    expect(await all()).toEqual([...layerSteps, 'layer.durable']);
    expect(await all()).toEqual([]);
    const record = join(
      dirname((await store.lowers(made, undefined, { ...transfer, form }))[0]?.path ?? ''),
      'layer.json',
    );
    const said = JSON.parse(await readFile(record, 'utf8')) as object;
    await writeFile(record, JSON.stringify({ ...said, durable: false, boot: 'earlier' }));
    const again = [
      'layer.begin',
      'layer.unpacked',
      'layer.record',
      'layer.replace',
      'layer.renamed',
      'layer.durable',
    ];
    expect(await all()).toEqual(again);
  },
);

it('a prune looks at leases, moves blobs and layers, and empties the trash', async () => {
  const made = await image();
  await folderOf(made);
  await store.untag(reference);
  const prune = (): Promise<unknown> => store.prune({ olderThanMs: 0, keep: [] });
  const blobs = ['prune.blob', 'prune.blob', 'prune.blob'];
  expect(await stepsOf(prune)).toEqual(['prune.leases', ...blobs, 'prune.layer', 'prune.trash']);
  expect(await stepsOf(prune)).toEqual(['prune.leases', 'prune.trash']);
});

it('mending goes from the names and the blobs up to the layers', async () => {
  const fsck = (): Promise<unknown> => store.fsck({ repair: true, ...transfer });
  const made = await image();
  const folder = await folderOf(made);
  expect(await stepsOf(fsck)).toEqual([]);
  await rm(join(folder, 'root'), { recursive: true });
  expect(await stepsOf(fsck)).toEqual(['fsck.layer']);
  await writeFile(path('blobs', ...(made.layers[0]?.digest ?? '').split(':')), 'x');
  expect(await stepsOf(fsck)).toEqual(['fsck.blob', 'fsck.manifest', 'index.written', 'index.renamed']);
  await writeFile(path('index.json'), 'x');
  expect(await stepsOf(fsck)).toEqual(['fsck.aside', 'index.written', 'index.renamed']);
});

afterAll(() => expect([...ever].toSorted()).toEqual([...storeSteps].toSorted()));
