import { randomBytes } from 'node:crypto';
import { constants, mkdirSync, statSync } from 'node:fs';
import { type FileHandle, open, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { isSkycapError, kernelError } from '../errors.ts';

const DISK_FULL_CODES = new Set(['ENOSPC', 'EDQUOT']);

/**
 * Turns "no space" of the system into our coded error and leaves everything else as it is.
 *
 * @param where The folder or file that was being written, for the message.
 */
export function diskError(error: unknown, where: string): unknown {
  if (isSkycapError(error)) return error;
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== 'string' || !DISK_FULL_CODES.has(code)) return error;
  return kernelError('DISK_FULL', `no space left while writing ${where}`, {
    hint: 'free some space there and run the same command again; what was complete is kept',
    cause: error,
  });
}

/** Makes a rename or a removal in `directory` survive a power failure. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export interface WriteAtomicOptions {
  /** Default 0600. */
  readonly mode?: number;
  /** Removes what killed processes have left of the same file; whoever is still at it begins again. */
  readonly sweep?: boolean;
  /** Told when the bytes are on disk under a temporary name, and when they have their own. */
  readonly at?: (moment: 'written' | 'renamed') => void;
}

/**
 * Replaces `path` by `data` in one step: readers see the old or the new bytes, after a crash too.
 *
 * @throws DISK_FULL
 */
export async function writeFileAtomic(
  path: string,
  data: string | Uint8Array,
  options: WriteAtomicOptions = {},
): Promise<void> {
  const directory = dirname(path);
  if (options.sweep === true) await removeTemporaries(path);
  // Another process may take the temporary file for one that a killed process has left.
  while (!(await replace(path, data, options)));
  options.at?.('renamed');
  await syncDirectory(directory);
}

/** @returns false where the temporary file was taken away before it had its name */
async function replace(
  path: string,
  data: string | Uint8Array,
  options: WriteAtomicOptions,
): Promise<boolean> {
  const unique = `${process.pid}.${randomBytes(6).toString('hex')}`;
  const temporary = join(dirname(path), `${temporaryPrefix(path)}${unique}.tmp`);
  try {
    const handle = await open(temporary, 'wx', options.mode ?? 0o600);
    try {
      await handle.writeFile(data);
      await handle.sync();
    } finally {
      await handle.close();
    }
    options.at?.('written');
    return await rename(temporary, path).then(
      () => true,
      (error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return false;
        throw error;
      },
    );
  } catch (error) {
    await rm(temporary, { force: true });
    throw diskError(error, path);
  }
}

const temporaryPrefix = (path: string): string => `.${basename(path)}.`;

async function removeTemporaries(path: string): Promise<void> {
  const directory = dirname(path);
  const prefix = temporaryPrefix(path);
  for (const name of await readdir(directory)) {
    if (!name.startsWith(prefix) || !/^\d+\.[0-9a-f]{12}\.tmp$/.test(name.slice(prefix.length))) continue;
    await rm(join(directory, name), { force: true });
  }
}

/**
 * Makes a folder, and its parents. An existing one is left as it is. Node's own `recursive` asks for ever where a
 * parent can have no children, as /proc.
 *
 * @throws DISK_FULL, and the system's error
 */
export async function ensureDirectory(path: string): Promise<void> {
  try {
    ensureSync(path, 0o777);
  } catch (error) {
    throw diskError(error, path);
  }
}

/**
 * The same for a private folder: only its owner may look into it.
 *
 * @throws DISK_FULL, and the system's error
 */
export async function ensurePrivateDirectory(path: string): Promise<void> {
  try {
    ensurePrivateDirectorySync(path);
  } catch (error) {
    throw diskError(error, path);
  }
}

/** The same at once; every error is the system's. */
export function ensurePrivateDirectorySync(path: string): void {
  ensureSync(path, 0o700);
}

function ensureSync(path: string, mode: number): void {
  const wanted = resolve(path);
  if (makeOne(wanted, mode)) return;
  ensureSync(dirname(wanted), mode);
  // Another process may have made it meanwhile.
  if (!makeOne(wanted, mode)) mkdirSync(wanted, { mode });
}

/** @returns false where the parent is not there */
function makeOne(path: string, mode: number): boolean {
  try {
    mkdirSync(path, { mode });
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && dirname(path) !== path) return false;
    if (code === 'EEXIST' && statSync(path).isDirectory()) return true;
    throw error;
  }
}

/** Names are bytes, so each part is a byte string. */
function components(relative: string | Buffer): readonly string[] {
  const bytes = Buffer.from(relative).toString('latin1');
  const parts = bytes.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..') || bytes.includes('\0') || parts.length === 0) {
    throw kernelError(
      'FILE_UNREADABLE',
      `${JSON.stringify(String(relative))} is not a path below its folder`,
    );
  }
  return parts;
}

const inFolder = (folder: FileHandle, part: string): Buffer =>
  Buffer.from(`/proc/self/fd/${folder.fd}/${part}`, 'latin1');

/**
 * Opens `relative` below the folder `root` without following a link in any component (`openat` by way of
 * `/proc/self/fd`), and without waiting on a FIFO. Safe while someone else renames things in `root`.
 *
 * @throws the system's error (ELOOP or ENOTDIR where a link stands in the way)
 */
export async function openBeneath(
  root: string,
  relative: string | Buffer,
  flags: number,
): Promise<FileHandle> {
  const parts = components(relative);
  const folder = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  let current = await open(root, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    for (const part of parts.slice(0, -1)) {
      const next = await open(inFolder(current, part), folder);
      await current.close();
      current = next;
    }
    const leaf = parts[parts.length - 1] as string;
    const leafFlags = flags | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    return await open(inFolder(current, leaf), leafFlags, 0o600);
  } finally {
    await current.close();
  }
}
