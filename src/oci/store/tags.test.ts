import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { digestOf } from '../names/index.ts';
import type { Descriptor } from '../types.ts';
import { type Layout, openLayout } from './layout.ts';
import { filterTags, parseTag, readIndexFile, readTags, removeTag, writeTag } from './tags.ts';

const REF = 'org.opencontainers.image.ref.name';
const SPARSE = 'dev.skycap.sparse';
const mediaType = 'application/vnd.oci.image.manifest.v1+json';
const a: Descriptor = { mediaType, digest: digestOf('a'), size: 1 };
const b: Descriptor = { mediaType, digest: digestOf('b'), size: 2 };
const named = (descriptor: Descriptor, reference: string, more = {}): Descriptor => ({
  ...descriptor,
  annotations: { ...more, [REF]: reference },
});

let directory: string;
let layout: Layout;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-tags-'));
  layout = await openLayout(join(directory, 'store'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const write = (value: unknown): Promise<void> =>
  writeFile(layout.index, typeof value === 'string' ? value : JSON.stringify(value));
const written = async (): Promise<unknown> => JSON.parse(await readFile(layout.index, 'utf8'));
const manifests = async (): Promise<unknown> => ((await written()) as { manifests: unknown }).manifests;

describe('the names of a store', () => {
  it.each([
    ['rubbish', '{"manifests":'],
    ['null', 'null'],
    ['a list', '[{"manifests":[]}]'],
    ['no names', '{"schemaVersion":2}'],
    ['names that are no list', '{"manifests":{}}'],
    ['a key twice', '{"manifests":[],"manifests":[]}'],
  ])('cannot be read from %s', async (_what, text) => {
    await write(text);
    const fault = {
      code: 'OCI_STORE_INVALID',
      message: `${layout.index} is damaged`,
      hint: 'run `skycap image fsck --repair`; the blobs are kept, the names are lost',
      place: { file: layout.index },
    };
    await expect(readIndexFile(layout)).rejects.toMatchObject(fault);
    await expect(readTags(layout)).rejects.toMatchObject(fault);
    await expect(removeTag(layout, 'a')).rejects.toMatchObject(fault);
    expect(await readFile(layout.index, 'utf8')).toBe(text);
  });

  it('are read in their order, with and without a name, whole or not', async () => {
    const list = [
      named(a, 'a:1'),
      b,
      named(b, 'b:1', { [SPARSE]: 'true' }),
      named(b, 'b:2', { [SPARSE]: 'false' }),
    ];
    await write({ manifests: list });
    expect(await readTags(layout)).toEqual([
      { reference: 'a:1', descriptor: list[0], sparse: false },
      { reference: undefined, descriptor: list[1], sparse: false },
      { reference: 'b:1', descriptor: list[2], sparse: true },
      { reference: 'b:2', descriptor: list[3], sparse: false },
    ]);
  });

  it('say which of them is no descriptor', async () => {
    await write({ manifests: [a, { ...b, size: -1 }, 7] });
    await expect(readTags(layout)).rejects.toMatchObject({
      code: 'OCI_STORE_INVALID',
      message: `${layout.index} is damaged: manifests[1] is no descriptor`,
      hint: 'run `skycap image fsck --repair`; only this name is lost',
      place: { file: layout.index },
    });
    expect([parseTag(7), parseTag(null), parseTag({})]).toEqual([undefined, undefined, undefined]);
  });
});

describe('a name that is given', () => {
  const tag = (reference: string, descriptor: Descriptor, sparse = false): Promise<void> =>
    writeTag(layout, { reference, descriptor, sparse });

  it('comes last, with what counts of its descriptor, and all else stays', async () => {
    const strange = [7, null, { annotations: 'none' }, { annotations: { [REF]: 7 } }, 'a:1'];
    await write({ schemaVersion: 2, extra: { kept: true }, manifests: [...strange, named(b, 'b:1')] });
    const annotations = { note: 'x', [REF]: 'other:1', [SPARSE]: 'true' };
    await tag('a:1', { ...a, annotations, platform: { os: 'linux', architecture: 'amd64' }, urls: ['x'] });
    expect(await written()).toEqual({
      schemaVersion: 2,
      extra: { kept: true },
      manifests: [...strange, named(b, 'b:1'), named(a, 'a:1', { note: 'x' })],
    });
    expect((await stat(layout.index)).mode & 0o777).toBe(0o644);
  });

  it('leads to something else from then on, and is there once', async () => {
    await write({ manifests: [named(a, 'a:1'), named(b, 'b:1'), named(b, 'a:1')] });
    await tag('a:1', b);
    expect(await manifests()).toEqual([named(b, 'b:1'), named(b, 'a:1')]);
    await tag('a:1', a);
    expect(await manifests()).toEqual([named(b, 'b:1'), named(a, 'a:1')]);
  });

  it('twice to the same is there once', async () => {
    await write({ manifests: [named(a, 'a:1'), named(a, 'a:1')] });
    await tag('a:1', a);
    expect(await manifests()).toEqual([named(a, 'a:1')]);
  });

  it('to something incomplete says so, until it is complete', async () => {
    await tag('a:1', a, true);
    expect(await manifests()).toEqual([named(a, 'a:1', { [SPARSE]: 'true' })]);
    expect(await readTags(layout)).toMatchObject([{ reference: 'a:1', sparse: true }]);
    await tag('a:1', a);
    expect(await manifests()).toEqual([named(a, 'a:1')]);
  });

  it('as it is there already is not written', async () => {
    await tag('b:1', b);
    await tag('a:1', a);
    await tag('c:1', a);
    await chmod(layout.index, 0o600);
    await tag('a:1', a);
    expect((await stat(layout.index)).mode & 0o777).toBe(0o600);
    expect(await manifests()).toEqual([named(b, 'b:1'), named(a, 'a:1'), named(a, 'c:1')]);
  });
});

describe('a name that is taken', () => {
  it('is gone wherever it stands, and the others stay', async () => {
    await write({ manifests: [named(a, 'a:1'), 7, named(b, 'b:1'), named(b, 'a:1')] });
    expect(await removeTag(layout, 'a:1')).toBe(true);
    expect(await manifests()).toEqual([7, named(b, 'b:1')]);
    await chmod(layout.index, 0o600);
    expect(await removeTag(layout, 'a:1')).toBe(false);
    expect((await stat(layout.index)).mode & 0o777).toBe(0o600);
  });

  it('may be any entry', async () => {
    await write({ manifests: [named(a, 'a:1'), 7, b] });
    await filterTags(layout, (item) => item === 7);
    expect(await manifests()).toEqual([7]);
  });
});
