import { lstat, mkdir, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { isSkycapError, kernelError } from '../../kernel/index.ts';
import { ensureDirectory } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';

/** While it is held nobody else has a turn with the same folder. */
export type Turn = AsyncDisposable;

/** Opening may meet a folder that another process is just taking away, which is no fault the first times. */
const MOST_FRUITLESS = 100;
/** As often one may find a file that was locked to be another one than has its name; then it is a copy of such a one. */
const MOST_STRANGE = 5;
const BUSY = 5;
/** For those who hold it for milliseconds; where locks do not work (some network file systems) it is busy for ever. */
const SOON_MS = 30_000;

/**
 * One process of a user at a time, by a lock that leaves nothing behind. It lies in a private folder of its own: its
 * name can be foreseen, and SQLite follows links that others may have put there. Whoever ends its turn removes both.
 * Others may have the file open by then, so it says in itself that it is going, under which inode number: where another
 * file has the name by now, or none, what was locked is nobody's turn. A process that was killed between saying so and
 * removing it has left the very file that has the name.
 *
 * @throws CANCELLED; OCI_ARCHIVE_WRITE where the folder is not private or the file no lock; the system's error where
 *   the folder cannot be made
 */
export async function takeTurn(folder: string, signal: AbortSignal): Promise<Turn> {
  const file = join(folder, 'lock');
  let fruitless = 0;
  let strange = { inode: 0, times: 0 };
  for (let pause = 2; ; pause = Math.min(pause * 1.5, 40)) {
    if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while another command was at work');
    await makeOwnFolder(folder);
    try {
      const database = lockNow(file);
      fruitless = 0;
      if (database !== undefined) {
        const inode = await inodeOf(file);
        const { user_version: going } = database.prepare('PRAGMA user_version').get() as {
          user_version: number;
        };
        strange = { inode: inode ?? 0, times: strange.inode === inode ? strange.times + 1 : 1 };
        if (inode !== undefined && (going === 0 || going === inode || strange.times > MOST_STRANGE))
          return turnOf(file, database);
        database.close();
      }
    } catch (cause) {
      fruitless += 1;
      if (fruitless > MOST_FRUITLESS) {
        // Where no file can be made in it, it goes again.
        await rmdir(folder).catch(() => undefined);
        throw unusable(file, cause);
      }
      pause = 2;
    }
    await delay(pause + Math.random() * pause, undefined, { signal }).catch(() => undefined);
  }
}

/** A turn, or why there was none. */
export type TurnOrNot =
  | { readonly turn: Turn }
  /** `busy` for so many seconds, or no place for a lock. */
  | { readonly turn: undefined; readonly busy?: number };

/**
 * As `takeTurn`, for turns that are short: who has not had one within half a minute goes without, or gives up.
 *
 * @throws CANCELLED; the system's error where the folder cannot be made
 */
export async function takeTurnSoon(folder: string, signal: AbortSignal): Promise<TurnOrNot> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), SOON_MS);
  try {
    return { turn: await takeTurn(folder, AbortSignal.any([signal, late.signal])) };
  } catch (error) {
    if (isSkycapError(error, 'OCI_ARCHIVE_WRITE')) return { turn: undefined };
    if (signal.aborted || !late.signal.aborted) throw error;
    return { turn: undefined, busy: SOON_MS / 1000 };
  } finally {
    clearTimeout(timer);
  }
}

/**
 * A folder that only this user may look into, made if it is not there. In a place like /tmp others may have made it
 * first: to plant something, or to read.
 *
 * @throws OCI_ARCHIVE_WRITE, and the system's error
 */
export async function makeOwnFolder(path: string): Promise<void> {
  await ensureDirectory(dirname(path));
  try {
    await mkdir(path, { mode: 0o700 });
    return;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    // Another process has just taken it away.
    if (error.code !== 'ENOENT') throw error;
  });
  if (found === undefined) return await makeOwnFolder(path);
  if (found.isDirectory() && found.uid === process.geteuid?.() && (found.mode & 0o077) === 0) return;
  throw ociError('OCI_ARCHIVE_WRITE', `${path} is there already, and is no private folder of yours`, {
    hint: 'remove it, or write to a folder in which only you may write',
  });
}

function unusable(file: string, cause: unknown): Error {
  const said = cause instanceof Error ? cause.message : String(cause);
  return ociError('OCI_ARCHIVE_WRITE', `${file} cannot be locked: ${said}`, {
    hint: 'remove it, and write to a folder that you may write',
    cause,
  });
}

/** @returns undefined while another process has it */
function lockNow(file: string): DatabaseSync | undefined {
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    // The lock outlives the transaction that says the file is going.
    database.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE');
    return database;
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === BUSY) return undefined;
    throw error;
  }
}

/** SQLite keeps 31 bits for it. */
async function inodeOf(file: string): Promise<number | undefined> {
  const found = await stat(file, { bigint: true }).catch(() => undefined);
  return found === undefined ? undefined : Number(found.ino % 0x7fffffffn) + 1;
}

function turnOf(file: string, database: DatabaseSync): Turn {
  return {
    async [Symbol.asyncDispose]() {
      try {
        const inode = await inodeOf(file);
        if (inode === undefined) return;
        try {
          database.exec(`PRAGMA user_version = ${inode}; COMMIT`);
        } catch {
          // No room to say so: whoever locks it from now on finds that it has no name any more.
        }
        await rm(file, { force: true });
        // Not where the next one has made its file already.
        await rmdir(dirname(file));
      } catch {
        // Then it stays, and serves the next turn.
      } finally {
        database.close();
      }
    },
  };
}
