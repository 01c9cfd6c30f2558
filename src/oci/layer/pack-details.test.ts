import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inPieces, tarOf } from '../../testkit/images/index.ts';
import { file } from '../../testkit/layers/index.ts';
import { digestOf } from '../names/index.ts';
import type { TarEntry } from './entry.ts';
import { compressLayer, normaliseTar, type PackOptions, packFiles, packFolder } from './pack.ts';
import { readTar } from './reader.ts';
import { encodeEntry, endOfArchive, padding } from './writer.ts';

async function joined(parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const part of parts) all.push(part);
  return Buffer.concat(all);
}

const archive = (...entries: readonly (readonly [TarEntry, string?])[]): Buffer =>
  Buffer.concat([
    ...entries.flatMap(([entry, body = '']) => [encodeEntry(entry), Buffer.from(body), padding(entry.size)]),
    endOfArchive(),
  ]);

describe('an archive is made equal to others of the same tree', () => {
  const plain = (path: string, change: Partial<TarEntry> = {}): TarEntry =>
    file(path, { size: 0, mtime: { seconds: 4, nanos: 0 }, ...change });
  const normal = async (entries: readonly TarEntry[], options?: PackOptions): Promise<Buffer> =>
    await joined(normaliseTar(inPieces(archive(...entries.map((one) => [one] as const))), options));

  it('by names without dots and slashes around them, and whole seconds', async () => {
    const made = await normal([
      plain('./', { type: 'directory' }),
      plain('./a/', { type: 'directory', mtime: { seconds: 4, nanos: 7 } }),
      plain('/b'),
      plain('.//./c'),
      plain('.d'),
      plain('e/./f'),
      plain('./h', { type: 'link', linkPath: './/a/./f' }),
      plain('l', { type: 'symlink', linkPath: './a' }),
    ]);
    const wanted = archive(
      [plain('a', { type: 'directory' })],
      [plain('b')],
      [plain('c')],
      [plain('.d')],
      [plain('e/./f')],
      [plain('h', { type: 'link', linkPath: 'a/./f' })],
      [plain('l', { type: 'symlink', linkPath: './a' })],
    );
    expect(made.equals(wanted)).toBe(true);
  });

  it.each(['./', '.', '/', './/'])(
    'with an entry for the root (%j) only where it is asked for',
    async (root) => {
      const entries = [plain(root, { type: 'directory' }), plain('f')];
      expect((await normal(entries)).equals(archive([plain('f')]))).toBe(true);
      const wanted = archive([plain('.', { type: 'directory' })], [plain('f')]);
      expect((await normal(entries, { root: true })).equals(wanted)).toBe(true);
    },
  );

  it('with bodies as they are', async () => {
    const body = 'x'.repeat(1500);
    const whole = archive([plain('f', { size: 1500 }), body], [plain('g')]);
    expect((await joined(normaliseTar(inPieces(whole)))).equals(whole)).toBe(true);
  });

  it('with no time later than the one that is given', async () => {
    const at = async (seconds: number, nanos = 0): Promise<unknown> => {
      const made = await normal([plain('f', { mtime: { seconds, nanos } })], { maxTime: 100 });
      for await (const { entry } of readTar(inPieces(made))) return entry.mtime;
      return undefined;
    };
    expect([await at(99), await at(99, 9), await at(100, 9), await at(101)]).toEqual([
      { seconds: 99, nanos: 0 },
      { seconds: 99, nanos: 0 },
      { seconds: 100, nanos: 0 },
      { seconds: 100, nanos: 0 },
    ]);
  });
});

it('files of memory are packed with the folders on their way', async () => {
  const zero = { uid: 0, gid: 0, mtime: { seconds: 0, nanos: 0 } };
  const made = packFiles([
    { path: '/a//b/f', content: 'hello' },
    { path: 'a/g', content: new Uint8Array([1, 2]), mode: 0o600, uid: 5, gid: 6 },
    { path: 'ä/l', type: 'symlink', linkPath: 'ö' },
    { path: 'd', type: 'directory' },
    { path: 'd/e/', type: 'directory', mode: 0o700 },
    { path: 'd/e/f' },
  ]);
  const folder = { ...zero, type: 'directory', mode: 0o755, size: 0 } as const;
  const wanted = archive(
    [file('a', folder)],
    [file('a/b', folder)],
    [file('a/b/f', { ...zero, mode: 0o644, size: 5 }), 'hello'],
    [file('a/g', { ...zero, mode: 0o600, uid: 5, gid: 6, size: 2 }), '\x01\x02'],
    [file('\xc3\xa4', folder)],
    [file('\xc3\xa4/l', { ...zero, type: 'symlink', mode: 0o644, size: 0, linkPath: '\xc3\xb6' })],
    [file('d', folder)],
    [file('d/e', { ...folder, mode: 0o700 })],
    [file('d/e/f', { ...zero, mode: 0o644, size: 0 })],
  );
  expect((await joined(made)).equals(wanted)).toBe(true);
});

describe('a layer is packed', () => {
  const tar = tarOf([{ path: 'f', content: 'x'.repeat(3000) }]);

  it.each<['none' | 'gzip' | 'zstd', string, (bytes: Buffer) => Buffer]>([
    ['none', 'application/vnd.oci.image.layer.v1.tar', (bytes) => bytes],
    ['gzip', 'application/vnd.oci.image.layer.v1.tar+gzip', (bytes) => gunzipSync(bytes)],
    ['zstd', 'application/vnd.oci.image.layer.v1.tar+zstd', (bytes) => zstdDecompressSync(bytes)],
  ])('as %s, named so, with the digest of the archive', async (kind, mediaType, open) => {
    const packed = compressLayer(inPieces(tar), kind);
    expect(packed.mediaType).toBe(mediaType);
    expect(open(await joined(packed.bytes)).equals(tar)).toBe(true);
    expect(packed.diffId()).toBe(digestOf(tar));
  });

  it.each(['none', 'gzip', 'zstd'] as const)('as %s, and hands on what the source throws', async (kind) => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield tar;
      throw new TypeError('from the source');
    }
    await expect(joined(compressLayer(broken(), kind).bytes)).rejects.toThrow('from the source');
  });
});

describe('a folder is read by tar', () => {
  const path = process.env.PATH;
  let programs: string;
  beforeEach(async () => {
    programs = await mkdtemp(join(tmpdir(), 'skycap-pack-'));
  });
  afterEach(async () => {
    process.env.PATH = path;
    await rm(programs, { recursive: true, force: true });
  });

  async function tarIs(script: string): Promise<void> {
    await writeFile(join(programs, 'archive'), tarOf([{ path: './f', content: 'hello' }]));
    await writeFile(join(programs, 'tar'), `#!/bin/sh\ncd "\${0%/*}"\n${script}\n`);
    await chmod(join(programs, 'tar'), 0o755);
    process.env.PATH = `${programs}:${path ?? ''}`;
  }

  it('with options that make equal trees equal', async () => {
    await tarIs(`printf '%s\\n' "$@" > args; env > environment; cat archive`);
    const packed = await joined(packFolder('/some/folder'));
    expect(
      packed.equals(await joined(normaliseTar(inPieces(await readFile(join(programs, 'archive')))))),
    ).toBe(true);
    expect((await readFile(join(programs, 'args'), 'utf8')).trim().split('\n')).toEqual([
      '--create',
      '--file=-',
      '--format=posix',
      '--sort=name',
      '--numeric-owner',
      '--xattrs',
      '--xattrs-include=*',
      '--no-acls',
      '--no-selinux',
      '--blocking-factor=256',
      '--directory',
      '/some/folder',
      '.',
    ]);
    expect(await readFile(join(programs, 'environment'), 'utf8')).toContain('LC_ALL=C\n');
  });

  const failure = async (): Promise<unknown> =>
    await joined(packFolder('/some/folder')).then(
      () => 'packed',
      (error: unknown) => error,
    );

  it('and where that fails, its first words are told', async () => {
    await tarIs(`cat archive; echo 'tar: f: file changed as we read it' >&2; echo more >&2; exit 1`);
    expect(await failure()).toMatchObject({
      code: 'OCI_LAYER_WRITE',
      message: '/some/folder could not be read whole: tar: f: file changed as we read it',
      hint: 'nothing may change the folder while it is packed',
    });
    await tarIs('cat archive; exit 1');
    expect(await failure()).toMatchObject({ message: '/some/folder could not be read whole: ' });
  });

  it('what is no archive is refused as that', async () => {
    await tarIs('head -c 300 archive; exit 1');
    expect(await failure()).toMatchObject({ code: 'OCI_LAYER_INVALID' });
  });

  it('a tar that is ended by what nobody reads any more has done its work', async () => {
    await tarIs('cat archive; kill -PIPE $$');
    expect(await failure()).toBe('packed');
    await tarIs('cat archive; kill -TERM $$');
    expect(await failure()).toMatchObject({ code: 'OCI_LAYER_WRITE' });
  });

  it('and one that is not there is asked for', async () => {
    process.env.PATH = programs;
    expect(await failure()).toMatchObject({
      code: 'PROGRAM_MISSING',
      message: 'the program tar is not installed or cannot be executed',
      hint: 'install tar, and see that it is in PATH',
    });
  });
});
