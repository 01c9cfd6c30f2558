import { createHash } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { ErofsReader, type FoundInode } from '../../../src/oci/layer/erofs/reader.ts';
import type { TarEntry } from '../../../src/oci/layer/index.ts';

const FOLDER = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
let files = 0;

/** A name of its own for a file or a folder, gone when the work is done. */
export async function withPath<T>(work: (path: string) => Promise<T>): Promise<T> {
  const path = join(FOLDER, `skycap-fuzz-${process.pid}-${threadId}-${files++}`);
  try {
    return await work(path);
  } finally {
    rmSync(path, { recursive: true, force: true });
  }
}

export interface Found {
  readonly path: string;
  readonly nid: number;
  readonly entry: TarEntry;
  readonly bytes: number;
  readonly sha: string;
}

export function sha(body: Buffer): string {
  return createHash('sha1').update(body).digest('hex');
}

export function line(entry: TarEntry, digest: string): string {
  const xattrs = [...(entry.xattrs ?? [])].map(([name, value]) => `${name}=${value.toString('hex')}`).sort();
  const { path, type, mode, uid, gid, mtime, linkPath, devMajor, devMinor } = entry;
  return JSON.stringify([path, type, mode, uid, gid, mtime, linkPath, devMajor, devMinor, xattrs, digest]);
}

/** Everything that an image holds, in the order of its names; a damaged directory may hold itself. */
export async function readImage(path: string, most: number): Promise<readonly Found[]> {
  await using reader = await ErofsReader.open(path);
  const found: Found[] = [];
  const visit = async (inode: FoundInode, at: string): Promise<void> => {
    if (found.length >= most) return;
    const parts: Buffer[] = [];
    if (inode.kind === 'file') for await (const part of reader.body(inode)) parts.push(part);
    const body = Buffer.concat(parts);
    found.push({
      path: at,
      nid: inode.nid,
      entry: await reader.entry(inode, at),
      bytes: body.length,
      sha: sha(body),
    });
    if (inode.kind !== 'directory') return;
    for (const entry of await reader.names(inode)) {
      const child = await reader.child(entry);
      const below = at === '' ? entry.name : `${at}/${entry.name}`;
      // A name that is none leads nowhere by `find`, and is left out as it would be there.
      if (entry.name !== '' && !entry.name.includes('/')) {
        if (at === '' && found.length < most) {
          const again = await reader.find(below);
          if (again === undefined) throw new Error(`${below} is listed and not found`);
        }
        await visit(child, below);
      }
    }
  };
  await visit(await reader.root, '');
  return found;
}
