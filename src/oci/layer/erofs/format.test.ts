import { constants } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../../testkit/coded.ts';
import { damaged, NotErofs, unfit } from './errors.ts';
import {
  BLOCK,
  decodeDevice,
  decodeDirents,
  decodeFirstBlock,
  decodeInode,
  decodeXattrs,
  encodeDevice,
  encodeDirents,
  encodeFirstBlock,
  encodeInode,
  encodeXattrs,
  type InodeFields,
  KIND,
  layDirents,
  xattrsSize,
} from './format.ts';

// Offsets, numbers and sums as in Linux, fs/erofs/erofs_fs.h, put together here by hand.
const SUPER = 1024;

/** CRC-32C bit by bit, from all ones and not inverted at the end. */
function crc(bytes: Uint8Array): number {
  let sum = 0xffff_ffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ ((sum & 1) * 0x82f6_3b78);
  }
  return sum >>> 0;
}

function sealed(block: Buffer): Buffer {
  const copy = Buffer.from(block);
  copy.writeUInt32LE(0, SUPER + 4);
  copy.writeUInt32LE(crc(copy.subarray(SUPER)), SUPER + 4);
  return copy;
}

const said = (work: () => unknown): string => {
  try {
    work();
    return 'done';
  } catch (error) {
    const code = error instanceof NotErofs ? 'NotErofs' : codeFrom(error);
    return `${code} ${(error as Error).message.replace(/^.*: /, '')}`;
  }
};

describe('the first block', () => {
  const fields = { rootNid: 0x1234, inodes: 2 ** 33 + 7, blocks: 0x0a0b_0c0d, metaBlock: 0x0102_0304 };

  it('has the superblock where the kernel looks, and nothing else', () => {
    expect(crc(Buffer.from('123456789'))).toBe(~0xe306_9283 >>> 0);
    const wanted = Buffer.alloc(BLOCK);
    Buffer.from('e2e1f5e00000000003000000', 'hex').copy(wanted, SUPER);
    Buffer.from('0c0034120700000002000000', 'hex').copy(wanted, SUPER + 12);
    wanted.writeUInt32LE(3, SUPER + 8);
    Buffer.from('0d0c0b0a04030201', 'hex').copy(wanted, SUPER + 36);
    expect(encodeFirstBlock(fields).toString('hex')).toBe(sealed(wanted).toString('hex'));
    expect(decodeFirstBlock(sealed(wanted))).toEqual(fields);
  });

  it('is refused where a byte of it is another', () => {
    const block = encodeFirstBlock(fields);
    const wrong = (at: number): string => {
      const copy = Buffer.from(block);
      copy[at] = (copy[at] as number) ^ 0x10;
      return said(() => decodeFirstBlock(copy));
    };
    expect([0, 1023].map(wrong)).toEqual(['done', 'done']);
    expect([1024, 1027].map(wrong)).toEqual(
      Array.from({ length: 2 }, () => 'OCI_STORE_INVALID it is no EROFS image'),
    );
    expect([1028, 1032, 1036, 1038, 1060, 1104, 4095].map(wrong)).toEqual(
      Array.from({ length: 7 }, () => 'OCI_STORE_INVALID its superblock is damaged'),
    );
    expect(said(() => decodeFirstBlock(block.subarray(0, BLOCK - 1)))).toBe(
      'OCI_STORE_INVALID it is no EROFS image',
    );
    expect(said(() => decodeFirstBlock(Buffer.alloc(0)))).toBe('OCI_STORE_INVALID it is no EROFS image');
  });

  it.each([8, 80])('is refused with features that we do not write, whatever its sum (byte %i)', (at) => {
    const block = Buffer.from(encodeFirstBlock(fields));
    block.writeUInt32LE(block.readUInt32LE(SUPER + at) ^ 0x100, SUPER + at);
    expect(said(() => decodeFirstBlock(sealed(block)))).toBe('OCI_STORE_INVALID its superblock is damaged');
  });
});

describe('an inode', () => {
  const fields: InodeFields = {
    layout: 2,
    kind: 'file',
    mode: 0o6751,
    uid: 0x0102_0304,
    gid: 0x1112_1314,
    size: 2 ** 33 + 5,
    seconds: -2,
    nanos: 999_999_999,
    links: 0x2122_2324,
    start: 0x3132_3334,
    ino: 0x4142_4344,
    xattrs: 12 + 8,
  };
  const hex = [
    '05000300e98d0000',
    '0500000002000000',
    '3433323144434241',
    '0403020114131211',
    'feffffffffffffff',
    'ffc99a3b24232221',
    '00'.repeat(16),
  ].join('');

  it('has its fields where the kernel looks', () => {
    const target = Buffer.alloc(70);
    encodeInode(target, 6, fields);
    expect(target.toString('hex')).toBe('00'.repeat(6) + hex);
    expect(decodeInode(Buffer.from(hex, 'hex'))).toEqual(fields);
  });

  it('says in its first number how it is laid out, and in its second how many attributes', () => {
    const target = Buffer.alloc(64);
    for (const [change, words] of [
      [{ layout: 0, xattrs: 0 }, [1, 0]],
      [{ layout: 0, xattrs: 12 + 4 }, [1, 2]],
      [{ layout: 2, xattrs: 12 + 4 * 0xfffe }, [5, 0xffff]],
    ] as const) {
      encodeInode(target, 0, { ...fields, ...change });
      expect([target.readUInt16LE(0), target.readUInt16LE(2)]).toEqual(words);
      expect(decodeInode(target)).toEqual({ ...fields, ...change });
    }
  });

  it('is of each kind that Linux has but sockets', () => {
    expect(KIND).toEqual({
      file: constants.S_IFREG,
      directory: constants.S_IFDIR,
      symlink: constants.S_IFLNK,
      char: constants.S_IFCHR,
      block: constants.S_IFBLK,
      fifo: constants.S_IFIFO,
    });
    const target = Buffer.alloc(64);
    for (const kind of Object.keys(KIND) as (keyof typeof KIND)[]) {
      encodeInode(target, 0, { ...fields, kind });
      expect(target.readUInt16LE(4)).toBe(KIND[kind] | 0o6751);
      expect(decodeInode(target)).toEqual({ ...fields, kind });
    }
  });

  it.each([
    ['of the short form', 0, 4],
    ['compressed', 0, 3],
    ['compressed in another way', 0, 7],
    ['in chunks', 0, 9],
    ['of no kind', 4, 0o644],
    ['a socket', 4, 0o140644],
  ])('is refused: %s', (_what, at, value) => {
    const bytes = Buffer.from(hex, 'hex');
    bytes.writeUInt16LE(value, at);
    expect(said(() => decodeInode(bytes))).toBe('OCI_STORE_INVALID it has an inode of an unknown form');
  });
});

describe('a device number', () => {
  it.each([
    [0, 0, 0],
    [8, 1, 0x801],
    [1, 255, 0x1ff],
    [7, 256, 0x10_0700],
    [0xfff, 0xf_ffff, 0xffff_ffff],
    [0x123, 0x4_5678, 0x4561_2378],
  ])('of %i:%i is one word', (major, minor, word) => {
    expect(encodeDevice(major, minor)).toBe(word);
    expect(decodeDevice(word)).toEqual([major, minor]);
  });

  it('beyond 12 and 20 bits is refused', () => {
    expect(said(() => encodeDevice(0x1000, 1))).toBe('OCI_LAYER_WRITE a device has the number 4096:1');
    expect(said(() => encodeDevice(1, 0x10_0000))).toBe('OCI_LAYER_WRITE a device has the number 1:1048576');
  });
});

describe('a directory', () => {
  const named = (...lengths: number[]): { name: string; kind: 'file' }[] =>
    lengths.map((length) => ({ name: 'n'.repeat(length), kind: 'file' }));

  it('is cut where an entry does not fit into its block any more', () => {
    expect(layDirents([])).toEqual({ perBlock: [0], size: 0 });
    expect(layDirents(named(1, 2))).toEqual({ perBlock: [2], size: 27 });
    const fifteen = named(...Array.from({ length: 15 }, () => 255));
    expect(layDirents([...fifteen, ...named(BLOCK - 15 * 267 - 12)])).toEqual({
      perBlock: [16],
      size: BLOCK,
    });
    expect(layDirents([...fifteen, ...named(BLOCK - 15 * 267 - 11)])).toEqual({
      perBlock: [15, 1],
      size: BLOCK + BLOCK - 15 * 267 + 1,
    });
    expect(layDirents([...fifteen, ...named(255), ...fifteen, ...named(255, 1)])).toEqual({
      perBlock: [15, 15, 3],
      size: 2 * BLOCK + 2 * 267 + 13,
    });
  });

  const hex =
    '0500000001000000' +
    '24000200' +
    '0200000000000000' +
    '25000700' +
    '0300000000000000' +
    '28000100' +
    Buffer.from('.l\xffmend', 'latin1').toString('hex');

  it('has numbers, kinds and places of names, then the names', () => {
    const target = Buffer.alloc(45, 0xee);
    encodeDirents(target, 1, [
      { name: '.', kind: 'directory', nid: 2 ** 32 + 5 },
      { name: 'l\xffm', kind: 'symlink', nid: 2 },
      { name: 'end', kind: 'file', nid: 3 },
    ]);
    const written = target.toString('hex').replaceAll(/(?<=^.{24}|^.{48}|^.{72})ee/g, '00');
    expect(written).toBe(`ee${hex}ee`);
    expect(decodeDirents(Buffer.from(`${hex}0000`, 'hex'))).toEqual([
      { name: '.', nid: 2 ** 32 + 5 },
      { name: 'l\xffm', nid: 2 },
      { name: 'end', nid: 3 },
    ]);
    expect(decodeDirents(Buffer.from(hex, 'hex')).at(-1)?.name).toBe('end');
  });

  it('knows each kind by its number', () => {
    const kinds = ['file', 'directory', 'char', 'block', 'fifo', 'symlink'] as const;
    const target = Buffer.alloc(100);
    encodeDirents(
      target,
      0,
      kinds.map((kind) => ({ name: 'x', kind, nid: 1 })),
    );
    expect(kinds.map((_, index) => target[index * 12 + 10])).toEqual([1, 2, 3, 4, 5, 7]);
  });

  it.each([
    ['nothing', Buffer.alloc(0)],
    ['too short for an entry', Buffer.from(hex, 'hex').subarray(0, 11)],
    ['no entry', Buffer.alloc(24)],
    ['entries beyond its end', Buffer.from(hex, 'hex').subarray(0, 35)],
  ])('is refused: %s', (_what, block) => {
    expect(said(() => decodeDirents(block))).toBe('OCI_STORE_INVALID it has a damaged directory');
  });

  it('of one entry without a name is read', () => {
    const block = Buffer.alloc(12);
    block.writeUInt16LE(12, 8);
    expect(decodeDirents(block)).toEqual([{ name: '', nid: 0 }]);
  });
});

describe('attributes', () => {
  const xattrs = new Map([
    ['user.bc', Buffer.from('value')],
    ['security.capability', Buffer.from([1])],
    ['system.posix_acl_access', Buffer.from([2, 3])],
    ['system.posix_acl_default', Buffer.alloc(0)],
    ['trusted.t', Buffer.from([4, 5, 6])],
    ['user.\xff', Buffer.from('')],
  ]);
  const hex = [
    '00'.repeat(12),
    `0a060100${Buffer.from('capability').toString('hex')}0100`,
    '0002020002030000',
    '00030000',
    '0104030074040506',
    '02010500626376616c756500',
    '01010000ff000000',
  ].join('');

  it('stand in byte order, with a number for what their names begin with', () => {
    const size = xattrsSize(xattrs);
    const target = Buffer.alloc(size + 3);
    encodeXattrs(xattrs, target, 3);
    expect(target.toString('hex')).toBe('00'.repeat(3) + hex);
    expect(decodeXattrs(Buffer.from(hex, 'hex'))).toEqual(xattrs);
  });

  it('take no room where there are none', () => {
    expect([xattrsSize(undefined), xattrsSize(new Map())]).toEqual([0, 0]);
    expect(decodeXattrs(Buffer.alloc(12)).size).toBe(0);
    const full = Buffer.from(`${'00'.repeat(12)}0101030061010203`, 'hex');
    expect(decodeXattrs(full)).toEqual(new Map([['user.a', Buffer.from([1, 2, 3])]]));
    expect(xattrsSize(new Map([['user.abcd', Buffer.alloc(0)]]))).toBe(20);
    expect(xattrsSize(new Map([['user.abcd', Buffer.alloc(1)]]))).toBe(24);
  });

  it('have a most size together, and each of its name and value', () => {
    const large = 'NotErofs the layer has attributes that are larger than EROFS can hold';
    const four = (last: number): ReadonlyMap<string, Buffer> =>
      new Map([65_531, 65_531, 65_531, last].map((size, index) => [`user.${index}`, Buffer.alloc(size)]));
    expect(xattrsSize(four(65_523))).toBe(12 + 4 * 0xfffe);
    expect(said(() => xattrsSize(four(65_524)))).toBe(large);
    const write = (name: string, size: number): string =>
      said(() => encodeXattrs(new Map([[name, Buffer.alloc(size)]]), Buffer.alloc(70_000), 0));
    expect(write('user.a', 65_535)).toBe('done');
    expect(write('user.a', 65_536)).toBe(large);
    expect(write(`user.${'n'.repeat(255)}`, 1)).toBe('done');
    expect(write(`user.${'n'.repeat(256)}`, 1)).toBe(large);
    const unknown = 'NotErofs the layer has an attribute that EROFS has no number for';
    expect(write('btrfs.a', 1)).toBe(unknown);
    expect(said(() => xattrsSize(new Map([['user', Buffer.alloc(1)]])))).toBe(unknown);
  });

  it.each([
    ['of an unknown number', '00090000'],
    ['longer than what is there', '00010100'],
    ['with a name longer than what is there', '05010000'],
  ])('are refused: %s', (_what, entry) => {
    expect(said(() => decodeXattrs(Buffer.from('00'.repeat(12) + entry, 'hex')))).toBe(
      'OCI_STORE_INVALID it has a damaged attribute',
    );
  });
});

it('what cannot be said in EROFS, cannot be held by Linux or is damaged is told apart', () => {
  expect(new NotErofs('is odd')).toMatchObject({
    name: 'NotErofs',
    message: 'the layer is odd',
    because: 'is odd',
  });
  expect(unfit('it is odd')).toMatchObject({
    code: 'OCI_LAYER_WRITE',
    message: 'a layer cannot be written: it is odd',
    hint: 'the image was built wrongly or is hostile; ask its author',
  });
  expect(damaged('it is odd')).toMatchObject({
    code: 'OCI_STORE_INVALID',
    message: 'an unpacked layer of the store is not as it was written: it is odd',
    hint: 'run `skycap image fsck --repair`, then the same command again',
  });
});
