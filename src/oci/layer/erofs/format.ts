import { damaged, NotErofs, unfit } from './errors.ts';

/**
 * The on-disk form of EROFS without compression (Linux, fs/erofs/erofs_fs.h): 4 KiB blocks, extended inodes, no
 * incompatible features, so that every kernel since 5.4 and the fsck of every distribution reads it.
 */
export const BLOCK = 4096;
/** Node ids count these from the first metadata block. */
export const SLOT = 32;
export const INODE = 64;
const SUPER = 1024;
const MAGIC = 0xe0f5_e1e2;
const FEATURES = 0x1 | 0x2; // The superblock has a checksum; times are those of modification.
const DIRENT = 12;

export const PLAIN = 0;
export const INLINE = 2;

/** Bits of `st_mode`. */
export const KIND = {
  file: 0o100000,
  directory: 0o040000,
  symlink: 0o120000,
  char: 0o020000,
  block: 0o060000,
  fifo: 0o010000,
} as const;

const DIRENT_TYPE: Readonly<Record<keyof typeof KIND, number>> = {
  file: 1,
  directory: 2,
  char: 3,
  block: 4,
  fifo: 5,
  symlink: 7,
};

export type Kind = keyof typeof KIND;

export interface SuperFields {
  readonly rootNid: number;
  readonly inodes: number;
  readonly blocks: number;
  /** First block of the inodes. */
  readonly metaBlock: number;
}

/** The first block: 1024 empty bytes, the superblock, nothing. No name, no UUID, no time: same layer, same bytes. */
export function encodeFirstBlock(fields: SuperFields): Buffer {
  const block = Buffer.alloc(BLOCK);
  block.writeUInt32LE(MAGIC, SUPER);
  block.writeUInt32LE(FEATURES, SUPER + 8);
  block.writeUInt8(Math.log2(BLOCK), SUPER + 12);
  block.writeUInt16LE(fields.rootNid, SUPER + 14);
  block.writeBigUInt64LE(BigInt(fields.inodes), SUPER + 16);
  block.writeUInt32LE(fields.blocks, SUPER + 36);
  block.writeUInt32LE(fields.metaBlock, SUPER + 40);
  block.writeUInt32LE(crc32c(block.subarray(SUPER)), SUPER + 4);
  return block;
}

/** @throws OCI_STORE_INVALID for what is not the first block of an image of ours */
export function decodeFirstBlock(block: Buffer): SuperFields {
  if (block.length !== BLOCK || block.readUInt32LE(SUPER) !== MAGIC) throw damaged('it is no EROFS image');
  const copy = Buffer.from(block.subarray(SUPER));
  const sum = copy.readUInt32LE(4);
  copy.writeUInt32LE(0, 4);
  if (copy.readUInt32LE(8) !== FEATURES || copy.readUInt32LE(80) !== 0 || sum !== crc32c(copy))
    throw damaged('its superblock is damaged');
  return {
    rootNid: copy.readUInt16LE(14),
    inodes: Number(copy.readBigUInt64LE(16)),
    blocks: copy.readUInt32LE(36),
    metaBlock: copy.readUInt32LE(40),
  };
}

export interface InodeFields {
  readonly layout: typeof PLAIN | typeof INLINE;
  readonly kind: Kind;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  readonly seconds: number;
  readonly nanos: number;
  readonly links: number;
  /** First block of the body, or the device number. */
  readonly start: number;
  readonly ino: number;
  /** Bytes of the encoded attributes, as `xattrsSize` gives them. */
  readonly xattrs: number;
}

export function encodeInode(target: Buffer, at: number, inode: InodeFields): void {
  target.writeUInt16LE(1 | (inode.layout << 1), at);
  target.writeUInt16LE(inode.xattrs === 0 ? 0 : (inode.xattrs - XATTR_HEADER) / 4 + 1, at + 2);
  target.writeUInt16LE(KIND[inode.kind] | inode.mode, at + 4);
  target.writeUInt32LE(inode.size % 2 ** 32, at + 8);
  target.writeUInt32LE(Math.floor(inode.size / 2 ** 32), at + 12);
  target.writeUInt32LE(inode.start, at + 16);
  target.writeUInt32LE(inode.ino, at + 20);
  target.writeUInt32LE(inode.uid, at + 24);
  target.writeUInt32LE(inode.gid, at + 28);
  target.writeBigInt64LE(BigInt(inode.seconds), at + 32);
  target.writeUInt32LE(inode.nanos, at + 40);
  target.writeUInt32LE(inode.links, at + 44);
}

export function decodeInode(bytes: Buffer): InodeFields {
  const format = bytes.readUInt16LE(0);
  const layout = (format >> 1) & 7;
  const mode = bytes.readUInt16LE(4);
  const kind = (Object.keys(KIND) as Kind[]).find((one) => KIND[one] === (mode & 0o170000));
  if ((format & 1) === 0 || (layout !== PLAIN && layout !== INLINE) || kind === undefined)
    throw damaged('it has an inode of an unknown form');
  const count = bytes.readUInt16LE(2);
  return {
    layout,
    kind,
    mode: mode & 0o7777,
    size: bytes.readUInt32LE(8) + bytes.readUInt32LE(12) * 2 ** 32,
    start: bytes.readUInt32LE(16),
    ino: bytes.readUInt32LE(20),
    uid: bytes.readUInt32LE(24),
    gid: bytes.readUInt32LE(28),
    seconds: Number(bytes.readBigInt64LE(32)),
    nanos: bytes.readUInt32LE(40),
    links: bytes.readUInt32LE(44),
    xattrs: count === 0 ? 0 : XATTR_HEADER + (count - 1) * 4,
  };
}

/** Linux, include/linux/kdev_t.h, `new_encode_dev`: 12 bits and 20 bits. */
export function encodeDevice(major: number, minor: number): number {
  // In base-256 a header can hold negative ones too.
  if (!(major >= 0 && major <= 0xfff && minor >= 0 && minor <= 0xf_ffff))
    throw unfit(`a device has the number ${major}:${minor}`);
  return ((minor & 0xff) | (major << 8) | ((minor & 0xfff00) << 12)) >>> 0;
}

export function decodeDevice(word: number): readonly [number, number] {
  return [(word >>> 8) & 0xfff, (word & 0xff) | ((word >>> 12) & 0xfff00)];
}

export interface Dirent {
  readonly name: string;
  readonly kind: Kind;
}

/** How many entries each block of a directory takes, and its size. `entries` stand in byte order. */
export function layDirents(entries: readonly Dirent[]): {
  readonly perBlock: readonly number[];
  readonly size: number;
} {
  const perBlock: number[] = [];
  let used = 0;
  let count = 0;
  for (const { name } of entries) {
    const needed = DIRENT + name.length;
    if (used + needed > BLOCK) {
      perBlock.push(count);
      used = 0;
      count = 0;
    }
    used += needed;
    count++;
  }
  perBlock.push(count);
  return { perBlock, size: (perBlock.length - 1) * BLOCK + used };
}

/** One block of a directory: its entries, then their names. What is left stays as it is. */
export function encodeDirents(
  target: Buffer,
  at: number,
  entries: readonly (Dirent & { readonly nid: number })[],
): void {
  let name = entries.length * DIRENT;
  for (const [index, entry] of entries.entries()) {
    const here = at + index * DIRENT;
    target.writeUInt32LE(entry.nid % 2 ** 32, here);
    target.writeUInt32LE(Math.floor(entry.nid / 2 ** 32), here + 4);
    target.writeUInt16LE(name, here + 8);
    target.writeUInt8(DIRENT_TYPE[entry.kind], here + 10);
    name += target.write(entry.name, at + name, 'latin1');
  }
}

export interface FoundDirent {
  readonly name: string;
  readonly nid: number;
}

/** What `encodeDirents` wrote; `block` ends where the directory does. */
export function decodeDirents(block: Buffer): readonly FoundDirent[] {
  const count = block.length < DIRENT ? 0 : block.readUInt16LE(8) / DIRENT;
  if (count < 1 || count * DIRENT > block.length) throw damaged('it has a damaged directory');
  return Array.from({ length: count }, (_, index) => {
    const at = index * DIRENT;
    const end = index + 1 < count ? block.readUInt16LE(at + DIRENT + 8) : block.length;
    const name = block.toString('latin1', block.readUInt16LE(at + 8), end);
    const nul = name.indexOf('\0');
    return {
      name: nul === -1 ? name : name.slice(0, nul),
      nid: block.readUInt32LE(at) + block.readUInt32LE(at + 4) * 2 ** 32,
    };
  });
}

/** What stands before the attributes of an inode. */
export const XATTR_HEADER = 12;
const XATTR_ENTRY = 4;
/** The prefix is a number on disk; the two of access control lists are the whole name. */
const PREFIXES: readonly (readonly [string, number])[] = [
  ['user.', 1],
  ['system.posix_acl_access', 2],
  ['system.posix_acl_default', 3],
  ['trusted.', 4],
  ['security.', 6],
];

const LARGE = 'has attributes that are larger than EROFS can hold';

export type Xattrs = ReadonlyMap<string, Buffer>;

/** Rounded up to what an inode counts in; 0 for none. */
export function xattrsSize(xattrs: Xattrs | undefined): number {
  if (xattrs === undefined || xattrs.size === 0) return 0;
  let size = XATTR_HEADER;
  for (const [name, value] of xattrs) size += pad4(XATTR_ENTRY + splitName(name).rest.length + value.length);
  if ((size - XATTR_HEADER) / 4 + 1 > 0xffff) throw new NotErofs(LARGE);
  return size;
}

export function encodeXattrs(xattrs: Xattrs, target: Buffer, at: number): void {
  let here = at + XATTR_HEADER;
  // In byte order, so that the bytes do not depend on the order in the archive.
  for (const [name, value] of [...xattrs].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const { index, rest } = splitName(name);
    if (rest.length > 255 || value.length > 0xffff) throw new NotErofs(LARGE);
    target.writeUInt8(rest.length, here);
    target.writeUInt8(index, here + 1);
    target.writeUInt16LE(value.length, here + 2);
    target.write(rest, here + XATTR_ENTRY, 'latin1');
    value.copy(target, here + XATTR_ENTRY + rest.length);
    here += pad4(XATTR_ENTRY + rest.length + value.length);
  }
}

export function decodeXattrs(bytes: Buffer): Xattrs {
  const found = new Map<string, Buffer>();
  for (let at = XATTR_HEADER; at + XATTR_ENTRY <= bytes.length; ) {
    const names = at + XATTR_ENTRY;
    const values = names + bytes.readUInt8(at);
    const end = values + bytes.readUInt16LE(at + 2);
    const prefix = PREFIXES.find(([, index]) => index === bytes.readUInt8(at + 1))?.[0];
    if (prefix === undefined || end > bytes.length) throw damaged('it has a damaged attribute');
    found.set(prefix + bytes.toString('latin1', names, values), bytes.subarray(values, end));
    at += pad4(end - at);
  }
  return found;
}

function splitName(name: string): { readonly index: number; readonly rest: string } {
  for (const [prefix, index] of PREFIXES)
    if (name.startsWith(prefix)) return { index, rest: name.slice(prefix.length) };
  throw new NotErofs('has an attribute that EROFS has no number for');
}

function pad4(size: number): number {
  return size + ((4 - (size % 4)) % 4);
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f6_3b78 : value >>> 1;
  return value;
});

/** CRC-32C as the kernel takes it: from all ones, and not inverted at the end. */
function crc32c(bytes: Buffer): number {
  let sum = 0xffff_ffff;
  for (const byte of bytes) sum = (CRC_TABLE[(sum ^ byte) & 0xff] as number) ^ (sum >>> 8);
  return sum >>> 0;
}
