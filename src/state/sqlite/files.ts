import { randomBytes } from 'node:crypto';
import { closeSync, constants, fsyncSync, linkSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

import { kernelError } from '../../kernel/index.ts';

/** The `code` of a Node.js file system error. */
export function fileErrorCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}

function isFull(error: unknown): boolean {
  const code = fileErrorCode(error);
  return code === 'ENOSPC' || code === 'EDQUOT';
}

export function diskFull(path: string, cause: unknown): Error {
  return kernelError('DISK_FULL', `no space left to write ${path}`, {
    hint: 'free some space there and run the command again; what was recorded before is unchanged',
    details: { path },
    cause,
  });
}

/** A full disk as its own error, everything else as it is. */
export function asFileError(error: unknown, path: string): unknown {
  return isFull(error) ? diskFull(path, error) : error;
}

/** Makes a rename, link or removal in the folder durable. */
export function syncFolder(path: string): void {
  const handle = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

export function partialName(path: string): string {
  return `${path}.${process.pid}-${randomBytes(6).toString('hex')}.partial`;
}

/**
 * Writes a small file, mode 0600, so that a reader sees the old content or all of the new.
 *
 * @returns false if `create` was asked for and the file was there already (then it is untouched)
 */
export function writeWhole(path: string, content: string, how: 'replace' | 'create'): boolean {
  const partial = partialName(path);
  try {
    const handle = openSync(partial, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
    try {
      writeSync(handle, content);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    if (how === 'replace') renameSync(partial, path);
    else linkSync(partial, path);
    syncFolder(dirname(path));
    return true;
  } catch (error) {
    if (how === 'create' && fileErrorCode(error) === 'EEXIST') return false;
    throw asFileError(error, path);
  } finally {
    rmSync(partial, { force: true });
  }
}
