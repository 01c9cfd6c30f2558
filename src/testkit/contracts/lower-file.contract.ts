import { lstat, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { buildImage } from '../../oci/image/index.ts';
import { ErofsReader } from '../../oci/layer/index.ts';
import type { Lower } from '../../oci/port.ts';
import { openStore } from '../../oci/store/index.ts';
import { inPieces, recordingTransfer, type TarFile, tarOf } from '../images/index.ts';
import { codeOf } from './store.contract.ts';

const platform = { os: 'linux', architecture: 'amd64' };
const dir = (path: string): TarFile => ({ path, type: 'directory' });
const sym = (path: string, linkPath: string): TarFile => ({ path, type: 'symlink', linkPath });
const file = (path: string, content = path): TarFile => ({ path, content });

/** The file `f` below the folder `d`, outside every root. */
let outside: string;
let directory: string;

/** Everything about a folder, and when its files were read. */
async function snapshot(folder: string): Promise<readonly string[]> {
  const names = (await readdir(folder, { recursive: true })).toSorted();
  return await Promise.all(
    ['', ...names].map(async (name) => {
      const stat = await lstat(join(folder, name));
      const { mode, uid, nlink, size, mtimeMs, ctimeMs } = stat;
      // This very look reads the folders.
      return [name, mode, uid, nlink, size, mtimeMs, ctimeMs, stat.isFile() && stat.atimeMs].join(' ');
    }),
  );
}

async function contentOf(lower: Lower | undefined, path: string): Promise<string> {
  if (lower?.kind !== 'erofs') return await readFile(join(lower?.path ?? '', path), 'utf8');
  await using reader = await ErofsReader.open(lower.path);
  const inode = await reader.find(path);
  const parts: Buffer[] = [];
  if (inode !== undefined) for await (const part of reader.body(inode)) parts.push(part);
  return Buffer.concat(parts).toString();
}

/** A hard link `h` of the topmost layer to `target`. */
async function linked(
  below: readonly (readonly TarFile[])[],
  target: string,
  form: Lower['kind'],
): Promise<string> {
  const transfer = recordingTransfer();
  await using store = await openStore({ directory: join(directory, 'store') });
  const layers = [...below, [{ path: 'h', type: 'link' as const, linkPath: target }]].map((files) => ({
    tar: inPieces(tarOf(files, { raw: true })),
  }));
  const options = { layers, config: {}, platform, reference: 'localhost/a:1' };
  const image = await buildImage(store, options, transfer);
  const lowers = store.lowers(image, undefined, { ...transfer, form });
  const code = await codeOf(lowers);
  if (code !== 'done') return code;
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
  return await contentOf((await lowers).at(-1), 'h');
}

/** What a hard link into the layers below finds, whatever links they hold. */
export function findsInLayers(reader: string): void {
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'skycap-lower-'));
    outside = join(directory, 'outside');
    await mkdir(join(outside, 'd'), { recursive: true });
    await writeFile(join(outside, 'd/f'), 'secret');
    // Read once more, it would get a newer one than its last change (relatime).
    await utimes(join(outside, 'd/f'), 0, new Date());
  });
  afterEach(async () => {
    await rm(directory, { recursive: true, force: true });
  });

  const UNSAFE = 'OCI_LAYER_UNSAFE';
  const cases: readonly (readonly [string, () => readonly (readonly TarFile[])[], string, string])[] = [
    [
      'a link out, below a folder of its name',
      () => [[sym('a', join(outside, 'd'))], [dir('a')]],
      'a/f',
      UNSAFE,
    ],
    ['the same, deeper', () => [[sym('x/a', outside)], [dir('x/a/d')]], 'x/a/d/f', UNSAFE],
    ['the same, two folders deep', () => [[sym('a', outside)], [dir('a/d')]], 'a/d/f', UNSAFE],
    [
      'the same by a link of another layer',
      () => [[sym('a', outside)], [dir('a'), sym('b', 'a')]],
      'b/d/f',
      UNSAFE,
    ],
    [
      'a link out between two folders',
      () => [[file('a/f', 'hidden')], [sym('a', join(outside, 'd'))], [dir('a')]],
      'a/f',
      UNSAFE,
    ],
    [
      'a link inside, below a folder of its name',
      () => [[file('d/f'), sym('a', 'd')], [dir('a')]],
      'a/f',
      UNSAFE,
    ],
    ['a file below a folder of its name', () => [[file('a')], [dir('a')]], 'a/f', UNSAFE],
    ['a folder below a file below a folder', () => [[file('a/f')], [file('a')], [dir('a')]], 'a/f', UNSAFE],
    [
      'a folder that was deleted and made again',
      () => [[file('a/f')], [{ path: '.wh.a' }, dir('a')]],
      'a/f',
      UNSAFE,
    ],
    [
      'a folder below an opaque root',
      () => [[file('a/f')], [dir('a'), { path: '.wh..wh..opq' }]],
      'a/f',
      UNSAFE,
    ],
    ['a link out alone', () => [[sym('a', join(outside, 'd'))]], 'a/f', UNSAFE],
    [
      'folders of several layers',
      () => [[file('a/b/f', 'lowest')], [file('a/b/g')], [dir('a')]],
      'a/b/f',
      'lowest',
    ],
    ['the topmost of two files', () => [[file('a/f', 'lower')], [file('a/f', 'upper')]], 'a/f', 'upper'],
    ['a link to a folder', () => [[file('d/f')], [sym('a', '/d')]], 'a/f', 'd/f'],
    ['a link with ..', () => [[file('d/f')], [sym('x/a', '../../d/../d')]], 'x/a/f', 'd/f'],
    ['a folder made of a link', () => [[file('d/f'), sym('a', 'd')], [file('a/f', 'new')]], 'a/f', 'new'],
    ['names that are no UTF-8', () => [[file('\xff/\xfe', 'bytes')], [dir('\xff')]], '\xff/\xfe', 'bytes'],
  ];
  describe.each(['folder', 'erofs'] as const)(`a hard link, read by ${reader}, %s`, (form) => {
    it.each(cases)(
      'L14 finds no more than the container would see: %s',
      async (_what, below, target, found) => {
        const before = await snapshot(outside);
        expect(await linked(below(), target, form)).toBe(found);
        expect(await snapshot(outside)).toEqual(before);
      },
    );
  });
}
