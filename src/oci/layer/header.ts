import type { EntryType, Time } from './entry.ts';
import { invalid } from './limits.ts';

/** POSIX ustar, GNU and V7 headers: pubs.opengroup.org "pax", and the GNU tar manual, "Basic Tar Format". */
export const BLOCK = 512;

/** A header block as it stands; names still without PAX and long-name records. */
export interface RawHeader {
  readonly name: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  readonly mtime: Time;
  readonly typeFlag: string;
  readonly linkName: string;
  readonly devMajor: number;
  readonly devMinor: number;
}

export function isZeroBlock(block: Buffer): boolean {
  for (let index = 0; index < block.length; index++) if (block[index] !== 0) return false;
  return true;
}

function text(block: Buffer, start: number, length: number): string {
  if (block[start] === 0) return '';
  const end = block.indexOf(0, start);
  return block.toString('latin1', start, end === -1 || end > start + length ? start + length : end);
}

const SPACE = 32;
const ZERO = 48;

/** Octal with blanks around it, or base-256 where the first bit is set. Blank is 0. As Go, and so Docker, reads it. */
function number(block: Buffer, start: number, length: number): number {
  if (((block[start] as number) & 0x80) !== 0) return base256(block, start, length);
  return octalNumber(block, start, length);
}

function octalNumber(block: Buffer, start: number, length: number): number {
  const end = start + length;
  let at = start;
  while (isBlank(block[at] as number)) at++;
  let value = 0;
  for (; at < end && !isBlank(block[at] as number); at++) {
    const digit = (block[at] as number) - ZERO;
    if (digit < 0 || digit > 7) throw invalid('a header field is not a number');
    value = value * 8 + digit;
  }
  // As Docker: after a NUL there may stand anything, after a blank only more of them.
  for (let rest = at; rest < end && block[at] === SPACE; rest++)
    if (!isBlank(block[rest] as number)) throw invalid('a header field is not a number');
  return value;
}

function isBlank(byte: number): boolean {
  return byte === SPACE || byte === 0;
}

/** Two's complement; the first bit only marks the form. */
function base256(block: Buffer, start: number, length: number): number {
  const digits = BigInt(`0x${block.toString('hex', start, start + length)}`);
  const value = Number(BigInt.asIntN(8 * length - 1, digits));
  if (!Number.isSafeInteger(value)) throw invalid('a header field is out of range');
  return value;
}

/** Some old archivers took bytes for signed numbers. */
function checkSum(block: Buffer): boolean {
  const stated = octalNumber(block, 148, 8);
  const unsigned = sumOf(block);
  if (stated === unsigned) return true;
  const others = Buffer.concat([block.subarray(0, 148), block.subarray(156)]);
  return stated === unsigned - 256 * others.filter((byte) => byte > 127).length;
}

/** With blanks in place of the sum itself. */
function sumOf(block: Buffer): number {
  let sum = 8 * SPACE;
  for (let index = 0; index < 148; index++) sum += block[index] as number;
  for (let index = 156; index < BLOCK; index++) sum += block[index] as number;
  return sum;
}

export function decodeHeader(block: Buffer): RawHeader {
  if (!checkSum(block)) throw invalid('a header has a wrong checksum');
  const magic = block[257] === 0 ? '' : block.toString('latin1', 257, 265);
  // Whatever its version says, as GNU tar and Docker read it: else they would see another name than we do.
  const ustar = magic.startsWith('ustar\0');
  const gnu = magic === 'ustar  \0';
  const base = text(block, 0, 100);
  const prefix = ustar ? text(block, 345, 155) : gnu ? prefixOverTimes(block) : '';
  const devices = ustar || gnu;
  return {
    name: prefix === '' ? base : `${prefix}/${base}`,
    mode: number(block, 100, 8),
    uid: number(block, 108, 8),
    gid: number(block, 116, 8),
    size: number(block, 124, 12),
    mtime: { seconds: number(block, 136, 12), nanos: 0 },
    typeFlag: String.fromCharCode(block[156] as number),
    linkName: text(block, 157, 100),
    devMajor: devices ? number(block, 329, 8) : 0,
    devMinor: devices ? number(block, 337, 8) : 0,
  };
}

/** Go before 1.8 could write a prefix where GNU has two times; Docker still reads it where those are no numbers. */
function prefixOverTimes(block: Buffer): string {
  if (isTime(block, 345) && isTime(block, 357)) return '';
  const prefix = text(block, 345, 155);
  return /^[\0-\x7f]*$/.test(prefix) ? prefix : '';
}

function isTime(block: Buffer, start: number): boolean {
  if (block[start] === 0) return true;
  return /^(?:[\x80-\xff]|[ \0]*[0-7]*(?:\0|[ \0]*$))/.test(block.toString('latin1', start, start + 12));
}

const USTAR = Buffer.from('ustar\x0000', 'latin1');

export const TYPE_FLAGS: Readonly<Record<EntryType, string>> = {
  file: '0',
  link: '1',
  symlink: '2',
  char: '3',
  block: '4',
  directory: '5',
  fifo: '6',
};

export const MAX_OCTAL_ID = 0o7777777;
export const MAX_OCTAL_SIZE = 0o77777777777;

/** Fields that fit; what does not has to go into PAX records before. */
export interface HeaderFields {
  readonly name: string;
  readonly prefix: string;
  readonly mode: number;
  /** Above `MAX_OCTAL_ID` in base-256, which GNU tar reads in any header. */
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  readonly seconds: number;
  readonly typeFlag: string;
  readonly linkName: string;
  readonly devMajor: number;
  readonly devMinor: number;
}

/** Digits, zeros before them, and a NUL behind. @throws OCI_LAYER_INVALID */
function octal(
  block: Buffer,
  start: number,
  field: { readonly length: number; readonly value: number },
): void {
  if (field.value < 0) throw invalid('a header field is negative');
  let left = field.value;
  for (let at = start + field.length - 2; at >= start; at--) {
    block[at] = ZERO + (left % 8);
    left = Math.floor(left / 8);
  }
}

/** Of 8 bytes, in base-256 where octal digits do not suffice. */
function wide(block: Buffer, start: number, value: number): void {
  if (value <= MAX_OCTAL_ID) octal(block, start, { length: 8, value });
  else {
    block[start] = 0x80;
    block.writeUIntBE(Math.floor(value / 2 ** 32), start + 1, 3);
    block.writeUInt32BE(value % 2 ** 32, start + 4);
  }
}

/** Deterministic: ustar magic, numeric owners only, all unused bytes zero. */
export function encodeHeader(fields: HeaderFields, block: Buffer = Buffer.allocUnsafe(BLOCK)): Buffer {
  block.fill(0);
  block.write(fields.name, 0, 'latin1');
  octal(block, 100, { length: 8, value: fields.mode });
  wide(block, 108, fields.uid);
  wide(block, 116, fields.gid);
  octal(block, 124, { length: 12, value: fields.size });
  octal(block, 136, { length: 12, value: fields.seconds });
  block[156] = fields.typeFlag.charCodeAt(0);
  block.write(fields.linkName, 157, 'latin1');
  USTAR.copy(block, 257);
  wide(block, 329, fields.devMajor);
  wide(block, 337, fields.devMinor);
  block.write(fields.prefix, 345, 'latin1');
  sign(block);
  return block;
}

/** Puts the sum over a header into it. */
export function sign(block: Buffer): void {
  octal(block, 148, { length: 7, value: sumOf(block) });
  block[154] = 0;
  block[155] = SPACE;
}
