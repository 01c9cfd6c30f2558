import { statfsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';

import { kernelError } from '../../kernel/index.ts';
import { stateError } from '../errors.ts';
import { diskFull } from './files.ts';

export type Row = Record<string, SQLOutputValue>;

// Result codes of SQLite (sqlite.org/rescode.html); the low byte is the primary code.
const PERM = 3;
const BUSY = 5;
const LOCKED = 6;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
// Of WAL only: others were first at beginning a transaction, again and again.
const PROTOCOL = 15;
const TOOBIG = 18;
const NOTADB = 26;

// SQLite's own wait blocks the event loop, so it is short, and the rest of the waiting is done asynchronously.
const BLOCKING_WAIT_MS = 10;
const BUSY_LIMIT_MS = 30_000;
/** As long as a step may take from its end to the start of the next one, whose record is awaited. */
const SOON_MS = 50;

/** SQLite's primary result code of an error, or undefined for other errors. */
function sqliteCode(error: unknown): number | undefined {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  return typeof code === 'number' ? code & 0xff : undefined;
}

export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === BUSY || code === LOCKED || code === PROTOCOL;
}

/**
 * One connection with transactions that wait for their turn without blocking the process. Writes of one process
 * run in the order in which they were asked for.
 */
export class Database {
  readonly path: string;
  readonly #connection: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  #tail: Promise<unknown> = Promise.resolve();
  /** Runs while something is committed that the disk may not have. */
  #later: NodeJS.Timeout | undefined;
  #syncing: Promise<void> | undefined;
  /** Whether the transaction has written anything: one that has not brings nothing to the disk either. */
  #changed = false;

  constructor(path: string) {
    this.path = path;
    this.#connection = translate(path, () => new DatabaseSync(path, { timeout: BLOCKING_WAIT_MS }));
  }

  all(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#prepare(sql).all(...values) as Row[];
  }

  get(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.#prepare(sql).get(...values) as Row | undefined;
  }

  run(sql: string, ...values: SQLInputValue[]): number {
    const changes = Number(this.#prepare(sql).run(...values).changes);
    if (changes > 0) this.#changed = true;
    return changes;
  }

  /** Statements without values, several at once. */
  script(sql: string): void {
    this.#changed = true;
    this.#connection.exec(sql);
  }

  /** `work` sees one state of the database and must be synchronous. */
  read<T>(work: (db: Database) => T): Promise<T> {
    return this.#patiently(() => this.#transaction('BEGIN', work));
  }

  /** All of `work` or nothing, durable when this resolves. `work` must be synchronous and may run more than once. */
  async write<T>(work: (db: Database) => T): Promise<T> {
    return await this.#inTurn(() => {
      this.#changed = false;
      const done = this.#transaction('BEGIN IMMEDIATE', work);
      if (this.#changed) this.#brought();
      return done;
    });
  }

  /**
   * The same without waiting for the disk (sqlite.org/pragma.html, synchronous): it outlives this process, kill -9
   * included. That it outlives the machine is left to the next `write`, which costs the same with it, or to a moment
   * later.
   */
  async writeSoon<T>(work: (db: Database) => T): Promise<T> {
    const done = await this.#inTurn(() => {
      this.script('PRAGMA synchronous = NORMAL');
      try {
        return this.#transaction('BEGIN IMMEDIATE', work);
      } finally {
        this.script('PRAGMA synchronous = FULL');
      }
    });
    this.#later ??= setTimeout(() => void this.#sync(), SOON_MS).unref();
    return done;
  }

  #inTurn<T>(transaction: () => T): Promise<T> {
    const mine = this.#tail.then(() => this.#patiently(transaction));
    this.#tail = mine.catch(() => undefined);
    return mine;
  }

  #brought(): void {
    clearTimeout(this.#later);
    this.#later = undefined;
  }

  /** Beside the event loop. SQLite holds no lock on this file, which closing a handle of ours would drop. */
  #sync(): Promise<void> {
    this.#brought();
    this.#syncing = this.#syncNow();
    return this.#syncing;
  }

  async #syncNow(): Promise<void> {
    try {
      await using log = await open(`${this.path}-wal`);
      await log.datasync();
    } catch {
      // A disk that cannot take it says so to the next write, too.
    }
  }

  /** Repeats `work` while other processes hold the database. */
  async patiently<T>(work: (db: Database) => T): Promise<T> {
    return this.#patiently(() => work(this));
  }

  async close(): Promise<void> {
    await this.#tail;
    if (this.#later !== undefined) void this.#sync();
    await this.#syncing;
    this.closeNow();
  }

  closeNow(): void {
    this.#statements.clear();
    if (this.#connection.isOpen) this.#connection.close();
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#connection.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  #transaction<T>(begin: string, work: (db: Database) => T): T {
    this.#connection.exec(begin);
    try {
      const result = work(this);
      this.#connection.exec('COMMIT');
      return result;
    } catch (error) {
      if (this.#connection.isTransaction) this.#connection.exec('ROLLBACK');
      throw error;
    }
  }

  async #patiently<T>(work: () => T): Promise<T> {
    const deadline = performance.now() + BUSY_LIMIT_MS;
    for (let attempt = 0; ; attempt++) {
      try {
        return work();
      } catch (error) {
        if (!isBusy(error) || performance.now() > deadline) throw asStateError(error, this.path);
      }
      await sleep(Math.random() * Math.min(50, 2 + attempt * 2));
    }
  }
}

function translate<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asStateError(error, path);
  }
}

/** SQLite's errors as ours; others as they are. */
export function asStateError(error: unknown, path: string): unknown {
  const code = sqliteCode(error);
  if (code === undefined) return error;
  const extras = { details: { path, sqlite: (error as Error).message }, cause: error };
  if (code === FULL || (code === IOERR && nothingFree(path))) return diskFull(path, error);
  if (isBusy(error)) {
    return stateError(
      'STATE_BUSY',
      `the state database ${path} was busy for ${BUSY_LIMIT_MS / 1000} seconds`,
      {
        hint: 'run the command again when the other actions have ended',
        ...extras,
      },
    );
  }
  if (code === NOTADB) {
    return stateError('STATE_FOREIGN', `${path} is not a state database`, {
      hint: 'move that file away, or set `state.directory` to another folder',
      ...extras,
    });
  }
  if (code === CORRUPT) {
    return stateError('STATE_CORRUPT', `the state database ${path} is damaged`, {
      hint: 'restore it from a backup; `sqlite3 state.db .recover` may save what is left',
      ...extras,
    });
  }
  if (code === TOOBIG) {
    return stateError('STATE_TOO_LARGE', 'a record is larger than the state database takes (1 GB)', {
      hint: 'keep large results in a registry or a bucket and make their address the output',
      ...extras,
    });
  }
  if (code === PERM || code === READONLY || code === CANTOPEN) {
    return stateError('STATE_UNREADABLE', `the state database ${path} cannot be opened for writing`, {
      hint: 'check owner and permissions of the file and its folder',
      ...extras,
    });
  }
  if (code === IOERR) {
    return stateError(
      'STATE_UNREADABLE',
      `the state database ${path} cannot be read or written: ${(error as Error).message}`,
      {
        hint: 'check the disk (`dmesg`)',
        ...extras,
      },
    );
  }
  return kernelError('INTERNAL', `SQLite refused a statement: ${(error as Error).message}`, extras);
}

// In WAL mode a full disk may also show as an I/O error of the shared memory file.
function nothingFree(path: string): boolean {
  try {
    const stat = statfsSync(dirname(path));
    return stat.bavail * stat.bsize < 256 * 1024;
  } catch {
    return false;
  }
}
