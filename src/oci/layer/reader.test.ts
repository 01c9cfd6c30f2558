import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { inPieces, rawHeader, tarFile, tarOf } from '../../testkit/images/index.ts';
import { paxHeader } from '../../testkit/layers/index.ts';
import { DEFAULT_LIMITS, type LayerLimits } from './limits.ts';
import { pad, readTar, TarReader } from './reader.ts';
import { endOfArchive, padding } from './writer.ts';

const octal = (value: number): string => `${value.toString(8).padStart(11, '0')}\0`;
/** A header of this type and size, and bytes that may be more or fewer. */
const raw = (type: string, size: number, body = ''): Buffer =>
  Buffer.concat([
    rawHeader({ 124: octal(size), 156: type }),
    Buffer.from(body, 'latin1'),
    padding(body.length),
  ]);
const pax = (...records: string[]): Buffer => paxHeader(records);
const f = tarFile({ path: 'f', content: 'hello' });

interface Found {
  readonly path: string;
  readonly body: string;
}

async function read(
  bytes: Uint8Array,
  limits: Partial<LayerLimits> = {},
): Promise<readonly Found[] | string> {
  const found: Found[] = [];
  try {
    for await (const { entry, body } of readTar(inPieces(bytes, 700), { ...DEFAULT_LIMITS, ...limits })) {
      const parts: Buffer[] = [];
      for await (const part of body) parts.push(Buffer.from(part));
      found.push({ path: entry.path, body: Buffer.concat(parts).toString('latin1') });
    }
    return found;
  } catch (error) {
    return `${codeFrom(error)} ${(error as Error).message.replace(/^the layer (is not a valid tar archive: )?/, '')}`;
  }
}

async function first(bytes: Uint8Array): Promise<object> {
  const reader = new TarReader(inPieces(bytes));
  return (await reader.next()) ?? expect.fail('nothing is there');
}

describe('an archive that ends in the wrong place is refused', () => {
  it.each<[string, Buffer, string]>([
    ['in a header', Buffer.concat([f, f.subarray(0, 511)]), 'it ends inside a header'],
    ['in a body', raw('0', 600).subarray(0, 600), 'it ends inside a file'],
    ['in a record', raw('x', 600).subarray(0, 600), 'it ends inside a metadata record'],
    ['after a PAX record', pax('path=x'), 'it ends after a metadata record'],
    ['after a long name', raw('L', 3, 'abc'), 'it ends after a metadata record'],
    [
      'a zero block and a header',
      Buffer.concat([Buffer.alloc(512), f]),
      'a lone zero block stands between entries',
    ],
    ['a zero block and a half', Buffer.alloc(700), 'a lone zero block stands between entries'],
  ])('%s', async (_what, bytes, message) => {
    expect(await read(bytes)).toBe(`OCI_LAYER_INVALID ${message}`);
  });

  it('also where nobody reads the body', async () => {
    const reader = new TarReader(inPieces(raw('0', 600).subarray(0, 600)));
    await reader.next();
    await expect(reader.next()).rejects.toThrow('it ends inside a file');
  });

  it('and in the right place not', async () => {
    const hello = [{ path: 'f', body: 'hello' }];
    for (const end of [Buffer.alloc(0), Buffer.alloc(512), Buffer.alloc(1024), Buffer.alloc(1100)])
      expect(await read(Buffer.concat([f, end]))).toEqual(hello);
    expect(await read(f.subarray(0, 517))).toEqual(hello);
    expect(await read(raw('K', 3, 'abc'))).toEqual([]);
  });
});

describe('a reader', () => {
  it('stays at the end, and can read on to what follows', async () => {
    let asked = 0;
    async function* source(): AsyncGenerator<Uint8Array> {
      for (const part of [tarOf([{ path: 'f' }]), f, f]) {
        asked++;
        yield part;
      }
    }
    const reader = new TarReader(source());
    expect((await reader.next())?.path).toBe('f');
    expect([await reader.next(), await reader.next()]).toEqual([undefined, undefined]);
    expect(asked).toBe(1);
    await reader.drain();
    expect(asked).toBe(3);
  });

  it('lets go of its source when nobody reads on', async () => {
    let closed = 0;
    async function* source(): AsyncGenerator<Uint8Array> {
      try {
        yield Buffer.concat([f, f]);
      } finally {
        closed++;
      }
    }
    for await (const _one of readTar(source())) break;
    expect(closed).toBe(1);
  });

  it('says where a body stands, and gives it in parts', async () => {
    const reader = new TarReader(inPieces(Buffer.concat([f, raw('0', 600, 'x'.repeat(600))]), 512));
    await reader.next();
    expect(reader.isSparse).toBe(false);
    expect(reader.stored).toEqual({
      start: 512,
      length: 5,
      padding: 507,
      pieces: [{ offset: 0, length: 5 }],
    });
    expect((await reader.some())?.toString()).toBe('hello');
    expect(await reader.some()).toBeUndefined();
    await reader.next();
    expect(reader.stored).toEqual({
      start: 1536,
      length: 600,
      padding: 424,
      pieces: [{ offset: 0, length: 600 }],
    });
    expect((await reader.some())?.length).toBe(512);
    expect((await reader.some())?.length).toBe(88);
    expect(await reader.next()).toBeUndefined();
  });

  it('knows how far it is to the next block', () => {
    expect([0, 1, 511, 512, 513].map(pad)).toEqual([0, 511, 1, 0, 511]);
  });
});

describe('an entry', () => {
  it('is of a type that layers may hold', async () => {
    const flags = ['0', '\0', '1', '2', '3', '4', '5', '6'];
    const types = await Promise.all(
      flags.map(async (flag) => (await first(raw(flag, 0))) as { type: string }),
    );
    expect(types.map(({ type }) => type)).toEqual([
      'file',
      'file',
      'link',
      'symlink',
      'char',
      'block',
      'directory',
      'fifo',
    ]);
    for (const flag of ['7', 'S', 'D', 'V'])
      expect(await read(raw(flag, 0))).toBe(
        `OCI_LAYER_INVALID entry type "${flag}" is not one that layers may hold`,
      );
  });

  it('of an old archive is a directory by the slash behind its name', async () => {
    const named = async (flag: string, name: string): Promise<object> =>
      await first(rawHeader({ 0: name, 156: flag }));
    expect(await named('\0', 'd/')).toMatchObject({ type: 'directory', path: 'd/' });
    expect(await named('\0', '/d')).toMatchObject({ type: 'file' });
    expect(await named('0', 'd/')).toMatchObject({ type: 'file' });
  });

  it('has what its PAX record says instead of what its header says', async () => {
    const records = [
      'path=p',
      'linkpath=l',
      'uid=7',
      'gid=8',
      'mtime=9.5',
      'SCHILY.xattr.user.a=x',
      'SCHILY.other=y',
    ];
    expect(
      await first(Buffer.concat([pax(...records), rawHeader({ 100: '0107644\0', 156: '2', 157: 'to' })])),
    ).toEqual({
      path: 'p',
      type: 'symlink',
      mode: 0o7644,
      uid: 7,
      gid: 8,
      size: 0,
      mtime: { seconds: 9, nanos: 500_000_000 },
      linkPath: 'l',
      devMajor: 0,
      devMinor: 0,
      xattrs: new Map([['user.a', Buffer.from('x')]]),
    });
    const empty = ['path=', 'linkpath=', 'uid=', 'gid=', 'mtime=', 'size='];
    const plain = rawHeader({ 108: '0000003\0', 156: '2', 157: 'to' });
    expect(await first(Buffer.concat([pax(...empty), plain]))).toEqual(await first(plain));
  });

  it('has long names and PAX names before those of its header, and never two that differ', async () => {
    const long = Buffer.concat([raw('L', 5, 'long\0'), raw('K', 5, 'more\0')]);
    const link = rawHeader({ 156: '1', 157: 'to' });
    expect(await first(Buffer.concat([long, link]))).toMatchObject({ path: 'long', linkPath: 'more' });
    expect(await first(Buffer.concat([raw('L', 4, 'long'), link]))).toMatchObject({
      path: 'long',
      linkPath: 'to',
    });
    const both = Buffer.concat([long, pax('path=long', 'linkpath=more'), link]);
    expect(await first(both)).toMatchObject({ path: 'long', linkPath: 'more' });
    const two = 'OCI_LAYER_INVALID an entry has a long name and another one in a PAX record';
    expect(await read(Buffer.concat([long, pax('path=p'), link]))).toBe(two);
    expect(await read(Buffer.concat([pax('linkpath=l'), long, link]))).toBe(two);
    expect(await first(Buffer.concat([long, pax('linkpath=l'), f]))).toMatchObject({ path: 'long' });
    const empty = Buffer.concat([raw('L', 5, 'long\0'), raw('L', 1, '\0'), raw('K', 0), link]);
    expect(await first(empty)).toMatchObject({ path: 'f', linkPath: 'to' });
    expect(await read(Buffer.concat([long, f, f]))).toEqual([
      { path: 'long', body: 'hello' },
      { path: 'f', body: 'hello' },
    ]);
  });

  it('has a target only where it is a link, and a body only where it is a file', async () => {
    expect(await first(rawHeader({ 156: '0', 157: 'to' }))).toMatchObject({ linkPath: '' });
    expect(await first(raw('5', 600))).toMatchObject({ size: 0 });
    expect(await read(Buffer.concat([raw('5', 600), f]))).toHaveLength(2);
  });

  it.each<[string, Buffer, string]>([
    ['a file below zero', rawHeader({ 124: Buffer.alloc(12, 0xff) }), 'OCI_LAYER_INVALID a size is negative'],
    [
      'a file below zero, whatever its record says',
      Buffer.concat([pax('size=0'), rawHeader({ 124: Buffer.alloc(12, 0xff) })]),
      'OCI_LAYER_INVALID a size is negative',
    ],
    [
      'a directory of the oldest form below zero',
      rawHeader({ 0: 'd/\0', 124: Buffer.alloc(12, 0xff), 156: '\0' }),
      'OCI_LAYER_INVALID a size is negative',
    ],
    [
      'a record below zero',
      rawHeader({ 124: Buffer.alloc(12, 0xff), 156: 'x' }),
      'OCI_LAYER_INVALID a size is negative',
    ],
    ['a file too large', raw('0', 1001), 'OCI_LAYER_LIMIT has a file of 1001 bytes'],
    ['a record too large', raw('x', 101), 'OCI_LAYER_LIMIT has a metadata record of 101 bytes'],
    ['global records too large', raw('g', 101), 'OCI_LAYER_LIMIT has a metadata record of 101 bytes'],
    ['a long name too large', raw('L', 101), 'OCI_LAYER_LIMIT has a metadata record of 101 bytes'],
    ['global records that are none', raw('g', 3, 'abc'), 'OCI_LAYER_INVALID a PAX record is malformed'],
    ...[pax('path=p'), raw('L', 2, 'l\0'), raw('K', 2, 'l\0')].map((own): [string, Buffer, string] => [
      'global records between an entry and its own',
      Buffer.concat([own, raw('g', 13, '13 comment=x\n'), f]),
      'OCI_LAYER_INVALID a record for all later entries parts an entry from its own',
    ]),
    [
      'a NUL in a PAX name',
      Buffer.concat([pax('path=a\0b'), f]),
      'OCI_LAYER_INVALID the PAX path holds a NUL',
    ],
    [
      'a NUL in a PAX target',
      Buffer.concat([pax('linkpath=\0'), raw('2', 0)]),
      'OCI_LAYER_INVALID the PAX linkpath holds a NUL',
    ],
  ])('is refused: %s', async (_what, bytes, said) => {
    expect(await read(bytes, { maxBytes: 1000, maxMetaBytes: 100 })).toBe(said);
  });

  it('is taken at the limits', async () => {
    const limits = { maxBytes: 1000, maxMetaBytes: 100 };
    expect(await read(raw('0', 1000, 'x'.repeat(1000)), limits)).toHaveLength(1);
    expect(await read(Buffer.concat([raw('L', 100, 'n'.repeat(100)), f]), limits)).toHaveLength(1);
  });
});

describe('what is at hand is read at once', () => {
  const inOne = async (...parts: readonly Buffer[]): Promise<readonly string[]> => {
    const found: string[] = [];
    for await (const { entry, body } of readTar(inPieces(Buffer.concat(parts), 1 << 20))) {
      const bytes: Buffer[] = [];
      if (entry.path !== 'skipped') for await (const part of body) bytes.push(Buffer.from(part));
      found.push(`${entry.path}:${Buffer.concat(bytes).toString('latin1')}`);
    }
    return found;
  };

  it('past what fills the last block, whatever stands there', async () => {
    const filled = tarFile({ path: 'skipped', content: 'x' });
    filled.fill('0', 513);
    expect(await inOne(filled, f, endOfArchive())).toEqual(['skipped:', 'f:hello']);
  });

  it('after a sparse file of which nothing was read', async () => {
    const sparse = Buffer.concat([
      pax('GNU.sparse.map=0,5', 'GNU.sparse.numblocks=1', 'GNU.sparse.size=9', 'path=skipped'),
      f,
    ]);
    const again = tarFile({ path: 'g', content: 'hello' });
    expect(await inOne(sparse, again, endOfArchive())).toEqual(['skipped:', 'g:hello']);
  });

  it('but not a body of which a part is missing, nor a sparse one', async () => {
    const reader = new TarReader(inPieces(Buffer.concat([f, f, endOfArchive()]), 512 + 3));
    await reader.next();
    expect(reader.peekBody()).toBeUndefined();
    const whole = new TarReader(inPieces(Buffer.concat([f, endOfArchive()]), 4096));
    await whole.next();
    expect(whole.peekBody()?.toString()).toBe('hello');
    expect((await whole.some())?.toString()).toBe('hello');
    expect(whole.peekBody()?.length).toBe(0);
    const map = pax('GNU.sparse.map=0,5', 'GNU.sparse.numblocks=1', 'GNU.sparse.size=9');
    const sparse = new TarReader(inPieces(Buffer.concat([map, f, endOfArchive()]), 4096));
    await sparse.next();
    expect(sparse.peekBody()).toBeUndefined();
  });
});

describe('a sparse file', () => {
  const size = 'GNU.sparse.size';
  const inRecord = (map: string, count: string, total: string, data: string): Buffer =>
    Buffer.concat([
      pax(`GNU.sparse.map=${map}`, `GNU.sparse.numblocks=${count}`, `${size}=${total}`),
      raw('0', data.length, data),
    ]);
  const inBody = (map: string, total: string, data: string, ...more: string[]): Buffer => {
    const lines = map.padEnd(Math.ceil(map.length / 512) * 512, '\0');
    const records = ['GNU.sparse.major=1', 'GNU.sparse.minor=0', `GNU.sparse.realsize=${total}`, ...more];
    return Buffer.concat([pax(...records), raw('0', lines.length + data.length, lines + data)]);
  };
  const whole = async (bytes: Buffer): Promise<unknown> => {
    const found = await read(Buffer.concat([bytes, endOfArchive()]));
    return typeof found === 'string' ? found : found[0]?.body;
  };

  it.each<[string, Buffer, string]>([
    ['of two pieces', inRecord('1,2,5,1', '2', '7', 'abc'), '\0ab\0\0c\0'],
    ['of pieces side by side', inRecord('0,2,2,1', '2', '3', 'abc'), 'abc'],
    ['of nothing but a hole', inBody('0\n', '4', ''), '\0\0\0\0'],
    ['of nothing but a hole, by a piece', inRecord('4,0', '1', '4', ''), '\0\0\0\0'],
    ['of a piece without bytes at its end', inRecord('0,1,4,0', '2', '4', 'a'), 'a\0\0\0'],
    ['with the map before the data', inBody('2\n1\n2\n5\n1\n', '7', 'abc'), '\0ab\0\0c\0'],
    ['with a map of several blocks', inBody(`300\n${'0\n0\n'.repeat(299)}0\n1\n`, '2', 'a'), 'a\0'],
    [
      'with holes of several buffers',
      inRecord('200000,1', '1', '300000', 'a'),
      `${'\0'.repeat(200_000)}a${'\0'.repeat(99_999)}`,
    ],
  ])('is read with its holes: %s', async (_what, bytes, body) => {
    expect(await whole(bytes)).toBe(body);
  });

  it('has the name and the size that its records say', async () => {
    const named = async (...more: string[]): Promise<object> => await first(inBody('0\n', '4', '', ...more));
    expect(await named('GNU.sparse.name=n', `${size}=9`)).toMatchObject({ path: 'n', size: 9 });
    expect(await named(`${size}=`)).toMatchObject({ path: 'f', size: 4 });
    expect(await named('GNU.sparse.name=')).toMatchObject({ path: 'f', size: 4 });
  });

  it('says which bytes of it are stored', async () => {
    const reader = new TarReader(inPieces(inRecord('1,2,5,1', '2', '7', 'abc')));
    await reader.next();
    expect(reader.isSparse).toBe(true);
    expect(reader.stored).toMatchObject({
      length: 3,
      pieces: [
        { offset: 1, length: 2 },
        { offset: 5, length: 1 },
      ],
    });
    expect(await reader.next()).toBeUndefined();
  });

  const many = (count: number): string => Array.from({ length: count * 2 }, () => '0').join(',');
  it.each<[string, Buffer, string]>([
    [
      'of an unknown version',
      Buffer.concat([pax('GNU.sparse.major=1', 'GNU.sparse.minor=1'), f]),
      'INVALID it holds a sparse file of an unknown version',
    ],
    [
      'of an unknown version, with a map',
      Buffer.concat([
        pax('GNU.sparse.major=0', 'GNU.sparse.minor=2', 'GNU.sparse.map=0,5', 'GNU.sparse.numblocks=1'),
        f,
      ]),
      'INVALID it holds a sparse file of an unknown version',
    ],
    ['of no pieces in a record', inRecord('', '0', '4', ''), 'INVALID a sparse map has no pieces'],
    [
      'of a lone minor version',
      Buffer.concat([pax('GNU.sparse.minor=0'), f]),
      'INVALID it holds a sparse file of an unknown version',
    ],
    [
      'without a size',
      Buffer.concat([pax('GNU.sparse.map=0,5', 'GNU.sparse.numblocks=1'), f]),
      'INVALID the PAX GNU.sparse size is not a number',
    ],
    [
      'without a count',
      Buffer.concat([pax('GNU.sparse.map=0,5', `${size}=5`), f]),
      'INVALID the PAX GNU.sparse.numblocks is not a number',
    ],
    ['of half a piece', inRecord('0,1,2', '1', '9', 'a'), 'INVALID a sparse map has an odd count'],
    [
      'of more pieces than it says',
      inRecord('0,1', '2', '9', 'a'),
      'INVALID a sparse map has more or fewer pieces than it says',
    ],
    [
      'of pieces that are no numbers',
      inRecord('0,x', '1', '9', 'a'),
      'INVALID the PAX GNU.sparse.map is not a number',
    ],
    [
      'of pieces that overlap',
      inRecord('0,2,1,1', '2', '9', 'abc'),
      'INVALID a sparse map overlaps or runs past the end',
    ],
    ['past its end', inRecord('8,2', '1', '9', 'ab'), 'INVALID a sparse map overlaps or runs past the end'],
    [
      'of less data than it says',
      inRecord('0,2', '1', '9', 'abc'),
      'INVALID a sparse map does not fit its data',
    ],
    ['of a map that is cut short', inBody('2\n0\n1\n', '9', ''), 'INVALID a sparse map is cut short'],
    ['of a map without numbers', inBody('x\n', '9', ''), 'INVALID the PAX sparse map is not a number'],
    ['of too many pieces', inBody('65537\n', '9', ''), 'LIMIT has a sparse file of 65537 segments'],
    [
      'of too many pieces in a record',
      inRecord(many(65_537), '65537', '9', ''),
      'LIMIT has a sparse file of 65537 segments',
    ],
    [
      'with a NUL in its name',
      inBody('0\n', '4', '', 'GNU.sparse.name=a\0'),
      'INVALID the name of a sparse file holds a NUL',
    ],
    [
      'that is a directory',
      Buffer.concat([pax('GNU.sparse.map=', `${size}=0`), raw('5', 0)]),
      'INVALID a sparse map belongs to what is no file',
    ],
    [
      'larger than a layer',
      inRecord('0,0', '1', String(2 ** 37 + 1), ''),
      `LIMIT has a sparse file of ${2 ** 37 + 1} bytes`,
    ],
    [
      'that ends in the middle',
      inRecord('0,600', '1', '600', 'x'.repeat(600)).subarray(0, -600),
      'INVALID it ends inside a file',
    ],
  ])('is refused: %s', async (_what, bytes, said) => {
    expect(await read(bytes)).toBe(`OCI_LAYER_${said}`);
  });

  it('of the most pieces is taken', async () => {
    expect(await whole(inRecord(many(65_536), '65536', '1', ''))).toBe('\0');
  });
});
