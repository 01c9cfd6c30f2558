import { once } from 'node:events';
import { extract } from 'tar-stream';
import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { inPieces, rawHeader, tarFile, tarOf } from '../../testkit/images/index.ts';
import { fc } from '../../testkit/property.ts';
import { readTar, type TarEntry } from './index.ts';
import { DEFAULT_LIMITS } from './limits.ts';
import { encodePax, formatPaxTime, parsePaxTime } from './pax.ts';
import { encodeEntry, endOfArchive, FOR_GNU_TAR, PORTABLE, padding } from './writer.ts';

interface Read {
  readonly entry: TarEntry;
  readonly body: string;
}

async function readAll(bytes: Uint8Array, piece = 777): Promise<readonly Read[]> {
  const out: Read[] = [];
  for await (const { entry, body } of readTar(inPieces(bytes, piece))) {
    const parts: Buffer[] = [];
    for await (const part of body) parts.push(Buffer.from(part));
    out.push({ entry, body: Buffer.concat(parts).toString('latin1') });
  }
  return out;
}

async function codeOf(bytes: Uint8Array): Promise<string> {
  try {
    await readAll(bytes);
    return 'accepted';
  } catch (error) {
    return codeFrom(error);
  }
}

const pax = (records: Record<string, string | Buffer>, type = 'x'): Buffer => {
  const body = encodePax(new Map(Object.entries(records).map(([key, value]) => [key, Buffer.from(value)])));
  return metaOf(type, body);
};
const metaOf = (type: string, body: Buffer): Buffer =>
  Buffer.concat([
    rawHeader({ 124: `${body.length.toString(8).padStart(11, '0')}\0`, 156: type }),
    body,
    padding(body.length),
  ]);

describe('what is written is read again', () => {
  const bytes = (max: number) =>
    fc
      .uint8Array({ minLength: 1, maxLength: max })
      .map((array) => Buffer.from(array).toString('latin1').replaceAll('\0', 'x'));
  const name = bytes(300).map((text) => text.replace(/\/+$/, 'x'));
  const entry = fc.record({
    path: name,
    type: fc.constantFrom('file', 'symlink', 'link', 'char', 'fifo'),
    mode: fc.integer({ min: 0, max: 0o7777 }),
    uid: fc.oneof(fc.integer({ min: 0, max: 2 ** 32 - 2 }), fc.maxSafeNat()),
    gid: fc.oneof(fc.integer({ min: 0, max: 2 ** 32 - 2 }), fc.maxSafeNat()),
    seconds: fc.integer({ min: -(2 ** 40), max: 2 ** 40 }),
    nanos: fc.integer({ min: 0, max: 999_999_999 }),
    linkPath: bytes(300),
    devMajor: fc.integer({ min: 0, max: 4095 }),
    devMinor: fc.integer({ min: 0, max: 1_048_575 }),
    xattrs: fc.dictionary(fc.stringMatching(/^user\.[a-z]{1,20}$/), fc.uint8Array({ maxLength: 600 }), {
      maxKeys: 3,
    }),
    content: fc.uint8Array({ maxLength: 3000 }),
  });

  it.each([
    ['PAX', PORTABLE],
    ['GNU', FOR_GNU_TAR],
  ])('with long names in %s form, whatever the chunks', async (_form, form) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(entry, { maxLength: 6 }),
        fc.integer({ min: 1, max: 5000 }),
        async (entries, piece) => {
          const wanted = entries.map((one) => toEntry(one));
          const archive = Buffer.concat([
            ...wanted.flatMap(({ entry: header, body }) => [
              encodeEntry(header, form),
              Buffer.from(body, 'latin1'),
              padding(header.size),
            ]),
            endOfArchive(),
          ]);
          expect(await readAll(archive, piece)).toEqual(wanted);
        },
      ),
      { numRuns: 150 },
    );
  });

  function toEntry(one: {
    path: string;
    type: string;
    mode: number;
    uid: number;
    gid: number;
    seconds: number;
    nanos: number;
    linkPath: string;
    devMajor: number;
    devMinor: number;
    xattrs: Record<string, Uint8Array>;
    content: Uint8Array;
  }): Read {
    const file = one.type === 'file';
    const link = one.type === 'symlink' || one.type === 'link';
    const xattrs = new Map(Object.entries(one.xattrs).map(([key, value]) => [key, Buffer.from(value)]));
    return {
      body: file ? Buffer.from(one.content).toString('latin1') : '',
      entry: {
        path: one.path,
        type: one.type as TarEntry['type'],
        mode: one.mode,
        uid: one.uid,
        gid: one.gid,
        size: file ? one.content.length : 0,
        mtime: { seconds: one.seconds, nanos: one.nanos },
        linkPath: link ? one.linkPath : '',
        devMajor: one.devMajor,
        devMinor: one.devMinor,
        ...(xattrs.size > 0 ? { xattrs } : {}),
      },
    };
  }

  it('and times of any sign keep their nanoseconds', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: -1e12, max: 1e12 }),
        fc.integer({ min: 0, max: 999_999_999 }),
        (seconds, nanos) => {
          expect(parsePaxTime(formatPaxTime({ seconds, nanos }))).toEqual({ seconds, nanos });
        },
      ),
    );
  });

  it('by another reader too', async () => {
    const archive = tarOf([
      { path: 'plain', content: 'a' },
      { path: `${'d/'.repeat(80)}deep`, content: 'b' },
      { path: 'x'.repeat(300), content: 'c' },
      { path: 'link', type: 'symlink', linkPath: 'y'.repeat(200) },
    ]);
    const seen: [string, number | undefined, string | null | undefined][] = [];
    const stream = extract();
    stream.on('entry', (header, body, next) => {
      seen.push([header.name, header.uid, header.linkname]);
      body.resume();
      body.on('end', next);
    });
    stream.end(archive);
    await once(stream, 'finish');
    expect(seen).toEqual([
      ['plain', 0, null],
      [`${'d/'.repeat(80)}deep`, 0, null],
      ['x'.repeat(300), 0, null],
      ['link', 0, 'y'.repeat(200)],
    ]);
  });
});

it('numbers that octal digits do not hold are written so that they are read again', async () => {
  const device = {
    path: 'dev',
    type: 'char' as const,
    mode: 0o600,
    size: 0,
    mtime: { seconds: 0, nanos: 0 },
    linkPath: '',
    uid: 2 ** 40 + 5,
    gid: 2 ** 33,
    devMajor: 2 ** 21,
    devMinor: 2 ** 32 - 1,
  };
  const archive = encodeEntry(device, FOR_GNU_TAR);
  expect(archive.length).toBe(512);
  const [read] = await readAll(archive);
  expect(read?.entry).toMatchObject({
    uid: device.uid,
    gid: device.gid,
    devMajor: device.devMajor,
    devMinor: device.devMinor,
  });
});

it('a negative number is not written', () => {
  const entry = { path: 'f', type: 'file', mode: 0o600, uid: -1, gid: 0, size: 0, linkPath: '' } as const;
  const rest = { mtime: { seconds: 0, nanos: 0 }, devMajor: 0, devMinor: 0 };
  expect(() => encodeEntry({ ...entry, ...rest })).toThrow(/negative/);
});

describe('what other writers do is understood', () => {
  it('base-256 numbers and long names', async () => {
    const size = Buffer.alloc(12);
    size[0] = 0x80;
    size[11] = 3;
    const uid = Buffer.alloc(8);
    uid[0] = 0x80;
    uid.writeUInt32BE(0x8000_0001, 4);
    const archive = Buffer.concat([
      metaOf('L', Buffer.from(`${'n'.repeat(120)}\0`)),
      rawHeader({ 108: uid, 124: size }),
      Buffer.from('abc'),
      padding(3),
    ]);
    const [read] = await readAll(archive);
    expect(read?.entry).toMatchObject({ path: 'n'.repeat(120), size: 3, uid: 0x8000_0001 });
    expect(read?.body).toBe('abc');
  });

  it.each(['00', '  ', '01'])('L5 a prefix counts whatever the version says: %j', async (version) => {
    const header = rawHeader({ 257: `ustar\0${version}`, 345: 'dir' });
    expect((await readAll(header)).map((read) => read.entry.path)).toEqual(['dir/f']);
  });

  it('PAX size wins over the header, so both see the same entries (CVE-2025-62518)', async () => {
    const hidden = tarFile({ path: 'hidden', content: '' });
    const archive = Buffer.concat([
      pax({ size: String(hidden.length) }),
      rawHeader({ 124: '00000000000\0' }),
      hidden,
      tarFile({ path: 'next' }),
      endOfArchive(),
    ]);
    expect((await readAll(archive)).map((read) => read.entry.path)).toEqual(['f', 'next']);
  });

  it('global PAX records change nothing', async () => {
    const archive = Buffer.concat([
      pax({ path: 'evil', size: '512' }, 'g'),
      tarFile({ path: 'good' }),
      endOfArchive(),
    ]);
    expect((await readAll(archive)).map((read) => read.entry.path)).toEqual(['good']);
  });

  it('L7 sparse files come out whole', async () => {
    const map = Buffer.concat([Buffer.from('2\n0\n3\n10\n2\n'), Buffer.alloc(512)]).subarray(0, 512);
    const stored = Buffer.concat([map, Buffer.from('abcde')]);
    const archive = Buffer.concat([
      pax({
        'GNU.sparse.major': '1',
        'GNU.sparse.minor': '0',
        'GNU.sparse.name': 's',
        'GNU.sparse.realsize': '15',
      }),
      rawHeader({ 124: `${stored.length.toString(8).padStart(11, '0')}\0` }),
      stored,
      padding(stored.length),
      tarFile({ path: 'next' }),
      endOfArchive(),
    ]);
    const [read, next] = await readAll(archive);
    expect(read?.entry).toMatchObject({ path: 's', size: 15 });
    expect(read?.body).toBe('abc\0\0\0\0\0\0\0de\0\0\0');
    expect(next?.entry.path).toBe('next');
  });

  it.each([
    ['no padding and no end blocks', tarFile({ path: 'f', content: 'x' }).subarray(0, 513), 1],
    ['one zero block at the end', Buffer.concat([tarFile({ path: 'f' }), Buffer.alloc(512)]), 1],
    ['nothing at all', Buffer.alloc(0), 0],
    ['entries after the end blocks', Buffer.concat([tarOf([{ path: 'a' }]), tarOf([{ path: 'b' }])]), 1],
  ])('%s', async (_what, archive, count) => {
    expect(await readAll(archive)).toHaveLength(count);
  });
});

describe('malformed archives are refused', () => {
  const f = tarFile({ path: 'f', content: 'x' });
  const sparse = (map: string, count: string): Buffer =>
    pax({ 'GNU.sparse.map': map, 'GNU.sparse.numblocks': count, 'GNU.sparse.size': '9' });
  const bad: readonly [string, Buffer, string][] = [
    ['wrong checksum', Buffer.concat([Buffer.from('y'), f.subarray(1)]), 'OCI_LAYER_INVALID'],
    ['end inside a header', f.subarray(0, 300), 'OCI_LAYER_INVALID'],
    [
      'end inside a body',
      tarFile({ path: 'f', content: 'x'.repeat(2000) }).subarray(0, 1000),
      'OCI_LAYER_INVALID',
    ],
    ['a lone zero block', Buffer.concat([f, Buffer.alloc(512), f]), 'OCI_LAYER_INVALID'],
    ['a negative size', rawHeader({ 124: Buffer.alloc(12, 0xff) }), 'OCI_LAYER_INVALID'],
    ['a huge size', rawHeader({ 124: Buffer.from('804000000000000000000000', 'hex') }), 'OCI_LAYER_INVALID'],
    [
      'a size beyond the limit',
      rawHeader({ 124: Buffer.from('800000000000010000000000', 'hex') }),
      'OCI_LAYER_LIMIT',
    ],
    ['letters in a number', rawHeader({ 108: '00abc00\0' }), 'OCI_LAYER_INVALID'],
    ['an unknown type', rawHeader({ 156: 'S' }), 'OCI_LAYER_INVALID'],
    ['a PAX record too long', metaOf('x', Buffer.from('99 path=a\n')), 'OCI_LAYER_INVALID'],
    ['a PAX record without newline', metaOf('x', Buffer.from('10 path=ab')), 'OCI_LAYER_INVALID'],
    ['a PAX record without key', metaOf('x', Buffer.from('6 =ab\n')), 'OCI_LAYER_INVALID'],
    ['a NUL in a PAX path', Buffer.concat([pax({ path: 'a\0b' }), f]), 'OCI_LAYER_INVALID'],
    ['a PAX time that is none', Buffer.concat([pax({ mtime: 'now' }), f]), 'OCI_LAYER_INVALID'],
    ['a PAX size that is none', Buffer.concat([pax({ size: '-1' }), f]), 'OCI_LAYER_INVALID'],
    [
      'a PAX header and nothing after',
      Buffer.concat([pax({ path: 'a' }), endOfArchive()]),
      'OCI_LAYER_INVALID',
    ],
    ['a PAX header too large', pax({ comment: 'c'.repeat(2 ** 21) }), 'OCI_LAYER_LIMIT'],
    ['a sparse map that overlaps', Buffer.concat([sparse('0,2,1,2', '2'), f]), 'OCI_LAYER_INVALID'],
    [
      'a sparse map of a link',
      Buffer.concat([sparse('', '0'), rawHeader({ 156: '2', 157: 'to' })]),
      'OCI_LAYER_INVALID',
    ],
    [
      'a sparse name of a directory',
      Buffer.concat([pax({ 'GNU.sparse.name': 'x' }), rawHeader({ 156: '5' })]),
      'OCI_LAYER_INVALID',
    ],
    ['a sparse map without its count', Buffer.concat([sparse('0,1', ''), f]), 'OCI_LAYER_INVALID'],
    ['a sparse map of another count', Buffer.concat([sparse('0,1', '2'), f]), 'OCI_LAYER_INVALID'],
    [
      'a sparse file of an unknown kind',
      Buffer.concat([pax({ 'GNU.sparse.major': '7' }), f]),
      'OCI_LAYER_INVALID',
    ],
    [
      'a sparse file beyond the limit',
      Buffer.concat([
        pax({ 'GNU.sparse.map': '0,1', 'GNU.sparse.numblocks': '1', 'GNU.sparse.size': String(2 ** 50) }),
        f,
      ]),
      'OCI_LAYER_LIMIT',
    ],
  ];
  it.each(bad)('%s', async (_what, archive, code) => {
    expect(await codeOf(archive)).toBe(code);
  });

  it('and no change of a valid archive ends in anything but entries or a coded refusal', async () => {
    const valid = tarOf([
      { path: 'd', type: 'directory' },
      { path: `d/${'n'.repeat(120)}`, content: 'x'.repeat(700), mtime: { seconds: 1, nanos: 5 } },
      { path: 'l', type: 'symlink', linkPath: 'd', xattrs: new Map([['user.a', Buffer.from([0, 255])]]) },
    ]);
    const change = fc.record({ at: fc.nat(valid.length - 1), to: fc.integer({ min: 0, max: 255 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(change, { minLength: 1, maxLength: 8 }),
        fc.nat(valid.length),
        async (changes, cut) => {
          const archive = Buffer.from(valid.subarray(0, cut % 7 === 0 ? cut : valid.length));
          for (const { at, to } of changes) if (at < archive.length) archive[at] = to;
          const code = await codeOf(archive);
          expect(['accepted', 'OCI_LAYER_INVALID', 'OCI_LAYER_LIMIT']).toContain(code);
        },
      ),
      { numRuns: 400 },
    );
  });

  it('limits are what they say', () => {
    expect(DEFAULT_LIMITS.maxMetaBytes).toBe(1_048_576);
  });
});
