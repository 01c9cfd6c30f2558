import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { decodeHeader, encodeHeader, type HeaderFields, isZeroBlock } from './header.ts';

// Blocks are put together here by offset, as POSIX has them, and not by our own writer.
const SUM = 148;
type Fields = Readonly<Record<number, string>>;

function bare(fields: Fields): Buffer {
  const block = Buffer.alloc(512);
  for (const [at, text] of Object.entries(fields)) block.write(text, Number(at), 'latin1');
  return block;
}

function sumOf(block: Buffer, signed = false): number {
  let sum = 8 * 32;
  for (const [at, byte] of block.entries())
    if (at < SUM || at > 155) sum += signed && byte > 127 ? byte - 256 : byte;
  return sum;
}

function signed(block: Buffer, sum = sumOf(block)): Buffer {
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, SUM, 'latin1');
  return block;
}

const block = (fields: Fields): Buffer => signed(bare({ 0: 'f', 156: '0', 257: 'ustar\x0000', ...fields }));
const bytes = (hex: string): string => Buffer.from(hex, 'hex').toString('latin1');

function refusal(made: Buffer): readonly string[] {
  try {
    return ['taken', JSON.stringify(decodeHeader(made))];
  } catch (error) {
    return [codeFrom(error), (error as Error).message.replace(/^.*: /, '')];
  }
}

describe('a header is read', () => {
  it('by the offsets of POSIX', () => {
    const made = block({
      0: 'dir/file',
      100: '0006751\0',
      108: '0000123\0',
      116: '0000456\0',
      124: '00007654321\0',
      136: '14701234567\0',
      156: '2',
      157: 'to/there',
      329: '0000007\0',
      337: '0000010\0',
      345: 'a/prefix',
    });
    expect(decodeHeader(made)).toEqual({
      name: 'a/prefix/dir/file',
      mode: 0o6751,
      uid: 0o123,
      gid: 0o456,
      size: 0o7654321,
      mtime: { seconds: 0o14701234567, nanos: 0 },
      typeFlag: '2',
      linkName: 'to/there',
      devMajor: 7,
      devMinor: 8,
    });
  });

  it('with texts that fill their fields, and none of what follows', () => {
    const made = block({
      0: 'n'.repeat(100),
      100: '0000644\0',
      157: 'l'.repeat(100),
      345: 'p'.repeat(155) + 'q'.repeat(12),
    });
    expect(decodeHeader(made)).toMatchObject({
      name: `${'p'.repeat(155)}/${'n'.repeat(100)}`,
      mode: 0o644,
      linkName: 'l'.repeat(100),
    });
    expect(decodeHeader(block({ 0: `${'n'.repeat(99)}\0`, 157: 'l\0rest', 345: 'p\0q' }))).toMatchObject({
      name: `p/${'n'.repeat(99)}`,
      linkName: 'l',
    });
  });

  it.each<[string, string, object]>([
    ['POSIX', 'ustar\x0000', { name: 'p/f', devMajor: 1, devMinor: 2 }],
    ['GNU (as Go once wrote it)', 'ustar  \0', { name: 'p/f', devMajor: 1, devMinor: 2 }],
    ['GNU of another version', 'ustar  1', { name: 'f', devMajor: 0, devMinor: 0 }],
    ['V7', '', { name: 'f', devMajor: 0, devMinor: 0 }],
  ])('with prefix and device number where the form %s has them', (_form, magic, wanted) => {
    const made = bare({ 0: 'f', 257: magic, 329: '0000001\0', 337: '0000002\0', 345: 'p' });
    expect(decodeHeader(signed(made))).toMatchObject(wanted);
  });

  it.each<[string, Fields, string]>([
    ['no times', {}, 'f'],
    ['times', { 345: '13132027400\0', 357: ' 17 \0' }, 'f'],
    ['a time in base 256', { 345: '\x80', 357: '\xff' }, 'f'],
    ['a time and anything', { 345: '00000000017\0', 357: 'x' }, '00000000017/f'],
    ['a number that is none', { 345: '0000000 17\0' }, '0000000 17/f'],
    ['a name, which could be a number', { 345: 'usr/share\0' }, 'usr/share/f'],
    ['text of more than seven bits', { 345: 'usr/\xe9\0' }, 'f'],
  ])('of GNU form with a prefix only where %s stand, as Docker has it', (_what, fields, name) => {
    expect(decodeHeader(signed(bare({ 0: 'f', 257: 'ustar  \0', ...fields }))).name).toBe(name);
  });

  it.each<[string, number]>([
    ['0000000\0', 0],
    ['17   \0  ', 15],
    ['0000017\0', 15],
    ['0000017 ', 15],
    ['17\0\0\0\0\0\0', 15],
    ['17\x001\x001\0\0', 15],
    ['     17 ', 15],
    ['\0\0\x0017\0\0\0', 15],
    ['      17', 15],
    ['        ', 0],
    ['\0\0\0\0\0\0\0\0', 0],
    ['12345670', 0o12345670],
    ['77777777', 0o77777777],
    [bytes('8000000000000000'), 0],
    [bytes('8000000000200000'), 2 ** 21],
    [bytes('80000000ffffffff'), 2 ** 32 - 1],
    [bytes('801fffffffffffff'), 2 ** 53 - 1],
    [bytes('ffffffffffffffff'), -1],
    [bytes('fffffffffffffe0c'), -500],
    [bytes('ffe0000000000001'), -(2 ** 53) + 1],
  ])('with the number %j as %d, whatever stands behind it', (field, value) => {
    const { uid, gid } = decodeHeader(block({ 108: field, 116: '0000005\0' }));
    expect([uid, gid]).toEqual([value, 5]);
    expect(decodeHeader(block({ 337: field, 345: '7' })).devMinor).toBe(value);
  });

  it('with long numbers of all their bytes', () => {
    const { size, mtime } = decodeHeader(
      block({ 124: '777777777777', 136: bytes('ffffffffffffffffffff0000') }),
    );
    expect([size, mtime.seconds]).toEqual([8 ** 12 - 1, -65_536]);
  });

  it.each<[string, string]>([
    ['0000008\0', 'a header field is not a number'],
    ['000000/\0', 'a header field is not a number'],
    ['-000001\0', 'a header field is not a number'],
    ['0x00001\0', 'a header field is not a number'],
    ['0000 17\0', 'a header field is not a number'],
    ['17 \x001\0\0\0', 'a header field is not a number'],
    ['00000001\x39', 'a header field is not a number'],
    [bytes('8020000000000000'), 'a header field is out of range'],
    [bytes('ffe0000000000000'), 'a header field is out of range'],
    [bytes('8100000000000000'), 'a header field is out of range'],
    [bytes('bfffffffffffffff'), 'a header field is out of range'],
    [bytes('c000000000000000'), 'a header field is out of range'],
  ])('and not with the number %j', (field, why) => {
    expect(refusal(block({ 108: field.slice(0, 8), 116: field.slice(8) }))).toEqual([
      'OCI_LAYER_INVALID',
      why,
    ]);
  });

  it('only with its right sum', () => {
    const made = block({});
    const wrong = ['OCI_LAYER_INVALID', 'a header has a wrong checksum'];
    for (const [sum, result] of [
      [sumOf(made), 'taken'],
      [sumOf(made) + 1, wrong[0]],
      [sumOf(made) - 1, wrong[0]],
      [sumOf(made) - 256, wrong[0]],
    ] as const)
      expect(refusal(signed(block({}), sum))[0], `${sum}`).toBe(result);
    const inBytes = block({});
    inBytes.write(bytes(`8000000000${sumOf(made).toString(16).padStart(6, '0')}`), SUM, 'latin1');
    expect(refusal(inBytes)[0]).toBe(wrong[0]);
    for (const at of [0, 147, 156, 157, 511]) {
      const changed = Buffer.from(made);
      changed[at] = (changed[at] as number) ^ 1;
      expect(refusal(changed), `${at}`).toEqual(wrong);
    }
  });

  it('with a sum over signed bytes, as some archivers made it', () => {
    const odd = bare({ 0: 'a\x7f\x80\xff', 156: '\x80', 511: '\xff' });
    expect(sumOf(odd, true)).toBe(sumOf(odd) - 4 * 256);
    expect(decodeHeader(signed(Buffer.from(odd), sumOf(odd, true))).name).toBe('a\x7f\x80\xff');
    expect(decodeHeader(signed(Buffer.from(odd))).name).toBe('a\x7f\x80\xff');
    for (const less of [3, 5])
      expect(refusal(signed(Buffer.from(odd), sumOf(odd) - less * 256))[0]).toBe('OCI_LAYER_INVALID');
  });
});

it('a block is zero where all of its bytes are', () => {
  expect(isZeroBlock(Buffer.alloc(512))).toBe(true);
  for (const at of [0, 1, 255, 511]) {
    const made = Buffer.alloc(512);
    made[at] = 1;
    expect(isZeroBlock(made)).toBe(false);
  }
});

describe('a header is written', () => {
  const fields: HeaderFields = {
    name: 'dir/file',
    prefix: 'a/\xfe',
    mode: 0o6751,
    uid: 0o123,
    gid: 0o456,
    size: 0o7654321,
    seconds: 0o14701234567,
    typeFlag: '2',
    linkName: 'to/\xff',
    devMajor: 7,
    devMinor: 8,
  };

  it('by the offsets of POSIX, and all else is zero', () => {
    const wanted = bare({
      0: 'dir/file',
      100: '0006751\0',
      108: '0000123\0',
      116: '0000456\0',
      124: '00007654321\0',
      136: '14701234567\0',
      156: '2',
      157: 'to/\xff',
      257: 'ustar\x0000',
      329: '0000007\0',
      337: '0000010\0',
      345: 'a/\xfe',
    });
    expect(encodeHeader(fields).toString('latin1')).toBe(signed(wanted).toString('latin1'));
  });

  it('with owners and devices in base 256 where seven octal digits do not hold them', () => {
    const large = encodeHeader({
      ...fields,
      uid: 2 ** 21 - 1,
      gid: 2 ** 21,
      devMajor: 2 ** 32,
      devMinor: 2 ** 40 + 5,
    });
    const field = (at: number): string => large.toString('hex', at, at + 8);
    expect(large.toString('latin1', 108, 116)).toBe('7777777\0');
    expect([field(116), field(329), field(337)]).toEqual([
      '8000000000200000',
      '8000000100000000',
      '8000010000000005',
    ]);
  });

  it('and no number below zero is', () => {
    for (const change of [{ mode: -1 }, { uid: -1 }, { gid: -1 }, { size: -1 }, { seconds: -1 }]) {
      const made = (): Buffer => encodeHeader({ ...fields, ...change });
      expect(made).toThrow('a header field is negative');
    }
    expect(encodeHeader({ ...fields, uid: 0 }).toString('latin1', 108, 116)).toBe('0000000\0');
  });
});
