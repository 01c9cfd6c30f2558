import { execFileSync } from 'node:child_process';
import { lstat, mkdir, mkdtemp, readlink, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { kernelError } from '../../kernel/index.ts';
import { codeFrom } from '../../testkit/coded.ts';
import { lacking } from '../../testkit/programs.ts';
import type { TarEntry } from './entry.ts';
import { decodePax, encodePax, formatPaxTime, parsePaxNumber, parsePaxTime } from './pax.ts';
import { readFileByNode } from './read-file.ts';
import { isRoot, pathIn, runOn, shellWord, writeAttributes, writeFault } from './write-attributes.ts';

const bytes = (text: string): Buffer => Buffer.from(text, 'latin1');

describe('PAX records', () => {
  const decoded = (body: string): string[] =>
    [...decodePax(bytes(body))].map(([key, value]) => `${key}=${value.toString('latin1')}`);

  it.each<[string, string[]]>([
    ['', []],
    ['6 a=b\n', ['a=b']],
    ['5 a=\n', ['a=']],
    ['8 a=b=c\n', ['a=b=c']],
    ['7 a=\n\n\n6 a=b\n', ['a=b']],
    ['7 a b=\n', ['a b=']],
    [
      '23 GNU.sparse.offset=0\n25 GNU.sparse.numbytes=5\n23 GNU.sparse.offset=9\n25 GNU.sparse.numbytes=1\n',
      ['GNU.sparse.map=0,5,9,1'],
    ],
  ])('%j are %j', (body, wanted) => {
    expect(decoded(body)).toEqual(wanted);
  });

  it.each<[string, RegExp]>([
    ['6 a=b', /a PAX record is malformed/],
    ['7 a=b\n', /a PAX record is malformed/],
    ['5 a=b\n', /a PAX record is malformed/],
    ['06 a=b\n', /a PAX record is malformed/],
    ['0 a=b\n', /a PAX record is malformed/],
    ['x a=b\n', /a PAX record is malformed/],
    ['a=b\n', /a PAX record is malformed/],
    [' 6 a=b\n', /a PAX record is malformed/],
    ['6x a=b\n', /a PAX record is malformed/],
    ['1000000000006 a=b\n', /a PAX record is malformed/],
    ['5 ab\n6 a=b\n', /a PAX record has no key/],
    ['5 abc\n', /a PAX record is malformed|a PAX record has no key/],
    ['5 =b\n', /a PAX record has no key/],
    ['7 a\0=b\n', /a PAX key holds a NUL/],
    ['25 GNU.sparse.numbytes=5\n', /a sparse map is malformed/],
    ['23 GNU.sparse.offset=0\n23 GNU.sparse.offset=9\n', /a sparse map is malformed/],
    ['25 GNU.sparse.offset=0,1\n', /a sparse map is malformed/],
  ])('%j are refused', (body, message) => {
    expect(() => decodePax(bytes(body))).toThrow(message);
    expect(() => decodePax(bytes(body))).toThrow(expect.objectContaining({ code: 'OCI_LAYER_INVALID' }));
  });

  it('of every length come back, sorted', () => {
    for (let length = 0; length < 1100; length += length < 120 ? 1 : 97) {
      const records = new Map([
        ['k2', Buffer.alloc(length, 'v')],
        ['k1', bytes('1')],
      ]);
      expect([...decodePax(encodePax(records))]).toEqual([...records].toReversed());
    }
  });

  it.each<[string, number, number]>([
    ['0', 0, 0],
    ['7', 7, 0],
    ['7.', 7, 0],
    ['7.5', 7, 500_000_000],
    ['7.000000001', 7, 1],
    ['7.1234567899', 7, 123_456_789],
    ['-7', -7, 0],
    ['-0.5', -1, 500_000_000],
    ['-7.25', -8, 750_000_000],
    ['999999999999999', 999_999_999_999_999, 0],
  ])('the time %s is %i s and %i ns', (text, seconds, nanos) => {
    expect(parsePaxTime(text)).toEqual({ seconds, nanos });
    expect(parsePaxTime(formatPaxTime({ seconds, nanos }))).toEqual({ seconds, nanos });
  });

  it('times are written as short as they are', () => {
    expect(formatPaxTime({ seconds: 7, nanos: 500_000_000 })).toBe('7.5');
    expect(formatPaxTime({ seconds: 0, nanos: 1 })).toBe('0.000000001');
    expect(formatPaxTime({ seconds: -1, nanos: 500_000_000 })).toBe('-0.5');
    expect(formatPaxTime({ seconds: -8, nanos: 750_000_000 })).toBe('-7.25');
    expect(formatPaxTime({ seconds: -8, nanos: 0 })).toBe('-8');
  });

  it.each(['', '-', '.5', '1e3', '--1', '1234567890123456', ' 1', '1 ', '1.2.3', '+1'])(
    'the time %j is refused',
    (text) => {
      expect(() => parsePaxTime(text)).toThrow('a PAX time is not a number');
    },
  );

  it('numbers are whole and safe', () => {
    expect([parsePaxNumber('0', 'size'), parsePaxNumber('9007199254740991', 'size')]).toEqual([
      0,
      2 ** 53 - 1,
    ]);
    for (const text of ['', '-1', '1.0', 'x1', '1x', '12345678901234567'])
      expect(() => parsePaxNumber(text, 'size'), text).toThrow('the PAX size is not a number');
    expect(() => parsePaxNumber('9007199254740992', 'uid')).toThrow('the PAX uid is out of range');
  });
});

describe('on the disk', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'skycap-parts-'));
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  const entry = (change: Partial<TarEntry>): TarEntry => ({
    path: 'f',
    type: 'file',
    mode: 0o640,
    uid: process.getuid?.() ?? 0,
    gid: process.getgid?.() ?? 0,
    size: 0,
    mtime: { seconds: 1000, nanos: 500_000_000 },
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
    ...change,
  });
  const read = async (path: string): Promise<readonly [TarEntry, string]> => {
    for await (const one of readFileByNode(root, path)) {
      const parts: Buffer[] = [];
      for await (const part of one.body) parts.push(part);
      return [one.entry, Buffer.concat(parts).toString('latin1')];
    }
    throw new Error('nothing was read');
  };

  const lacks = lacking('attributes of files', { setfattr: 'attr' });

  it.skipIf(lacks)('attributes are written, and read as they are', async () => {
    const name = "it's \xff";
    await writeFile(pathIn(root, name), 'content');
    const xattrs = new Map([
      ['user.a', bytes('\0=\n')],
      ['user.empty', Buffer.alloc(0)],
    ]);
    const wanted = entry({ path: name, size: 7, xattrs });
    await writeAttributes(root, wanted);
    expect(await read(name)).toEqual([wanted, 'content']);
    await writeAttributes(root, entry({ path: name, mtime: { seconds: -5, nanos: 0 } }));
    expect((await read(name))[0].mtime).toEqual({ seconds: -5, nanos: 0 });
  });

  it.skipIf(lacks)('each kind is read as itself, with no body but a file’s', async () => {
    await mkdir(join(root, 'd'), { mode: 0o750 });
    await symlink('d/\u00e4', join(root, 'l'));
    execFileSync('mkfifo', ['-m', '600', join(root, 'p')]);
    await utimes(join(root, 'd'), 5, 5);
    expect(await read('d')).toEqual([
      entry({ path: 'd', type: 'directory', mode: 0o750, mtime: { seconds: 5, nanos: 0 } }),
      '',
    ]);
    expect(await read('l')).toMatchObject([{ type: 'symlink', linkPath: 'd/\xc3\xa4', size: 0 }, '']);
    expect(await read('p')).toMatchObject([{ type: 'fifo', mode: 0o600, linkPath: '' }, '']);
  });

  it('a link gets its own time, and what it leads to keeps its mode', async () => {
    await writeFile(join(root, 'f'), '', { mode: 0o600 });
    await symlink('f', join(root, 'l'));
    await writeAttributes(root, entry({ path: 'l', type: 'symlink', mode: 0o777 }));
    expect((await lstat(join(root, 'l'))).mtimeMs).toBe(1_000_500);
    expect((await lstat(join(root, 'f'))).mode & 0o777).toBe(0o600);
    expect(await readlink(join(root, 'l'))).toBe('f');
  });

  it('a program that fails, or is not there, is said so', async () => {
    const failed = await runOn('false', []).catch((error: unknown) => error);
    expect([codeFrom(failed), (failed as Error).message]).toEqual([
      'OCI_LAYER_WRITE',
      'false failed with exit status 1',
    ]);
    const absent = await runOn('skycap-no-such-program', []).catch((error: unknown) => error);
    expect(codeFrom(absent)).toBe('PROGRAM_MISSING');
    expect(absent).toMatchObject({ hint: 'install GNU tar' });
    expect((absent as Error).message).toMatch(/^skycap-no-such-program is needed to unpack a layer/);
    const marks = join(root, "a'b");
    await runOn('touch', [bytes(marks), join(root, '$HOME')]);
    expect((await lstat(marks)).size + (await lstat(join(root, '$HOME'))).size).toBe(0);
  });

  it('a file whose attributes nobody can read is not given without them', async () => {
    await writeFile(join(root, 'f'), '');
    const path = process.env.PATH;
    try {
      process.env.PATH = root;
      const failed = await read('f').catch((error: unknown) => error);
      expect(failed).toMatchObject({
        code: 'OCI_LAYER_WRITE',
        message: 'the attributes of "f" cannot be read',
        hint: 'install GNU tar, or getfattr',
      });
    } finally {
      process.env.PATH = path;
    }
  });

  it('words and paths keep their bytes', () => {
    expect(shellWord(bytes("a'\xff")).toString('latin1')).toBe(" 'a'\\''\xff'");
    expect([isRoot(''), isRoot('.'), isRoot('a'), isRoot('..')]).toEqual([true, true, false, false]);
    expect(['', '.', 'a/\xff'].map((path) => pathIn('/r', path).toString('latin1'))).toEqual([
      '/r',
      '/r',
      '/r/a/\xff',
    ]);
  });

  it('a fault of the disk names the entry; others come through as they are', () => {
    const own = kernelError('CANCELLED', 'stop');
    const plain = new Error('no code');
    expect(writeFault(own, '/r', entry({}))).toBe(own);
    expect(writeFault(plain, '/r', entry({}))).toBe(plain);
    const fault = Object.assign(new Error('it is so'), { code: 'ENOTDIR' });
    expect(writeFault(fault, '/r', entry({}))).toMatchObject({
      code: 'OCI_LAYER_WRITE',
      message: '"f" could not be written: it is so',
      cause: fault,
    });
    const full = Object.assign(new Error('full'), { code: 'ENOSPC' });
    expect(codeFrom(writeFault(full, '/r', entry({})))).toBe('DISK_FULL');
  });
});
