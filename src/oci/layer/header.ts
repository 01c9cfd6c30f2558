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
  const end = block.indexOf(0, start);
  return block.toString('latin1', start, end === -1 || end > start + length ? start + length : end);
}

/** Octal with blanks around it, or base-256 where the first bit is set. Blank is 0. */
function number(block: Buffer, start: number, length: number): number {
  const first = block[start] as number;
  if ((first & 0x80) !== 0) return base256(block, start, length);
  const field = block.toString('latin1', start, start + length).replace(/^[ \0]+|[ \0].*$/gs, '');
  if (field === '') return 0;
  if (!/^[0-7]+$/.test(field)) throw invalid(`a header field is not a number`);
  return Number.parseInt(field, 8);
}

function base256(block: Buffer, start: number, length: number): number {
  const negative = ((block[start] as number) & 0x40) !== 0;
  let value = negative ? -1n : 0n;
  for (let index = 0; index < length; index++) {
    const byte = BigInt(index === 0 ? (block[start] as number) & 0x7f : (block[start + index] as number));
    if (index === 0 && negative) value = (value << 8n) | byte | 0x80n;
    else value = (value << 8n) | byte;
  }
  if (value > BigInt(Number.MAX_SAFE_INTEGER) || value < BigInt(Number.MIN_SAFE_INTEGER)) {
    throw invalid('a header field is out of range');
  }
  return Number(value);
}

function checkSum(block: Buffer): boolean {
  let unsigned = 0;
  let signed = 0;
  for (let index = 0; index < BLOCK; index++) {
    const byte = index >= 148 && index < 156 ? 32 : (block[index] as number);
    unsigned += byte;
    signed += byte > 127 ? byte - 256 : byte;
  }
  const stated = number(block, 148, 8);
  return stated === unsigned || stated === signed;
}

export function decodeHeader(block: Buffer): RawHeader {
  if (!checkSum(block)) throw invalid('a header has a wrong checksum');
  const magic = block.toString('latin1', 257, 265);
  const ustar = magic === 'ustar\x0000';
  const gnu = magic === 'ustar  \0';
  const base = text(block, 0, 100);
  const prefix = ustar ? text(block, 345, 155) : '';
  const devices = ustar || gnu;
  return {
    name: prefix === '' ? base : `${prefix}/${base}`,
    mode: number(block, 100, 8),
    uid: number(block, 108, 8),
    gid: number(block, 116, 8),
    size: number(block, 124, 12),
    mtime: { seconds: number(block, 136, 12), nanos: 0 },
    typeFlag: block.toString('latin1', 156, 157),
    linkName: text(block, 157, 100),
    devMajor: devices ? number(block, 329, 8) : 0,
    devMinor: devices ? number(block, 337, 8) : 0,
  };
}

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
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  readonly seconds: number;
  readonly typeFlag: string;
  readonly linkName: string;
  readonly devMajor: number;
  readonly devMinor: number;
}

function octal(
  block: Buffer,
  start: number,
  field: { readonly length: number; readonly value: number },
): void {
  block.write(field.value.toString(8).padStart(field.length - 1, '0'), start, 'latin1');
}

/** Deterministic: ustar magic, numeric owners only, all unused bytes zero. */
export function encodeHeader(fields: HeaderFields): Buffer {
  const block = Buffer.alloc(BLOCK);
  block.write(fields.name, 0, 'latin1');
  octal(block, 100, { length: 8, value: fields.mode });
  octal(block, 108, { length: 8, value: fields.uid });
  octal(block, 116, { length: 8, value: fields.gid });
  octal(block, 124, { length: 12, value: fields.size });
  octal(block, 136, { length: 12, value: fields.seconds });
  block.write(fields.typeFlag, 156, 'latin1');
  block.write(fields.linkName, 157, 'latin1');
  block.write('ustar\x0000', 257, 'latin1');
  octal(block, 329, { length: 8, value: fields.devMajor });
  octal(block, 337, { length: 8, value: fields.devMinor });
  block.write(fields.prefix, 345, 'latin1');
  let sum = 8 * 32;
  for (let index = 0; index < BLOCK; index++) sum += block[index] as number;
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}
