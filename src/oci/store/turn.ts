import { constants } from 'node:fs';
import { access, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { kernelError } from '../../kernel/index.ts';
import { ensureDirectory } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';

/** While it is held nobody else has a turn at the same file. */
export type Turn = AsyncDisposable;

/** Opening may meet a folder that another process is just taking away, which is no fault the first times. */
const MOST_FRUITLESS = 100;
const BUSY = 5;

/**
 * One process at a time, by a lock that leaves no file behind: whoever ends its turn removes the file. Others may have
 * it open by then, so it says in itself that it is going, under which inode number: where another file has the name
 * by now, or none, what was locked is nobody's turn. A process that was killed between saying so and removing it has
 * left the very file that has the name.
 *
 * @throws CANCELLED; OCI_ARCHIVE_WRITE where the file is no lock; the system's error where the folder cannot be written
 */
export async function takeTurn(file: string, signal: AbortSignal): Promise<Turn> {
  let fruitless = 0;
  for (let pause = 2; ; pause = Math.min(pause * 1.5, 40)) {
    if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while another command was at work');
    await ensureDirectory(dirname(file));
    try {
      const database = lockNow(file);
      if (database !== undefined && (await isThere(file, database))) return turnOf(file, database);
      database?.close();
    } catch (cause) {
      fruitless += 1;
      await checkWritable(dirname(file));
      if (fruitless > MOST_FRUITLESS) throw unusable(file, cause);
      pause = 2;
    }
    await delay(pause + Math.random() * pause, undefined, { signal }).catch(() => undefined);
  }
}

/** @throws the system's error, but for a folder that is gone */
async function checkWritable(folder: string): Promise<void> {
  await access(folder, constants.W_OK).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
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

async function isThere(file: string, database: DatabaseSync): Promise<boolean> {
  const { user_version: going } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  return going === 0 || going === (await markOf(file));
}

/** SQLite keeps 31 bits for it. */
async function markOf(file: string): Promise<number | undefined> {
  const found = await stat(file, { bigint: true }).catch(() => undefined);
  return found === undefined ? undefined : Number(found.ino % 0x7fffffffn) + 1;
}

function turnOf(file: string, database: DatabaseSync): Turn {
  return {
    async [Symbol.asyncDispose]() {
      try {
        const mark = await markOf(file);
        if (mark === undefined) return;
        database.exec(`PRAGMA user_version = ${mark}; COMMIT`);
        await rm(file, { force: true });
      } catch {
        // No room to say so: then it stays, and serves the next turn.
      } finally {
        database.close();
      }
    },
  };
}
