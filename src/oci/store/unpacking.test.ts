import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { recordingTransfer, type TarFile, tarOf } from '../../testkit/images/index.ts';
import { digestOf } from '../names/index.ts';
import type { Lower } from '../port.ts';
import type { Digest, PinnedLayer } from '../types.ts';
import { bootId, chainId, layerKey } from './layers.ts';
import { type Layout, openLayout } from './layout.ts';
import { Slots } from './slots.ts';
import { removeStubbornly, type Shape, Unpacker, visible } from './unpacking.ts';

const mediaType = 'application/vnd.oci.image.layer.v1.tar';
const map = { hostBase: 2 ** 30, size: 2 ** 30 };
const folder: Shape = { map, form: 'folder' };
const erofs: Shape = { map, form: 'erofs' };
const large = new Map([['user.large', Buffer.alloc(70_000, 7)]]);
let directory: string;
let layout: Layout;
let unpacker: Unpacker;
let transfer: ReturnType<typeof recordingTransfer>;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-unpacking-'));
  layout = await openLayout(join(directory, 'store'));
  unpacker = new Unpacker(layout);
  transfer = recordingTransfer();
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await unpacker.close();
  await rm(directory, { recursive: true, force: true });
});

async function put(bytes: Uint8Array): Promise<PinnedLayer> {
  const digest = digestOf(bytes);
  await writeFile(layout.blob(digest), bytes);
  return { digest, diffId: digest, mediaType, size: bytes.length };
}

const layer = (...files: TarFile[]): Promise<PinnedLayer> => put(tarOf(files));
const link = { path: 'h', type: 'link', linkPath: 'f' } as const;
const keyOf = (id: Digest, shape: Shape): string => layerKey({ ...shape, id });
const at = (id: Digest, shape: Shape, ...parts: string[]): string =>
  join(layout.layers, keyOf(id, shape), ...parts);
const recordOf = async (id: Digest, shape: Shape): Promise<unknown> =>
  JSON.parse(await readFile(at(id, shape, 'layer.json'), 'utf8'));
const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;
const told = (): readonly unknown[] => transfer.events.map(({ type, ...rest }) => [type, rest]);
const below = (id: Digest, shape: Shape): Lower => ({
  kind: shape.form,
  path: at(id, shape, shape.form === 'folder' ? 'root' : 'image.erofs'),
});

it('a large file is held no longer than until it is written', async () => {
  const letGo = vi.spyOn(ArrayBuffer.prototype, 'transfer');
  try {
    await unpacker.layer(await layer({ path: 'f', content: 'x'.repeat(2 ** 20) }), folder, transfer);
    expect(letGo).toHaveBeenCalled();
  } finally {
    letGo.mockRestore();
  }
});

describe.each([folder, erofs])('an unpacked layer, $form', (shape) => {
  it('has a record that says all about it, and is told of once', async () => {
    const one = await layer({ path: 'f', content: 'x' }, { path: 'd/.wh..wh..opq' }, { path: '.wh.gone' });
    expect(await unpacker.layer(one, shape, transfer)).toEqual(below(one.diffId, shape));
    expect(await unpacker.layer(one, shape, transfer)).toEqual(below(one.diffId, shape));
    const { diffId } = one;
    expect(told()).toEqual([['layer.unpacked', { diffId, entries: 3 }]]);
    const record = { version: 1, id: diffId, diffId, map, boot: await bootId(), entries: 3, opaque: ['d'] };
    const image = { size: expect.any(Number), inode: expect.stringMatching(/^\d+$/) };
    expect(await recordOf(diffId, shape)).toEqual({
      ...record,
      durable: false,
      ...(shape.form === 'erofs' && { image: expect.objectContaining(image) }),
    });
    await unpacker.close();
    expect(await recordOf(diffId, shape)).toMatchObject({ ...record, durable: true });
    const content = shape.form === 'folder' ? 'root' : 'image.erofs';
    expect(await readdir(layout.layers)).toEqual([keyOf(diffId, shape)]);
    expect(await readdir(at(diffId, shape))).toEqual([content, 'layer.json'].toSorted());
    expect(await modeOf(at(diffId, shape))).toBe(0o700);
    expect(await modeOf(at(diffId, shape, 'layer.json'))).toBe(0o600);
  });

  it('that links below has a mark alone under its own name, and its content under its chain', async () => {
    const lower = await layer({ path: 'f', content: 'below' });
    const top = await layer(link);
    const id = chainId(lower.diffId, top.diffId);
    const wanted = [below(lower.diffId, shape), below(id, shape)];
    expect(await unpacker.all([lower, top], shape, transfer)).toEqual(wanted);
    expect(await unpacker.all([lower, top], shape, transfer)).toEqual(wanted);
    expect(await unpacker.layer(top, shape, transfer)).toBeUndefined();
    await unpacker.close();
    expect(await readdir(at(top.diffId, shape))).toEqual(['layer.json']);
    expect(await recordOf(top.diffId, shape)).toEqual({
      ...{ version: 1, id: top.diffId, diffId: top.diffId, map, boot: await bootId() },
      ...{ entries: 0, opaque: [], needsParents: true, durable: true },
    });
    expect(await recordOf(id, shape)).toMatchObject({ id, diffId: top.diffId, durable: true });
    expect(transfer.events.map(({ type }) => type)).toEqual(['layer.unpacked', 'layer.unpacked']);
  });

  it('that links below and has nothing below is unsafe, however often it is asked for', async () => {
    const top = await layer(link);
    for (let time = 0; time < 2; time++) {
      expect(await unpacker.layer(top, shape, transfer)).toBeUndefined();
      await expect(unpacker.all([top], shape, transfer)).rejects.toMatchObject({ code: 'OCI_LAYER_UNSAFE' });
    }
    expect(await readdir(layout.layers)).toEqual([keyOf(top.diffId, shape)]);
    expect(told()).toEqual([]);
  });

  it('whose blob is gone is missing, and one whose blob was never right is not what it should be', async () => {
    const one = await layer({ path: 'f', content: 'x' });
    const lying = { ...one, diffId: digestOf('other') };
    const wrong = `a layer unpacks to ${one.diffId}, and the image declares ${lying.diffId}`;
    await expect(unpacker.layer(lying, shape, transfer)).rejects.toMatchObject({
      code: 'OCI_LAYER_DIFFID',
      message: wrong,
    });
    const rubbish = await put(Buffer.alloc(5000, 'rubbish'));
    await expect(unpacker.layer(rubbish, shape, transfer)).rejects.toMatchObject({
      code: 'OCI_LAYER_INVALID',
    });
    await rm(layout.blob(one.digest));
    await expect(unpacker.layer(one, shape, transfer)).rejects.toMatchObject({
      code: 'OCI_BLOB_MISSING',
      message: `${one.digest} is not in the store`,
    });
    expect(await readdir(layout.layers)).toEqual([]);
    expect(told()).toEqual([]);
  });

  it.each([520, 0])('whose blob has changed at byte %i is damaged', async (offset) => {
    const one = await layer({ path: 'f', content: 'x'.repeat(100) });
    const bytes = await readFile(layout.blob(one.digest));
    await writeFile(layout.blob(one.digest), bytes.fill(1, offset, offset + 1));
    await expect(unpacker.layer(one, shape, transfer)).rejects.toMatchObject({
      code: 'OCI_BLOB_CORRUPT',
      place: { file: layout.blob(one.digest) },
    });
    expect(await readdir(layout.layers)).toEqual([]);
  });

  it('keeps no blob open, whether it was good or not', async () => {
    const layers = [
      await layer({ path: 'f', content: 'x'.repeat(3_000_000) }),
      await layer(link, { path: 'f', content: 'x'.repeat(3_000_000) }),
      await put(Buffer.concat([Buffer.alloc(5000, 'rubbish'), Buffer.alloc(3_000_000)])),
    ];
    for (const one of layers) await unpacker.layer(one, shape, transfer).catch(() => undefined);
    const open = async (): Promise<readonly string[]> => {
      const files = await readdir('/proc/self/fd');
      const paths = await Promise.all(files.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')));
      return paths.filter((path) => path.startsWith(layout.blobs));
    };
    // Closing is done by the same threads that look here, a little later.
    let still = await open();
    for (let looks = 0; looks < 100 && still.length > 0; looks++) still = await open();
    expect(still).toEqual([]);
  });

  it('takes the place of what dead processes left of it, and of what is not believed', async () => {
    const one = await layer({ path: 'f', content: 'x' });
    const key = keyOf(one.diffId, shape);
    const other = key.startsWith('aa') ? 'tmp-bb-1' : 'tmp-aa-1';
    for (const name of [`tmp-${key.slice(0, 2)}-1`, `tmp-${key}-2`, other, key])
      await mkdir(join(layout.layers, name, 'root'), { recursive: true });
    await unpacker.layer(one, shape, transfer);
    expect(await readdir(layout.layers)).toEqual([key, other].toSorted());
    expect(await recordOf(one.diffId, shape)).toMatchObject({ entries: 1 });
    expect(await readdir(layout.trash)).toEqual([]);
  });
});

it('a layer that cannot be one file has a mark that says why, each time it is asked for', async () => {
  const one = await layer({ path: 'f', xattrs: large });
  for (let time = 0; time < 2; time++)
    expect(await unpacker.layer(one, erofs, transfer)).toEqual(below(one.diffId, folder));
  const { notErofs: because } = (await recordOf(one.diffId, erofs)) as { notErofs: string };
  expect(because).toMatch(/\w+ \w+/);
  const { diffId } = one;
  expect(told()).toEqual([
    ['layer.folder', { diffId, because }],
    ['layer.unpacked', { diffId, entries: 1 }],
    ['layer.folder', { diffId, because }],
  ]);
  expect(await readdir(at(diffId, erofs))).toEqual(['layer.json']);
  expect(await recordOf(diffId, erofs)).toMatchObject({ entries: 0, opaque: [], notErofs: because });
});

it('a store without a folder for layers says so', async () => {
  const one = await layer({ path: 'f' });
  await rm(layout.layers, { recursive: true });
  await expect(unpacker.layer(one, folder, transfer)).rejects.toMatchObject({
    code: 'OCI_STORE_INVALID',
    message: `the store ${layout.directory} cannot be used: a folder there cannot be made, or is gone`,
  });
});

describe('what was unpacked', () => {
  /** In place of `sync`: leaves a line of its arguments. */
  async function syncIs(script: string): Promise<() => Promise<string>> {
    const log = join(directory, 'log');
    const bin = join(directory, 'bin');
    await mkdir(bin, { recursive: true });
    await writeFile(join(bin, 'sync'), `#!/bin/sh\necho "$@" >>${log}\n${script}\n`);
    await chmod(join(bin, 'sync'), 0o755);
    vi.stubEnv('PATH', `${bin}:${process.env.PATH}`);
    return () => readFile(log, 'utf8').catch(() => '');
  }
  const durable = async (id: Digest): Promise<unknown> =>
    ((await recordOf(id, folder)) as { durable: boolean }).durable;

  it('is brought to the disk once, with the file system of the store', async () => {
    const log = await syncIs('exit 0');
    const one = await layer({ path: 'f' });
    const two = await layer({ path: 'g' });
    await unpacker.all([one], folder, transfer);
    await unpacker.all([two], folder, transfer);
    await unpacker.all([one, two], folder, transfer);
    await unpacker.close();
    await unpacker.close();
    expect(await log()).toBe(`-f ${layout.directory}\n`.repeat(2));
    expect([await durable(one.diffId), await durable(two.diffId)]).toEqual([true, true]);
    expect(await readdir(at(one.diffId, folder))).toEqual(['layer.json', 'root']);
  });

  it('is not taken for durable where that failed, or cannot be done', async () => {
    await syncIs('exit 1');
    const two = await layer({ path: 'g' });
    await unpacker.all([two], folder, transfer);
    await unpacker.close();
    expect(await durable(two.diffId)).toBe(false);
    const three = await layer({ path: 'h' });
    await unpacker.layer(three, folder, transfer);
    vi.stubEnv('PATH', join(directory, 'none'));
    await unpacker.close();
    expect(await durable(three.diffId)).toBe(false);
  });

  it('and was pruned meanwhile does not come back', async () => {
    const one = await layer({ path: 'f' });
    await unpacker.layer(one, folder, transfer);
    await rm(layout.layers, { recursive: true });
    await unpacker.close();
    await expect(stat(layout.layers)).rejects.toMatchObject({ code: 'ENOENT' });
  });
});

it('what is below the topmost opaque root is not seen, and what has no record hides nothing', async () => {
  const opaque = { path: '.wh..wh..opq' };
  const layers = [
    await layer({ path: 'a' }),
    await layer(opaque, { path: 'b' }),
    await layer(opaque, { path: 'c' }),
    await layer({ path: 'd/.wh..wh..opq' }),
  ];
  const lowers = layers.map(({ diffId }) => below(diffId, folder));
  expect(await unpacker.all(layers, folder, transfer)).toEqual(lowers.slice(2));
  expect(await unpacker.all(layers.slice(0, 2), folder, transfer)).toEqual(lowers.slice(1, 2));
  expect(await unpacker.all(layers.slice(0, 1), folder, transfer)).toEqual(lowers.slice(0, 1));
  expect(await visible(lowers)).toEqual(lowers.slice(2));
  // Until then records are written.
  await unpacker.close();
  await rm(join(dirname(lowers[2]?.path ?? ''), 'layer.json'));
  expect(await visible(lowers)).toEqual(lowers.slice(1));
  expect(await visible([])).toEqual([]);
});

it('removing is done with what is not there', async () => {
  const path = join(directory, 'folder');
  await mkdir(join(path, 'deep'), { recursive: true });
  await removeStubbornly(path);
  await removeStubbornly(path);
  expect(await readdir(directory)).not.toContain(basename(path));
});

describe('slots', () => {
  it('are as many as are given, served in the order of asking, and free again after a fault', async () => {
    const slots = new Slots(2);
    const ends: (() => void)[] = [];
    const begun: number[] = [];
    const work = [0, 1, 2, 3].map((index) =>
      slots.with(async () => {
        begun.push(index);
        await new Promise<void>((resolve) => ends.push(resolve));
        if (index === 1) throw new Error('fault');
        return index;
      }),
    );
    const outcome = Promise.allSettled(work);
    await settle();
    expect(begun).toEqual([0, 1]);
    ends[1]?.();
    await settle();
    expect(begun).toEqual([0, 1, 2]);
    ends[0]?.();
    await settle();
    expect(begun).toEqual([0, 1, 2, 3]);
    for (const end of ends) end();
    expect((await outcome).map(({ status }) => status)).toEqual([
      ...['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
    ]);
    // All are free, and no more than that.
    const again = [4, 5, 6].map((index) =>
      slots.with(async () => {
        begun.push(index);
        await new Promise<void>((resolve) => ends.push(resolve));
      }),
    );
    await settle();
    expect(begun).toEqual([0, 1, 2, 3, 4, 5]);
    ends[4]?.();
    ends[5]?.();
    await settle();
    ends[6]?.();
    await Promise.all(again);
  });

  /** All that goes on without waiting for anything outside has gone on. */
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
});
