import { describe, expect, it } from 'vitest';
import { file } from '../../testkit/layers/index.ts';
import type { TarEntry } from './entry.ts';
import { decodeHeader, type RawHeader } from './header.ts';
import { encodeEntry, endOfArchive, FOR_GNU_TAR, PORTABLE, padding } from './writer.ts';

const plain = (path: string, change: Partial<TarEntry> = {}): TarEntry =>
  file(path, { size: 0, mtime: { seconds: 4, nanos: 0 }, ...change });

interface Part {
  readonly header: RawHeader;
  readonly magic: string;
  readonly body: string;
}

/** Header blocks, those of records with what follows them. */
function partsOf(bytes: Buffer): readonly Part[] {
  const parts: Part[] = [];
  for (let at = 0; at < bytes.length; ) {
    const block = bytes.subarray(at, at + 512);
    const header = decodeHeader(block);
    at += 512;
    const size = 'xLK'.includes(header.typeFlag) ? header.size : 0;
    const end = at + Math.ceil(size / 512) * 512;
    expect(bytes.subarray(at + size, end).every((byte) => byte === 0)).toBe(true);
    parts.push({
      header,
      magic: block.toString('latin1', 257, 265),
      body: bytes.toString('latin1', at, at + size),
    });
    at = end;
  }
  return parts;
}

/** A PAX record: its length stands in front, itself counted. */
function line(text: string): string {
  let length = text.length + 3;
  while (`${length} ${text}\n`.length !== length) length++;
  return `${length} ${text}\n`;
}

const record = (body: string): Partial<RawHeader> => ({
  name: 'PaxHeaders/entry',
  typeFlag: 'x',
  mode: 0o644,
  uid: 0,
  gid: 0,
  size: body.length,
  mtime: { seconds: 0, nanos: 0 },
  linkName: '',
});

describe('a header alone', () => {
  it('holds what fits', () => {
    const entry = plain('f', {
      type: 'symlink',
      linkPath: 'l'.repeat(100),
      mode: 0o6751,
      devMajor: 1,
      devMinor: 2,
    });
    const [only, ...more] = partsOf(encodeEntry(entry));
    expect(more).toEqual([]);
    expect(only).toMatchObject({
      magic: 'ustar\x0000',
      header: {
        name: 'f',
        typeFlag: '2',
        linkName: 'l'.repeat(100),
        mode: 0o6751,
        uid: 1,
        gid: 2,
        size: 0,
        mtime: { seconds: 4, nanos: 0 },
        devMajor: 1,
        devMinor: 2,
      },
    });
  });

  it.each([
    ['file', '0'],
    ['link', '1'],
    ['symlink', '2'],
    ['char', '3'],
    ['block', '4'],
    ['directory', '5'],
    ['fifo', '6'],
  ] as const)('says that it is a %s by %s', (type, flag) => {
    expect(partsOf(encodeEntry(plain('f', { type })))[0]?.header).toMatchObject({
      typeFlag: flag,
      name: type === 'directory' ? 'f/' : 'f',
    });
    expect(partsOf(encodeEntry(plain('f/', { type: 'directory' })))[0]?.header.name).toBe('f/');
  });

  it('has a file of a size for which eleven digits do', () => {
    const [only, ...more] = partsOf(
      encodeEntry(plain('f', { size: 8 ** 11 - 1, mtime: { seconds: 8 ** 11 - 1, nanos: 0 } })),
    );
    expect(more).toEqual([]);
    expect(only?.header).toMatchObject({ size: 8 ** 11 - 1, mtime: { seconds: 8 ** 11 - 1, nanos: 0 } });
    expect(partsOf(encodeEntry(plain('f', { mtime: { seconds: 0, nanos: 0 } })))).toHaveLength(1);
  });
});

describe('a name', () => {
  const split = (path: string, change: Partial<TarEntry> = {}): readonly (string | number)[] => {
    const bytes = encodeEntry(plain(path, change));
    const field = (at: number, length: number): string =>
      bytes.toString('latin1', at, at + length).replace(/\0.*$/s, '');
    return bytes.length === 512 ? [field(345, 155), field(0, 100)] : [bytes.length];
  };
  const n = (count: number): string => 'n'.repeat(count);

  it.each<[string, string, readonly (string | number)[]]>([
    ['of 100 bytes', n(100), ['', n(100)]],
    ['of 101 without a slash', n(101), [1536]],
    ['of 101 with a slash in front only', `/${n(100)}`, [1536]],
    ['of 102 after a slash', `a/${n(100)}`, ['a', n(100)]],
    ['that is cut as far in front as can be', `a/b/c/${n(95)}`, ['a', `b/c/${n(95)}`]],
    ['of 256', `${n(155)}/${n(100)}`, [n(155), n(100)]],
    ['of 257', `${n(156)}/${n(100)}`, [1536]],
    ['of 256, cut too late', `${n(156)}/${n(99)}`, [1536]],
  ])('%s', (_what, path, wanted) => {
    expect(split(path)).toEqual(wanted);
  });

  it('of a directory keeps its slash', () => {
    expect(split(n(99), { type: 'directory' })).toEqual(['', `${n(99)}/`]);
    expect(split(n(100), { type: 'directory' })).toEqual([1536]);
    expect(split(`a/${n(99)}`, { type: 'directory' })).toEqual(['a', `${n(99)}/`]);
  });
});

describe('what does not fit', () => {
  const long = `${'n'.repeat(300)}\xff`;

  it('stands in one PAX record before the header, sorted, as bytes', () => {
    const entry = plain(long, {
      type: 'link',
      linkPath: `${'l'.repeat(100)}\xfe`,
      uid: 2 ** 21,
      gid: 2 ** 21 + 1,
      size: 8 ** 11,
      mtime: { seconds: -3, nanos: 500_000_000 },
      xattrs: new Map([['user.a', Buffer.from([0, 255])]]),
    });
    const body = [
      line('SCHILY.xattr.user.a=\0\xff'),
      line('gid=2097153'),
      line(`linkpath=${'l'.repeat(100)}\xfe`),
      line('mtime=-2.5'),
      line(`path=${long}`),
      line('size=8589934592'),
      line('uid=2097152'),
    ].join('');
    const parts = partsOf(encodeEntry(entry, PORTABLE));
    expect(parts[0]?.header).toMatchObject(record(body));
    expect(parts.map((part) => part.body)).toEqual([body, '']);
    expect(parts[1]?.header).toMatchObject({
      name: 'n'.repeat(100),
      linkName: 'l'.repeat(100),
      typeFlag: '1',
      uid: 0,
      gid: 0,
      size: 0,
      mtime: { seconds: 0, nanos: 0 },
    });
  });

  it.each([
    ['uid', { uid: 2 ** 21 - 1 }, { uid: 2 ** 21 }, line('uid=2097152')],
    ['gid', { gid: 2 ** 21 - 1 }, { gid: 2 ** 21 }, line('gid=2097152')],
    ['size', { size: 8 ** 11 - 1 }, { size: 8 ** 11 }, line('size=8589934592')],
    ['nanoseconds', {}, { mtime: { seconds: 4, nanos: 1 } }, line('mtime=4.000000001')],
    [
      'a time before 1970',
      { mtime: { seconds: 0, nanos: 0 } },
      { mtime: { seconds: -1, nanos: 0 } },
      line('mtime=-1'),
    ],
    [
      'a late time',
      { mtime: { seconds: 8 ** 11 - 1, nanos: 0 } },
      { mtime: { seconds: 8 ** 11, nanos: 0 } },
      line('mtime=8589934592'),
    ],
    [
      'a link',
      { linkPath: 'l'.repeat(100) },
      { linkPath: 'l'.repeat(101) },
      line(`linkpath=${'l'.repeat(101)}`),
    ],
    [
      'an attribute',
      { xattrs: new Map() },
      { xattrs: new Map([['a', Buffer.from('b')]]) },
      line('SCHILY.xattr.a=b'),
    ],
  ])('has a record, and what fits has none: %s', (_what, fits, beyond, body) => {
    expect(partsOf(encodeEntry(plain('f', fits)))).toHaveLength(1);
    const parts = partsOf(encodeEntry(plain('f', beyond)));
    expect(parts.map((part) => part.body)).toEqual([body, '']);
  });

  it('has the nearest time that the header holds beside the record', () => {
    const at = (seconds: number): unknown =>
      partsOf(encodeEntry(plain('f', { mtime: { seconds, nanos: 1 } })))[1]?.header.mtime;
    expect([at(-5), at(7), at(8 ** 11)]).toEqual([
      { seconds: 0, nanos: 0 },
      { seconds: 7, nanos: 0 },
      { seconds: 8 ** 11 - 1, nanos: 0 },
    ]);
  });

  it('stands in records of GNU for GNU tar: names with a NUL behind, owners in base 256', () => {
    const entry = plain(long, {
      type: 'symlink',
      linkPath: `${'l'.repeat(100)}\xfe`,
      uid: 2 ** 21,
      gid: 2 ** 33,
    });
    const parts = partsOf(encodeEntry(entry, FOR_GNU_TAR));
    expect(parts.map(({ header, magic, body }) => [header.typeFlag, magic, body])).toEqual([
      ['L', 'ustar  \0', `${long}\0`],
      ['K', 'ustar  \0', `${'l'.repeat(100)}\xfe\0`],
      ['2', 'ustar\x0000', ''],
    ]);
    expect(parts[0]?.header).toMatchObject({ ...record(`${long}\0`), name: '././@LongLink', typeFlag: 'L' });
    expect(parts[2]?.header).toMatchObject({ name: 'n'.repeat(100), uid: 2 ** 21, gid: 2 ** 33 });
    expect(partsOf(encodeEntry(plain('f', { linkPath: 'l'.repeat(100) }), FOR_GNU_TAR))).toHaveLength(1);
  });
});

it('a body is filled up to a block, and an archive ends with two', () => {
  expect([0, 1, 511, 512, 513, 1024].map((size) => padding(size).length)).toEqual([0, 511, 1, 0, 511, 0]);
  expect(padding(1).every((byte) => byte === 0)).toBe(true);
  expect(endOfArchive()).toEqual(Buffer.alloc(1024));
});
