import { randomBytes } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isDigest } from '../names/index.ts';
import type { Digest } from '../types.ts';
import type { Reached } from './graph.ts';
import { readRecordAt } from './layers.ts';
import type { Layout } from './layout.ts';
import { tryLock } from './lock.ts';
import { step } from './steps.ts';
import { removeStubbornly } from './unpacking.ts';

export interface Pruned {
  readonly blobs: number;
  readonly layers: number;
  readonly freedBytes: number;
}

/**
 * Moves what is not reached out of the way. The caller holds the store's lock, so no name and no lease appears
 * between the look and the move; the removal itself comes after the lock (`emptyTrash`).
 */
export async function moveUnreached(layout: Layout, reached: Reached, olderThanMs: number): Promise<Pruned> {
  const limit = Date.now() - olderThanMs;
  let blobs = 0;
  let freedBytes = 0;
  for await (const { digest, path } of blobFiles(layout)) {
    if (reached.blobs.has(digest)) continue;
    const info = await stat(path).catch(() => undefined);
    if (info === undefined || info.mtimeMs > limit) continue;
    if (!(await moveAside(layout, path))) continue;
    step('prune.blob');
    blobs++;
    freedBytes += info.size;
  }
  let layers = 0;
  for (const name of await readdir(layout.layers)) {
    if (name.startsWith('tmp-')) continue;
    const path = join(layout.layers, name);
    const record = await readRecordAt(path);
    if (record !== undefined && reached.diffIds.has(record.diffId)) continue;
    const info = await stat(path).catch(() => undefined);
    if (info === undefined || info.mtimeMs > limit) continue;
    if (!(await moveAside(layout, path))) continue;
    step('prune.layer');
    layers++;
  }
  return { blobs, layers, freedBytes };
}

/** Partial blobs and half unpacked layers whose process is gone: their lock is free. */
export async function sweepUnfinished(layout: Layout, olderThanMs: number): Promise<readonly string[]> {
  const limit = Date.now() - olderThanMs;
  const swept: string[] = [];
  const sweep = async (path: string, lockPath: string, remove: () => Promise<void>): Promise<void> => {
    const info = await stat(path).catch(() => undefined);
    if (info === undefined || info.mtimeMs > limit) return;
    using lock = tryLock(lockPath);
    if (lock === undefined) return;
    await remove();
    swept.push(path);
  };
  for (const name of await readdir(layout.ingest)) {
    const digest = layout.partialDigest(name);
    const path = join(layout.ingest, name);
    if (digest !== undefined) await sweep(path, layout.blobLock(digest), () => removeStubbornly(path));
  }
  swept.push(...(await sweepSpools(layout)));
  for (const name of await readdir(layout.layers)) {
    const path = join(layout.layers, name);
    if (name.startsWith('tmp-'))
      await sweep(path, layout.layerLock(name.slice(4)), () => removeStubbornly(path));
  }
  return swept;
}

/**
 * Blobs of our own that died before their digest was known, or before they were begun: the lock of the same name is
 * free.
 */
async function sweepSpools(layout: Layout): Promise<readonly string[]> {
  const swept: string[] = [];
  const names = [...(await readdir(layout.ingest)), ...(await readdir(layout.locks))];
  for (const name of new Set(names)) {
    if (!name.startsWith('spool-')) continue;
    const lockPath = join(layout.locks, name);
    using lock = tryLock(lockPath);
    if (lock === undefined) continue;
    const path = join(layout.ingest, name);
    await rm(path, { force: true });
    await rm(lockPath, { force: true });
    swept.push(path);
  }
  return swept;
}

/**
 * What nobody can go on with: temporary files of the names and leases, which are written under the store's lock only
 * (the caller holds it), and blobs of our own without a digest. Cheap enough for every command that writes.
 */
export async function sweepDead(layout: Layout): Promise<void> {
  for (const folder of [layout.directory, layout.leases]) {
    for (const name of await readdir(folder)) {
      if (/^\..*\.tmp$/.test(name)) await rm(join(folder, name), { force: true });
    }
  }
  await sweepSpools(layout);
}

/** Only the one that moved something there removes it, and a process that died at it is helped out here. */
export async function emptyTrash(layout: Layout): Promise<void> {
  for (const name of await readdir(layout.trash)) await removeStubbornly(join(layout.trash, name));
}

/** One rename: from here on it is not there. @returns false where somebody else took it meanwhile */
export async function moveAside(layout: Layout, path: string): Promise<boolean> {
  try {
    await rename(path, join(layout.trash, randomBytes(8).toString('hex')));
    return true;
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return false;
    throw error;
  }
}

export async function* blobFiles(
  layout: Layout,
): AsyncGenerator<{ readonly digest: Digest; readonly path: string }> {
  for (const { name: algorithm } of await foldersIn(layout.blobs)) {
    for (const hex of await readdir(join(layout.blobs, algorithm))) {
      const digest = `${algorithm}:${hex}`;
      if (isDigest(digest)) yield { digest, path: join(layout.blobs, algorithm, hex) };
    }
  }
}

async function foldersIn(path: string): Promise<readonly Dirent[]> {
  return (await readdir(path, { withFileTypes: true })).filter((entry) => entry.isDirectory());
}
