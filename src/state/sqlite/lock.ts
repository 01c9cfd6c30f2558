import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';

import { stateError } from '../errors.ts';
import type { InstallationKey, InstallationLock, LiveHolder, LockHolder } from '../port.ts';
import { asStateError, isBusy } from './database.ts';
import { writeWhole } from './files.ts';
import { describeKey } from './installations.ts';

interface HolderFile extends LockHolder {
  readonly mode: 'exclusive' | 'shared';
  readonly host: string;
  readonly pid: number;
  /** Start time of the process in clock ticks since boot: a pid alone may be another's by now. */
  readonly startTicks: string;
  readonly since: string;
}

// Two processes that try at once may both be turned away by SQLite although neither holds the lock; and a holder
// needs a moment to write its name down.
const SETTLE_MS = 2_000;

/**
 * A SQLite lock on a file of its own. It is a POSIX record lock: the kernel frees it when the process dies, and
 * children do not inherit it. The file must never be opened by anything but SQLite in this process, as closing any
 * descriptor of it would drop the lock (fcntl(2)); holders are named in files beside it.
 *
 * @throws STATE_LOCKED
 */
export async function acquireLock(
  locks: string,
  key: InstallationKey,
  options: { readonly mode: 'exclusive' | 'shared'; readonly holder: LockHolder },
): Promise<InstallationLock> {
  const base = join(locks, fileNameOf(key));
  const holders = `${base}.holders`;
  const deadline = performance.now() + SETTLE_MS;
  for (;;) {
    const connection = tryLock(`${base}.lock`, options.mode);
    if (connection !== undefined) return held(connection, holders, options);
    const holder = readHolders(holders).find(isLive);
    if (holder !== undefined || performance.now() > deadline) throw locked(key, holder);
    await sleep(5 + Math.random() * 25);
  }
}

function tryLock(path: string, mode: 'exclusive' | 'shared'): DatabaseSync | undefined {
  let connection: DatabaseSync | undefined;
  try {
    connection = new DatabaseSync(path, { timeout: 0 });
    // Nothing is ever written: no journal file beside it that a killed holder would leave.
    connection.exec('PRAGMA journal_mode = MEMORY');
    if (mode === 'exclusive') connection.exec('BEGIN EXCLUSIVE');
    // A read transaction holds a SHARED lock from its first read to its end.
    else connection.exec('BEGIN; SELECT count(*) FROM sqlite_schema');
    // By path: opening it would cost the lock.
    if ((statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o600);
    return connection;
  } catch (error) {
    connection?.close();
    if (isBusy(error)) return undefined;
    throw asStateError(error, path);
  }
}

function held(
  connection: DatabaseSync,
  holders: string,
  options: { readonly mode: 'exclusive' | 'shared'; readonly holder: LockHolder },
): InstallationLock {
  let mine: string;
  try {
    // Whoever holds the lock alone knows that all other names there are of the dead.
    if (options.mode === 'exclusive') rmSync(holders, { recursive: true, force: true });
    mine = writeHolder(holders, options);
  } catch (error) {
    connection.close();
    throw error;
  }
  const release = async (): Promise<void> => {
    if (!connection.isOpen) return;
    rmSync(mine, { force: true });
    connection.close();
  };
  return { mode: options.mode, [Symbol.asyncDispose]: release };
}

function writeHolder(
  holders: string,
  options: { readonly mode: 'exclusive' | 'shared'; readonly holder: LockHolder },
): string {
  mkdirSync(holders, { recursive: true, mode: 0o700 });
  const file: HolderFile = {
    runId: options.holder.runId,
    action: options.holder.action,
    mode: options.mode,
    host: hostname(),
    pid: process.pid,
    startTicks: startTicksOf(process.pid) ?? '',
    since: new Date().toISOString(),
  };
  const path = join(holders, `${process.pid}-${randomBytes(6).toString('hex')}.json`);
  writeWhole(path, JSON.stringify(file), 'replace');
  return path;
}

/** Whether the installation was worked on under the lock, and no living process does so now. */
export function isLetGo(locks: string, key: InstallationKey): boolean {
  const base = join(locks, fileNameOf(key));
  return existsSync(`${base}.lock`) && !readHolders(`${base}.holders`).some(isLive);
}

/** Whoever holds the installation's lock. */
export function liveHolders(locks: string, key: InstallationKey): readonly LiveHolder[] {
  return readHolders(`${join(locks, fileNameOf(key))}.holders`)
    .filter(isLive)
    .map(({ runId, action, host, pid, startTicks }) => ({
      runId,
      action,
      host,
      pid,
      startTime: startTicks,
      isStopped: host === hostname() && /^[Tt]$/.test(statOf(pid)?.[0] ?? ''),
    }));
}

function readHolders(holders: string): readonly HolderFile[] {
  let names: string[];
  try {
    names = readdirSync(holders);
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    if (!name.endsWith('.json')) return [];
    try {
      return [JSON.parse(readFileSync(join(holders, name), 'utf8')) as HolderFile];
    } catch {
      return []; // gone in between, or not ours
    }
  });
}

/** Processes of another host name (a container on the same kernel) cannot be looked up here and count as alive. */
function isLive(holder: HolderFile): boolean {
  if (holder.host !== hostname()) return true;
  const ticks = startTicksOf(holder.pid);
  return ticks !== undefined && (holder.startTicks === '' || ticks === holder.startTicks);
}

function startTicksOf(pid: number): string | undefined {
  const fields = statOf(pid);
  // Field 22; a zombie has ended.
  return fields?.[0] === 'Z' ? undefined : fields?.[19];
}

/** From field 3 of /proc/PID/stat on (proc(5)); the name in field 2 may hold blanks and parentheses. */
function statOf(pid: number): readonly string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

function fileNameOf(key: InstallationKey): string {
  const digest = createHash('sha256')
    .update(JSON.stringify([key.namespace, key.name]))
    .digest('hex')
    .slice(0, 32);
  const readable = key.name
    .replace(/[^A-Za-z0-9._-]/g, '_')
    .replace(/^\.+/, '')
    .slice(0, 60);
  return `${digest}-${readable}`;
}

function locked(key: InstallationKey, holder: HolderFile | undefined): Error {
  const name = describeKey(key);
  if (holder === undefined) {
    return stateError('STATE_LOCKED', `installation ${name} is busy: another process holds its lock`, {
      hint: 'run the command again in a moment',
      details: { namespace: key.namespace, name: key.name },
    });
  }
  const { runId, action, host, pid, since, mode } = holder;
  const who = `run ${runId} (${action}) by process ${pid} on ${host}, since ${since}`;
  return stateError('STATE_LOCKED', `installation ${name} is busy with ${who}`, {
    hint: `wait for it (skycap run logs -f ${runId}), or end it with skycap run cancel ${runId}`,
    details: { namespace: key.namespace, name: key.name, runId, action, host, pid, since, mode },
  });
}
