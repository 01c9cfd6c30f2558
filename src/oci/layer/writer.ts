import type { TarEntry } from './entry.ts';
import {
  BLOCK,
  encodeHeader,
  type HeaderFields,
  MAX_OCTAL_ID,
  MAX_OCTAL_SIZE,
  sign,
  TYPE_FLAGS,
} from './header.ts';
import { encodePax, formatPaxTime } from './pax.ts';
import { pad } from './reader.ts';

const XATTR = 'SCHILY.xattr.';

export interface EncodeOptions {
  /**
   * Where a long name goes: into a PAX record (portable, for what we publish), or into GNU `L` and `K` records,
   * whose bytes GNU tar takes as they are instead of converting them from UTF-8. Large owners then stand in base-256.
   */
  readonly longNames: 'pax' | 'gnu';
}

export const PORTABLE: EncodeOptions = { longNames: 'pax' };
export const FOR_GNU_TAR: EncodeOptions = { longNames: 'gnu' };

/**
 * Header blocks of an entry, extension records first where it needs some. Equal entries give equal bytes.
 * The body and `padding(size)` follow. An entry of one header stands in `block`, if that is given.
 */
export function encodeEntry(
  entry: TarEntry,
  options: EncodeOptions = PORTABLE,
  block: Buffer = Buffer.allocUnsafe(BLOCK),
): Buffer {
  const records = new Map<string, Buffer>();
  const before: Buffer[] = [];
  const put = (key: string, value: string): void => void records.set(key, Buffer.from(value, 'latin1'));

  const path = entry.type === 'directory' && !entry.path.endsWith('/') ? `${entry.path}/` : entry.path;
  const split = splitName(path);
  if (split === undefined) {
    if (options.longNames === 'gnu') before.push(gnuLong('L', path));
    else put('path', path);
  }
  if (entry.linkPath.length > 100) {
    if (options.longNames === 'gnu') before.push(gnuLong('K', entry.linkPath));
    else put('linkpath', entry.linkPath);
  }
  // Base-256 is no part of PAX, and a record for each entry would double what GNU tar has to read.
  const mayBeLarge = options.longNames === 'gnu';
  if (entry.uid > MAX_OCTAL_ID && !mayBeLarge) put('uid', String(entry.uid));
  if (entry.gid > MAX_OCTAL_ID && !mayBeLarge) put('gid', String(entry.gid));
  if (entry.size > MAX_OCTAL_SIZE) put('size', String(entry.size));
  const { seconds, nanos } = entry.mtime;
  const plainTime = nanos === 0 && seconds >= 0 && seconds <= MAX_OCTAL_SIZE;
  if (!plainTime) put('mtime', formatPaxTime(entry.mtime));
  for (const [name, value] of entry.xattrs ?? []) records.set(XATTR + name, value);
  if (records.size > 0) before.push(metaRecord('x', 'PaxHeaders/entry', encodePax(records)));

  const fields: HeaderFields = {
    name: split?.name ?? path.slice(0, 100),
    prefix: split?.prefix ?? '',
    mode: entry.mode,
    uid: entry.uid > MAX_OCTAL_ID && !mayBeLarge ? 0 : entry.uid,
    gid: entry.gid > MAX_OCTAL_ID && !mayBeLarge ? 0 : entry.gid,
    size: entry.size > MAX_OCTAL_SIZE ? 0 : entry.size,
    seconds: plainTime ? seconds : Math.min(Math.max(seconds, 0), MAX_OCTAL_SIZE),
    typeFlag: TYPE_FLAGS[entry.type],
    linkName: entry.linkPath.slice(0, 100),
    devMajor: entry.devMajor,
    devMinor: entry.devMinor,
  };
  const header = encodeHeader(fields, block);
  return before.length === 0 ? header : Buffer.concat([...before, header]);
}

/** 100 bytes of name, or 155 of prefix, a slash and 100 of name. */
function splitName(path: string): { readonly name: string; readonly prefix: string } | undefined {
  if (path.length <= 100) return { name: path, prefix: '' };
  if (path.length > 256) return undefined;
  // The slash at the end of a directory is part of its name, so it cannot be where the name is cut.
  const slash = path.indexOf('/', path.length - 101);
  if (slash <= 0 || slash > 155 || slash === path.length - 1) return undefined;
  return { prefix: path.slice(0, slash), name: path.slice(slash + 1) };
}

function metaRecord(typeFlag: string, name: string, body: Buffer): Buffer {
  const header = encodeHeader({
    name,
    prefix: '',
    mode: 0o644,
    uid: 0,
    gid: 0,
    size: body.length,
    seconds: 0,
    typeFlag,
    linkName: '',
    devMajor: 0,
    devMinor: 0,
  });
  return Buffer.concat([header, body, padding(body.length)]);
}

function gnuLong(typeFlag: 'L' | 'K', value: string): Buffer {
  const record = metaRecord(typeFlag, '././@LongLink', Buffer.from(`${value}\0`, 'latin1'));
  // GNU readers ask for GNU magic before they believe an `L`.
  record.write('ustar  \0', 257, 'latin1');
  sign(record);
  return record;
}

const ZEROS = Buffer.alloc(BLOCK);

/** The zeros behind a body of `size` bytes, up to a whole block of 512. */
export function padding(size: number): Buffer {
  return ZEROS.subarray(0, pad(size));
}

/** The end of an archive. */
export function endOfArchive(): Buffer {
  return Buffer.alloc(2 * BLOCK);
}
