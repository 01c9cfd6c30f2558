/**
 * Paths in a tar are bytes. They travel as byte strings: one character a byte (latin1), so that names that are not
 * UTF-8 survive and can still be map keys.
 */
export type ByteString = string;

/** `link` is a hard link. */
export type EntryType = 'file' | 'directory' | 'symlink' | 'link' | 'char' | 'block' | 'fifo';

export interface Time {
  /** Whole seconds since 1970, negative before. */
  readonly seconds: number;
  /** 0 to 999,999,999, always forward from `seconds`. */
  readonly nanos: number;
}

/** An entry of an archive, whatever kind of header it came in (L5). */
export interface TarEntry {
  readonly path: ByteString;
  readonly type: EntryType;
  /** Permission bits with setuid, setgid and sticky. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Bytes of the body; 0 for all but files. */
  readonly size: number;
  readonly mtime: Time;
  /** Target of a symlink or hard link, else empty. */
  readonly linkPath: ByteString;
  readonly devMajor: number;
  readonly devMinor: number;
  /** Names as in `SCHILY.xattr.<name>`; values are bytes. */
  readonly xattrs?: ReadonlyMap<string, Buffer>;
}

/** A text as the byte string of its UTF-8. */
export function toBytes(text: string): ByteString {
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** For messages only: bytes that are not UTF-8 and control characters are escaped. */
export function showPath(path: ByteString): string {
  const text = Buffer.from(path, 'latin1').toString('utf8');
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}
