import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { file as other } from '../../testkit/layers/index.ts';
import type { TarEntry } from './entry.ts';
import { GnuTarSink, type LayerSink, NodeSink, PlainSink, plainMode } from './index.ts';
import { openSink } from './open-sink.ts';

const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
const file = (path: string, change: Partial<TarEntry> = {}): TarEntry =>
  other(path, { ...own, size: 0, mtime: { seconds: 5, nanos: 0 }, ...change });

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'skycap-sinks-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

async function put(sink: LayerSink, entry: TarEntry, ...parts: string[]): Promise<void> {
  const left = parts.map((part) => Buffer.from(part));
  await sink.put(entry, async () => left.shift());
}
const at = async (path: string): Promise<readonly [number, number]> => {
  const { mode, mtimeMs } = await lstat(join(root, path));
  return [mode & 0o7777, mtimeMs];
};
const said = async (work: Promise<unknown>): Promise<object> =>
  await work.then(
    () => expect.fail('it did not fail'),
    (error: Error & { code?: string }) => ({ code: error.code, message: error.message }),
  );

describe('our own writer', () => {
  it('makes files, folders, links and pipes with what their entries say', async () => {
    const sink = new NodeSink(root);
    await put(sink, file('.', { type: 'directory', mode: 0o711 }));
    await put(sink, file('d', { type: 'directory', mode: 0o750 }));
    await put(sink, file('d/e', { type: 'directory', mode: 0o500 }));
    await put(sink, file('d/e/f', { size: 5, mode: 0o4640 }), 'he', 'llo');
    await put(sink, file('h', { type: 'link', linkPath: 'd/e/f' }));
    await put(sink, file('l', { type: 'symlink', linkPath: 'd/\xc3\xa4' }));
    await put(sink, file('p', { type: 'fifo', mode: 0o600 }));
    // Told of again, as after what is in it.
    await put(sink, file('d', { type: 'directory', mode: 0o755, mtime: { seconds: 6, nanos: 0 } }));
    expect((await lstat(join(root, 'd'))).mode & 0o777).toBe(0o700);
    await sink.finish();
    expect(await readFile(join(root, 'd/e/f'), 'utf8')).toBe('hello');
    expect((await lstat(join(root, 'h'))).ino).toBe((await lstat(join(root, 'd/e/f'))).ino);
    expect(await readlink(join(root, 'l'))).toBe('d/ä');
    expect((await lstat(join(root, 'p'))).isFIFO()).toBe(true);
    expect(await Promise.all(['.', 'd', 'd/e', 'd/e/f', 'p'].map(at))).toEqual([
      [0o711, 5000],
      [0o755, 6000],
      [0o500, 5000],
      [0o4640, 5000],
      [0o600, 5000],
    ]);
    expect((await at('l'))[1]).toBe(5000);
    await chmod(join(root, 'd/e'), 0o700);
  });

  it('gives other attributes at once', async () => {
    const sink = new NodeSink(root);
    await put(sink, file('f', { mode: 0o600 }));
    await sink.restamp(file('f', { mode: 0o640, mtime: { seconds: 7, nanos: 0 } }));
    expect(await at('f')).toEqual([0o640, 7000]);
    await sink.abort();
    expect(await readdir(root)).toEqual(['f']);
  });

  it('says what could not be written', async () => {
    const sink = new NodeSink(root);
    await put(sink, file('f'));
    expect(await said(put(sink, file('f')))).toMatchObject({
      code: 'OCI_LAYER_WRITE',
      message: expect.stringMatching(/^"f" could not be written: EEXIST/),
    });
    expect(await said(put(sink, file('none/f')))).toMatchObject({ code: 'OCI_LAYER_WRITE' });
  });

  it('makes devices by mknod', async () => {
    const path = process.env.PATH;
    const programs = join(root, 'programs');
    await mkdir(programs);
    await writeFile(
      join(programs, 'mknod'),
      `#!/bin/sh\n: > "$1"\nprintf '%s\\n' "$*" >> "\${0%/*}/calls"\n`,
    );
    await chmod(join(programs, 'mknod'), 0o755);
    process.env.PATH = `${programs}:${path ?? ''}`;
    try {
      const sink = new NodeSink(root);
      await put(sink, file('c', { type: 'char', devMajor: 1, devMinor: 3 }));
      await put(sink, file('b', { type: 'block', devMajor: 7, devMinor: 200, mode: 0o660 }));
      await put(sink, file('p', { type: 'fifo' }));
    } finally {
      process.env.PATH = path;
    }
    expect((await readFile(join(programs, 'calls'), 'utf8')).trim().split('\n')).toEqual([
      `${root}/c c 1 3`,
      `${root}/b b 7 200`,
      `${root}/p p`,
    ]);
    expect(await at('b')).toEqual([0o660, 5000]);
  });
});

describe('the writer of an ordinary user', () => {
  it.each([
    ['file', 0o4000, 0o600],
    ['file', 0o777, 0o777],
    ['file', 0o044, 0o644],
    ['directory', 0o1000, 0o700],
    ['directory', 0o055, 0o755],
  ] as const)('opens a %s of mode %o to that user', (type, mode, plain) => {
    expect(plainMode({ type, mode })).toBe(plain);
  });

  it('makes files, folders and links, and nothing else', async () => {
    const sink = new PlainSink(root);
    await put(sink, file('.', { type: 'directory', mode: 0 }));
    await put(sink, file('', { type: 'directory', mode: 0 }));
    await put(sink, file('d', { type: 'directory', mode: 0o050 }));
    await put(sink, file('d/f', { size: 5, mode: 0o4040 }), 'hel', 'lo');
    await put(sink, file('early', { mtime: { seconds: -5, nanos: 0 } }));
    await put(sink, file('h', { type: 'link', linkPath: 'd/f' }));
    await put(sink, file('l', { type: 'symlink', linkPath: 'd/\xc3\xa4' }));
    await put(sink, file('hl', { type: 'link', linkPath: 'l' }));
    for (const type of ['char', 'block', 'fifo'] as const) await put(sink, file(type, { type }));
    await put(sink, file('hc', { type: 'link', linkPath: 'char' }));
    await put(sink, file('d', { type: 'directory', mode: 0o005 }));
    await sink.restamp();
    await sink.finish();
    await sink.abort();
    expect((await readdir(root)).toSorted()).toEqual(['d', 'early', 'h', 'hl', 'l']);
    expect(await readFile(join(root, 'h'), 'utf8')).toBe('hello');
    expect(await readlink(join(root, 'hl'))).toBe('d/ä');
    expect([await at('d/f'), await at('early'), (await at('d'))[0]]).toEqual([
      [0o640, 5000],
      [0o640, 0],
      0o705,
    ]);
    expect((await at('.'))[0]).toBe(0o700);
  });

  it('says what could not be written', async () => {
    const sink = new PlainSink(root);
    await put(sink, file('f'));
    expect(await said(put(sink, file('f')))).toMatchObject({
      code: 'OCI_LAYER_WRITE',
      message: expect.stringMatching(/^"f" could not be written: EEXIST/),
    });
  });
});

it('GNU tar writes where it is there', async () => {
  const sink = await openSink(root);
  await sink.abort();
  expect(sink).toBeInstanceOf(GnuTarSink);
});
