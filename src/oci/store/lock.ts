import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { step } from './steps.ts';

/**
 * Locks between processes. Node has no flock, and a file that merely exists outlives its process; an exclusive
 * SQLite transaction is a lock that the kernel drops with the process, kill -9 included, and children do not inherit.
 *
 * The file must never be opened by other means in this process: closing such a handle would drop the lock.
 */
export interface Lock extends Disposable {
  readonly path: string;
}

/**
 * @param made Called when the file is there and not yet locked.
 * @throws OCI_STORE_INVALID where the file cannot be made or is no lock file
 */
export function tryLock(path: string, made?: () => void): Lock | undefined {
  const database = openLockFile(path);
  made?.();
  try {
    // Nothing is ever written, so no journal beside it (on a full disk it could not be made either).
    database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    // SQLITE_BUSY
    if ((error as { errcode?: number }).errcode === 5) return undefined;
    throw unusable(path, error);
  }
  let held = true;
  return {
    path,
    [Symbol.dispose]() {
      if (!held) return;
      held = false;
      database.close();
    },
  };
}

/**
 * A lock under a name of its own, that proves its process to be alive. Whoever finds it free removes it: then the
 * process has died, or has not locked it yet and takes another name.
 */
export function lockNew(
  folder: string,
  kind: 'holder' | 'spool',
  made?: (name: string) => void,
): { readonly name: string; readonly lock: Lock } {
  for (;;) {
    const name = `${kind}-${randomUUID()}`;
    const path = join(folder, name);
    const lock = tryLock(path, () => {
      step('lock.made');
      made?.(name);
    });
    if (lock !== undefined && existsSync(path)) return { name, lock };
    lock?.[Symbol.dispose]();
  }
}

function openLockFile(path: string): DatabaseSync {
  try {
    return new DatabaseSync(path, { timeout: 0 });
  } catch (error) {
    throw unusable(path, error);
  }
}

function unusable(path: string, error: unknown): Error {
  const said = error instanceof Error ? error.message : String(error);
  return ociError('OCI_STORE_INVALID', `the store cannot be locked: ${said}`, {
    hint: 'look at the rights of the folder `locks` of the store, and remove this file if it is no lock',
    place: { file: path },
    cause: error,
  });
}

export interface LockOptions {
  readonly signal: AbortSignal;
  /** After this OCI_STORE_BUSY; without it the wait ends with the signal only. */
  readonly timeoutMs?: number;
}

/** Nobody tells us when another process lets go, so we ask again: at first often, then less. */
export async function acquireLock(path: string, options: LockOptions): Promise<Lock> {
  const started = performance.now();
  let pause = 2;
  for (;;) {
    if (options.signal.aborted) throw kernelError('CANCELLED', 'cancelled while waiting for the store');
    const lock = tryLock(path);
    if (lock !== undefined) return lock;
    if (options.timeoutMs !== undefined && performance.now() - started > options.timeoutMs) {
      throw ociError('OCI_STORE_BUSY', `the store is locked by another process (${path})`, {
        hint: 'wait for the other command, or end it if it hangs',
      });
    }
    await delay(pause + Math.random() * pause, undefined, { signal: options.signal }).catch(() => undefined);
    pause = Math.min(pause * 1.5, 40);
  }
}
