import type { Time } from './entry.ts';
import { invalid } from './limits.ts';

export type PaxRecords = ReadonlyMap<string, Buffer>;

/** GNU tar manual, "Storing Sparse Files", version 0.0: the pieces of the map are records of their own, in turn. */
const SPARSE_PIECE = ['GNU.sparse.offset', 'GNU.sparse.numbytes'];

/**
 * POSIX "pax Extended Header": `<length> <key>=<value>\n`, values are bytes. The last of equal keys wins, but for the
 * pieces of a sparse map, which come out as the map of version 0.1.
 */
export function decodePax(body: Buffer): PaxRecords {
  const records = new Map<string, Buffer>();
  const sparse: string[] = [];
  let at = 0;
  while (at < body.length) {
    const space = body.indexOf(0x20, at);
    const digits = space === -1 || space - at > 12 ? '' : body.toString('latin1', at, space);
    const length = /^[1-9][0-9]*$/.test(digits) ? Number(digits) : 0;
    const end = at + length;
    if (length === 0 || end > body.length || body[end - 1] !== 0x0a)
      throw invalid('a PAX record is malformed');
    const equals = body.indexOf(0x3d, space + 1);
    if (equals === -1 || equals >= end || equals === space + 1) throw invalid('a PAX record has no key');
    const key = body.toString('latin1', space + 1, equals);
    if (key.includes('\0')) throw invalid('a PAX key holds a NUL');
    const value = Buffer.from(body.subarray(equals + 1, end - 1));
    const piece = SPARSE_PIECE.indexOf(key);
    if (piece === -1) records.set(key, value);
    else if (piece !== sparse.length % 2 || value.includes(',')) throw invalid('a sparse map is malformed');
    else sparse.push(value.toString('latin1'));
    at = end;
  }
  if (sparse.length > 0) records.set('GNU.sparse.map', Buffer.from(sparse.join(',')));
  return records;
}

function encodeRecord(key: string, value: Buffer): Buffer {
  const rest = 1 + Buffer.byteLength(key, 'latin1') + 1 + value.length + 1;
  let total = rest + String(rest).length;
  if (String(total).length !== String(rest).length) total = rest + String(total).length;
  return Buffer.concat([Buffer.from(`${total} ${key}=`, 'latin1'), value, Buffer.from('\n')]);
}

/** Sorted by key, so equal records give equal bytes. */
export function encodePax(records: PaxRecords): Buffer {
  const keys = [...records.keys()].sort();
  return Buffer.concat(keys.map((key) => encodeRecord(key, records.get(key) as Buffer)));
}

/** Decimal seconds with an optional fraction of any length; beyond nanoseconds it is cut, as others do. */
export function parsePaxTime(value: string): Time {
  const match = /^(-?)([0-9]{1,15})(?:\.([0-9]*))?$/.exec(value);
  if (match === null) throw invalid('a PAX time is not a number');
  const whole = Number(match[2]);
  const nanos = Number((match[3] ?? '').slice(0, 9).padEnd(9, '0'));
  if (match[1] === '') return { seconds: whole, nanos };
  return nanos === 0 ? { seconds: -whole + 0, nanos } : { seconds: -whole - 1, nanos: 1_000_000_000 - nanos };
}

export function formatPaxTime(time: Time): string {
  if (time.nanos === 0) return String(time.seconds);
  if (time.seconds >= 0) return `${time.seconds}.${fraction(time.nanos)}`;
  return `-${-time.seconds - 1}.${fraction(1_000_000_000 - time.nanos)}`;
}

function fraction(nanos: number): string {
  return String(nanos).padStart(9, '0').replace(/0+$/, '');
}

export function parsePaxNumber(value: string, name: string): number {
  if (!/^[0-9]{1,16}$/.test(value)) throw invalid(`the PAX ${name} is not a number`);
  const parsed = Number(value);
  if (!Number.isSafeInteger(parsed)) throw invalid(`the PAX ${name} is out of range`);
  return parsed;
}
