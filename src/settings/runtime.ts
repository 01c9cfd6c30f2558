import { constants } from 'node:fs';
import { lstat, mkdir, open, statfs } from 'node:fs/promises';
import { dirname, isAbsolute, join } from 'node:path';
import { settingsError } from './errors.ts';
import type { SettingsInput } from './types.ts';

/** statfs(2): file systems that never reach a disk but by swap. */
const TMPFS = 0x01021994;
const RAMFS = 0x858458f6;

/** Where secrets of a run lie: `$XDG_RUNTIME_DIR/skycap`, else `/run/skycap` for root, else below /dev/shm. */
export async function runtimeDirectoryOf(
  input: Pick<SettingsInput, 'env' | 'uid'>,
): Promise<{ readonly value: string; readonly from: string }> {
  const variable = input.env.XDG_RUNTIME_DIR;
  const shared = { value: join('/dev/shm', `skycap-${input.uid}`), from: 'default' };
  const candidates = [
    ...(variable !== undefined && isAbsolute(variable)
      ? [{ value: join(variable, 'skycap'), from: 'XDG_RUNTIME_DIR' }]
      : []),
    ...(input.uid === 0 ? [{ value: '/run/skycap', from: 'default' }] : []),
    shared,
  ];
  for (const candidate of candidates) if (await isInMemory(dirname(candidate.value))) return candidate;
  return shared;
}

/**
 * Makes the folder, mode 0700, and checks that it lies in memory and that nobody else made it.
 *
 * @throws SETTINGS_RUNTIME_DIRECTORY
 */
export async function ensureRuntimeDirectory(path: string, uid: number): Promise<string> {
  const wrong = (why: string, hint: string, cause?: unknown): Error =>
    settingsError('SETTINGS_RUNTIME_DIRECTORY', `${path} cannot hold secrets: ${why}`, { hint, cause });
  const elsewhere = 'set SKYCAP_RUNTIME_DIRECTORY to a folder of your own on a tmpfs';
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EEXIST') throw wrong(`it cannot be made (${code})`, elsewhere, error);
  }
  // By handle, and not through a link that someone put there before us.
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(
    (error: NodeJS.ErrnoException) => {
      throw wrong(`it is no folder of its own (${error.code})`, elsewhere, error);
    },
  );
  try {
    const stat = await handle.stat();
    if (stat.uid !== uid) throw wrong(`it belongs to user ${stat.uid}`, elsewhere);
    if ((stat.mode & 0o777) !== 0o700) {
      throw wrong(`its mode is 0${(stat.mode & 0o777).toString(8)}`, `run: chmod 700 ${path}`);
    }
    if (!(await isInMemory(`/proc/self/fd/${handle.fd}`))) throw wrong('it is not on a tmpfs', elsewhere);
  } finally {
    await handle.close();
  }
  return path;
}

async function isInMemory(path: string): Promise<boolean> {
  try {
    const isLink = path.startsWith('/proc/') ? false : (await lstat(path)).isSymbolicLink();
    const { type } = await statfs(path);
    return !isLink && (type === TMPFS || type === RAMFS);
  } catch {
    return false;
  }
}
