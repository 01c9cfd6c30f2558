import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { digestOf } from '../names/index.ts';
import { EMPTY_INDEX, Layout, makeFolders, openLayout, readPlainFile } from './layout.ts';

const FOLDERS = ['blobs', 'ingest', 'layers', 'leases', 'locks', 'trash'];
const FILES = ['index.json', 'oci-layout', 'skycap-store.json'];
const hex = 'a'.repeat(64);

let directory: string;
const at = (...parts: string[]): string => join(directory, 'store', ...parts);
const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-layout-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

describe('a store', () => {
  it('that is new has folders of its own, and files that other programs may read', async () => {
    await openLayout(at());
    expect(await readdir(at())).toEqual([...FOLDERS, ...FILES].toSorted());
    expect(await readdir(at('blobs'))).toEqual(['sha256']);
    for (const folder of [...FOLDERS, '', 'blobs/sha256']) expect(await modeOf(at(folder))).toBe(0o700);
    expect(await modeOf(at('index.json'))).toBe(0o644);
    expect(await modeOf(at('oci-layout'))).toBe(0o644);
    expect(await readFile(at('oci-layout'), 'utf8')).toBe('{"imageLayoutVersion":"1.0.0"}');
    expect(await readFile(at('index.json'), 'utf8')).toBe(EMPTY_INDEX);
    expect(JSON.parse(EMPTY_INDEX)).toEqual({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.index.v1+json',
      manifests: [],
    });
    expect(await readFile(at('skycap-store.json'), 'utf8')).toBe('{"version":1}');
  });

  it('that is whole is opened as it is', async () => {
    await openLayout(at());
    await rm(at('trash'), { recursive: true });
    await rm(at('index.json'));
    expect((await openLayout(at())).directory).toBe(at());
    expect(await readdir(at())).toEqual(
      [...FOLDERS, ...FILES].filter((name) => !/^(trash|index)/.test(name)).toSorted(),
    );
  });

  it('is made of an image layout of others, whose names and blobs stay', async () => {
    await mkdir(at('blobs', 'sha256'), { recursive: true });
    await writeFile(at('oci-layout'), '{ "imageLayoutVersion": "1.0.0" }');
    await writeFile(at('index.json'), '{"schemaVersion":2,"manifests":[]}');
    await writeFile(at('README'), 'x');
    await openLayout(at());
    expect(await readdir(at())).toEqual(['README', ...FOLDERS, ...FILES].toSorted());
    expect(await readFile(at('oci-layout'), 'utf8')).toBe('{ "imageLayoutVersion": "1.0.0" }');
    expect(await readFile(at('index.json'), 'utf8')).toBe('{"schemaVersion":2,"manifests":[]}');
  });

  it('whose mark as an image layout is gone gets it again', async () => {
    await openLayout(at());
    await rm(at('oci-layout'));
    await openLayout(at());
    expect(await readdir(at())).toEqual([...FOLDERS, ...FILES].toSorted());
  });

  it.each([...FOLDERS, 'index.json', '.index.json.7.ab.tmp', '.tmp.tmp'])(
    'is made on with where only its own %s is there',
    async (name) => {
      await mkdir(at());
      if (FOLDERS.includes(name)) await mkdir(at(name));
      else await writeFile(at(name), EMPTY_INDEX);
      await openLayout(at());
      expect(await readdir(at())).toEqual(expect.arrayContaining([...FOLDERS, ...FILES]));
    },
  );

  it.each([
    'blobsx',
    'xblobs',
    'index_json',
    'index.jsonx',
    'skycap-store_json',
    'a.tmp',
    '.a.tmpx',
    '.a_tmp',
    'x.a.tmp',
  ])('is not made where something else is: %s', async (name) => {
    await mkdir(at('blobs'), { recursive: true });
    await writeFile(at(name), '');
    await expect(openLayout(at())).rejects.toMatchObject({
      code: 'OCI_STORE_INVALID',
      message: `${at()} is no store, and not empty (${name})`,
      hint: expect.stringMatching(/^name a folder of your own: .*SKYCAP_STORE_DIRECTORY$/),
      place: { file: at() },
    });
    expect(await readdir(at())).toEqual(['blobs', name].toSorted());
  });

  it('is not made where a file stands, or a folder in place of its files', async () => {
    await writeFile(at(), '');
    await expect(openLayout(at())).rejects.toMatchObject({
      code: 'OCI_STORE_INVALID',
      message: `the store ${at()} cannot be used: a file stands where a folder belongs`,
    });
    await rm(at());
    for (const name of ['oci-layout', 'skycap-store.json']) {
      await mkdir(at(name), { recursive: true });
      await expect(openLayout(at())).rejects.toMatchObject({
        code: 'OCI_STORE_INVALID',
        message: `the store ${at()} cannot be used: a folder stands where a file belongs`,
        place: { file: at(name) },
      });
      await rm(at(name), { recursive: true });
    }
  });

  it.each([
    [
      'oci-layout',
      '{"imageLayoutVersion":"1.0"}',
      'is not an OCI image layout of version 1.0.0',
      /^name a folder/,
    ],
    ['oci-layout', 'null', 'is not an OCI image layout of version 1.0.0', /^name a folder/],
    [
      'skycap-store.json',
      '{"version":"1"}',
      'was made by another version of Skycap (store version 1)',
      /^use that version/,
    ],
    [
      'skycap-store.json',
      '{}',
      'was made by another version of Skycap (store version undefined)',
      /^use that version/,
    ],
  ])('of another %s is refused: %s', async (name, text, message, hint) => {
    await mkdir(at());
    await writeFile(at(name), text);
    await expect(openLayout(at())).rejects.toMatchObject({
      code: 'OCI_STORE_INVALID',
      message: `${at()} ${message}`,
      hint: expect.stringMatching(hint),
      place: { file: at(name) },
    });
    expect(await readdir(at())).toEqual([name]);
  });

  it('gets folders that are gone, and keeps those that are there', async () => {
    const layout = await openLayout(at());
    await writeFile(at('leases', 'x'), '');
    for (const folder of ['blobs', 'trash', 'locks']) await rm(at(folder), { recursive: true });
    await makeFolders(layout);
    expect(await readdir(at())).toEqual([...FOLDERS, ...FILES].toSorted());
    expect(await readdir(at('leases'))).toEqual(['x']);
  });
});

describe('a name in the folder of what comes in', () => {
  const layout = new Layout('/s');

  it.each(['sha256', 'sha512'] as const)('says whose it is: %s', (algorithm) => {
    const digest = digestOf('x', algorithm);
    expect(layout.partialDigest(layout.partial(digest).slice('/s/ingest/'.length))).toBe(digest);
  });

  it.each([
    'spool-1',
    `sha256-${hex}.parts`,
    `sha256-${hex.slice(1)}.parta`,
    `sha256-${hex}.part.part`,
    hex,
    'x.part',
  ])('or that it is none: %s', (name) => expect(layout.partialDigest(name)).toBeUndefined());
});

describe('a small file', () => {
  it('is read up to 64 MiB', async () => {
    const path = join(directory, 'file');
    await writeFile(path, '');
    await truncate(path, 64 * 2 ** 20);
    expect(await readPlainFile(path)).toHaveLength(64 * 2 ** 20);
    await truncate(path, 64 * 2 ** 20 + 1);
    const fault = { code: 'EISDIR', path, message: `${path} is no plain file` };
    await expect(readPlainFile(path)).rejects.toMatchObject(fault);
  });

  it('that is none is not waited for', async () => {
    const path = join(directory, 'fifo');
    execFileSync('mkfifo', [path]);
    const open = async (): Promise<number> => (await readdir('/proc/self/fd')).length;
    const before = await open();
    for (let index = 0; index < 20; index++)
      await expect(readPlainFile(path)).rejects.toMatchObject({ code: 'EISDIR', path });
    expect(await open()).toBeLessThan(before + 10);
  });
});
