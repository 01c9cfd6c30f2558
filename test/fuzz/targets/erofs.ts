import { readFileSync, writeFileSync } from 'node:fs';
import { openErofsSink } from '../../../src/oci/layer/erofs/sink.ts';
import type { EntryType, TarEntry } from '../../../src/oci/layer/index.ts';
import { mutateBytes } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { Case, Target } from '../types.ts';
import { type Found, line, readImage, sha, withPath } from './erofs-tree.ts';

const BLOCK = 4096;
const SUPER = 1024;
/** A damaged directory may hold itself. */
const MOST = 60;

const NAMES = ['security.capability', 'trusted.overlay.opaque', 'user.a', 'system.posix_acl_access'];

/** Few entries, with lengths around what fits into a block. */
async function make(random: Random): Promise<Case> {
  return await withPath((path) => makeAt(path, random));
}

async function makeAt(path: string, random: Random): Promise<Case> {
  const sink = await openErofsSink(path);
  const lines: string[] = [];
  const put = async (entry: TarEntry, body: Buffer): Promise<void> => {
    const parts = body.length === 0 ? [] : [body];
    await sink.put(entry, async () => parts.shift());
    lines.push(line(entry.path === '.' ? { ...entry, path: '' } : entry, sha(body)));
  };
  const empty = Buffer.alloc(0);
  await put({ ...plain(random), path: '.', type: 'directory' }, empty);
  const directories = [''];
  for (let count = random.below(random.chance(0.1) ? 40 : 8); count > 0; count--) {
    const above = random.pick(directories);
    const own = `${count}${random.text('abc\xe9', random.pick([1, 20, 253]))}`;
    const name = above === '' ? own : `${above}/${own}`;
    const type = random.pick<EntryType>(['file', 'file', 'directory', 'symlink', 'char', 'block', 'fifo']);
    const body = Buffer.alloc(type === 'file' ? random.pick([0, 1, 4000, 4096, 4097]) : 0, count);
    const target = random.pick([1, 60, 3900, 4095]);
    const device = type === 'char' || type === 'block';
    await put(
      {
        ...plain(random),
        path: name,
        type,
        size: body.length,
        linkPath: type === 'symlink' ? random.text('xy/', target) : '',
        devMajor: device ? random.pick([0, 1, 0xfff]) : 0,
        devMinor: device ? random.pick([0, 255, 256, 0xf_ffff]) : 0,
      },
      body,
    );
    if (type === 'directory') directories.push(name);
  }
  await sink.finish();
  return { bytes: readFileSync(path), accepted: true, value: lines.sort().join('\n') };
}

function plain(random: Random): TarEntry {
  const xattrs = new Map(
    NAMES.filter(() => random.chance(0.2)).map((name) => [
      name,
      Buffer.alloc(random.pick([0, 1, 3, 300]), 7),
    ]),
  );
  return {
    path: '',
    type: 'file',
    mode: random.pick([0o644, 0o755, 0o4755, 0o1777]),
    uid: random.pick([0, 2 ** 32 - 2]),
    gid: random.pick([0, 1000]),
    size: 0,
    mtime: { seconds: random.pick([0, -1, 2 ** 33]), nanos: random.pick([0, 999_999_999]) },
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
    ...(xattrs.size === 0 ? {} : { xattrs }),
  };
}

async function parse(bytes: Buffer): Promise<readonly Found[]> {
  return await withPath(async (path) => {
    writeFileSync(path, bytes);
    return await readImage(path, MOST);
  });
}

/** CRC-32C bit by bit, so that a changed superblock is read at all. */
function sealed(bytes: Buffer): Buffer {
  if (bytes.length < BLOCK) return bytes;
  bytes.writeUInt32LE(0, SUPER + 4);
  let sum = 0xffff_ffff;
  for (const byte of bytes.subarray(SUPER, BLOCK)) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0x82f6_3b78 : sum >>> 1;
  }
  bytes.writeUInt32LE(sum >>> 0, SUPER + 4);
  return bytes;
}

function mutate(bytes: Buffer, random: Random, other: Buffer): Buffer {
  if (random.chance(0.1) || bytes.length < BLOCK) return mutateBytes(bytes, random, other);
  const copy = Buffer.from(bytes);
  const inSuper = random.chance(0.15);
  // Metadata is what is not a body: two bytes of it in three are zero, so what is set is aimed at.
  const start = inSuper ? SUPER : random.pick([BLOCK, Math.max(copy.length - BLOCK, BLOCK)]);
  const length = inSuper ? 128 : copy.length - start;
  if (length <= 0) return copy;
  for (let tries = 0; tries < 4; tries++) {
    const at = start + random.below(length);
    if (copy[at] === 0 && tries < 3) continue;
    copy[at] = random.pick([(copy[at] as number) ^ (1 << random.below(8)), 0, 0xff, random.below(256)]);
    break;
  }
  return inSuper ? sealed(copy) : copy;
}

export const target: Target<readonly Found[]> = {
  name: 'erofs',
  judgedBy: 'the tree that was written; sizes of bodies',
  batch: 16,
  sources: {
    'src/oci/layer/erofs/reader.ts': 'all',
    'src/oci/layer/erofs/format.ts': [
      'decodeFirstBlock',
      'decodeInode',
      'decodeDevice',
      'decodeDirents',
      'decodeXattrs',
      'crc32c',
    ],
  },
  planted: {
    file: 'src/oci/layer/erofs/format.ts',
    from: 'XATTR_HEADER + (count - 1) * 4',
    to: 'XATTR_HEADER + count * 4',
  },
  make,
  mutate,
  parse,
  canonical: (value) =>
    value
      .map(({ entry, sha: digest }) => line(entry, digest))
      .sort()
      .join('\n'),
  judge: (value) => {
    const wrong = value.find(({ entry, bytes }) => entry.type === 'file' && bytes !== entry.size);
    return wrong === undefined
      ? undefined
      : `${wrong.path} has ${wrong.bytes} bytes and says ${wrong.entry.size}`;
  },
};
