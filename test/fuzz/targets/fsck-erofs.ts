import { spawnSync } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Peer } from '../types.ts';
import { type Found, sha, withPath } from './erofs-tree.ts';
import type { Told } from './recorder.ts';

export interface Image {
  readonly bytes: Buffer;
  /** What the writer was told. */
  readonly told: readonly Told[];
  /** What our own reader finds. */
  readonly found: readonly Found[];
}

const KINDS: Readonly<Record<string, bigint>> = {
  file: 0o100000n,
  directory: 0o040000n,
  symlink: 0o120000n,
  char: 0o020000n,
  block: 0o060000n,
  fifo: 0o010000n,
};
/** Bytes that the folder's own name and what follows it leave of a path. */
const LONGEST = 3900;
/** Seconds that a 64-bit count of nanoseconds holds. */
const FARTHEST = 9e9;

/** Its exit status says nothing (1.5), its words do. */
function complaint(args: readonly string[], good: string): string | undefined {
  const { stdout, stderr, error } = spawnSync('fsck.erofs', ['-d3', ...args], { encoding: 'latin1' });
  if (error !== undefined) throw error;
  return stdout.includes(good) || stderr.includes(good) ? undefined : `${stdout}${stderr}`.trim();
}

/** Root alone can make what it extracts; anyone else has it check the image. */
const extracts = process.getuid?.() === 0;

function compare({ entry, sha: wanted }: Told, folder: string): string | undefined {
  const path = Buffer.from(join(folder, entry.path), 'latin1');
  const { mode, uid, gid, rdev, size, mtimeNs } = lstatSync(path, { bigint: true });
  const isFile = entry.type === 'file';
  // Changing the owner takes two bits off all but directories, and fsck.erofs does that last.
  const kept = entry.type === 'directory' ? 0o7777 : 0o1777;
  const own = [
    (KINDS[entry.type] as bigint) | BigInt(entry.mode & kept),
    BigInt(entry.uid),
    BigInt(entry.gid),
    ...(entry.type === 'char' || entry.type === 'block' ? [device(entry.devMajor, entry.devMinor)] : []),
    ...(isFile ? [BigInt(entry.size)] : []),
    ...(isTimed(entry) ? [BigInt(entry.mtime.seconds) * 1_000_000_000n + BigInt(entry.mtime.nanos)] : []),
  ];
  const theirs = [
    mode & (0o170000n | BigInt(kept)),
    uid,
    gid,
    ...(entry.type === 'char' || entry.type === 'block' ? [rdev] : []),
    ...(isFile ? [size] : []),
    ...(isTimed(entry) ? [mtimeNs] : []),
  ];
  if (own.join() !== theirs.join())
    return `${entry.path} is ${theirs.join()} where the layer has ${own.join()}`;
  if (isFile && sha(readFileSync(path)) !== wanted) return `${entry.path} has another body`;
  if (entry.type === 'symlink' && readlinkSync(path, 'latin1') !== entry.linkPath)
    return `${entry.path} leads elsewhere`;
  return undefined;
}

function isTimed({ mtime }: Told['entry']): boolean {
  return Math.abs(mtime.seconds) < FARTHEST;
}

/** As the C library packs the two numbers. */
function device(major: number, minor: number): bigint {
  const [high, low] = [BigInt(major), BigInt(minor)];
  return ((high & 0xfffn) << 8n) | (low & 0xffn) | ((low & ~0xffn) << 12n);
}

function names(folder: string): number {
  return readdirSync(Buffer.from(folder, 'latin1'), { withFileTypes: true, encoding: 'buffer' }).reduce(
    (sum, one) => sum + 1 + (one.isDirectory() ? names(join(folder, one.name.toString('latin1'))) : 0),
    0,
  );
}

export const fsckErofs: Peer<Image> = {
  name: 'fsck.erofs',
  every: 1,
  absent: () => {
    const { error } = spawnSync('fsck.erofs', ['-V']);
    return error === undefined ? undefined : 'fsck.erofs, the judge of images, is not here';
  },
  judge: async ({ bytes, told }) =>
    await withPath(async (image) => {
      writeFileSync(image, bytes);
      const problem = complaint(['--extract', image], 'No errors found');
      if (problem !== undefined) return { problem };
      if (!extracts || told.some(({ entry }) => entry.path.length > LONGEST)) return undefined;
      return await withPath(async (folder) => {
        const failed = complaint([`--extract=${folder}`, image], 'Extracted filesystem successfully');
        const wrong = failed ?? told.map((one) => compare(one, folder)).find((one) => one !== undefined);
        if (wrong !== undefined) return { problem: wrong };
        const count = names(folder);
        return count === told.length - 1 ? undefined : { problem: `${count} names of ${told.length - 1}` };
      });
    }),
};
