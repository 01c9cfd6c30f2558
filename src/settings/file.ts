import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { SkycapError } from '../kernel/index.ts';
import { settingsError } from './errors.ts';

/** Nobody writes a megabyte of configuration. */
const MAX_BYTES = 1 << 20;

export interface FileOwner {
  /** These may own the file; anyone else could plant commands and consents. */
  readonly owners: readonly number[];
  readonly hint: string;
}

/**
 * The text of a configuration file, or undefined where there is none. Owner and mode are those of the opened file,
 * so it cannot be exchanged between check and use.
 *
 * @throws SETTINGS_OWNER, SETTINGS_UNREADABLE
 */
export async function readConfigFile(file: string, owner: FileOwner): Promise<string | undefined> {
  let handle: Awaited<ReturnType<typeof open>>;
  try {
    handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw unreadable(file, error);
  }
  try {
    const stat = await handle.stat();
    if (!stat.isFile()) {
      throw settingsError('SETTINGS_UNREADABLE', `${file} is not a regular file`, {
        hint: 'replace it by a YAML file, or remove it',
        place: { file },
      });
    }
    if (!owner.owners.includes(stat.uid)) {
      throw settingsError('SETTINGS_OWNER', `${file} belongs to user ${stat.uid}`, {
        hint: owner.hint,
        place: { file },
      });
    }
    if ((stat.mode & 0o022) !== 0 && ((stat.mode & 0o002) !== 0 || stat.gid !== stat.uid)) {
      throw settingsError('SETTINGS_OWNER', `${file} can be written by other users`, {
        hint: `run: chmod go-w ${file}`,
        place: { file },
      });
    }
    if (stat.size > MAX_BYTES) {
      throw settingsError('SETTINGS_UNREADABLE', `${file} is larger than 1 MiB`, { place: { file } });
    }
    return await handle.readFile('utf8');
  } catch (error) {
    throw error instanceof Error && 'code' in error && !('exitCode' in error)
      ? unreadable(file, error)
      : error;
  } finally {
    await handle.close();
  }
}

function isMissing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function unreadable(file: string, cause: unknown): SkycapError {
  const code = (cause as NodeJS.ErrnoException).code ?? 'unknown error';
  return settingsError('SETTINGS_UNREADABLE', `${file} cannot be read: ${code}`, {
    hint: 'mend its owner and mode, or remove it',
    place: { file },
    cause,
  });
}
