import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import { isSkycapError } from '../../kernel/index.ts';
import type {
  Installation,
  InstallationFilter,
  InstallationKey,
  InstallationLock,
  Intent,
  LiveHolder,
  LockHolder,
  LogWriter,
  LostItem,
  ManagedStateStore,
  OutputRecord,
  Run,
  RunFilter,
  StepChange,
  StepRecord,
} from '../port.ts';
import { BundleStateFiles, stateRun } from './bundle-state.ts';
import { ensureDatabase } from './create.ts';
import { Database } from './database.ts';
import { prepareDirectory, type StatePaths } from './directory.ts';
import * as installations from './installations.ts';
import { Keyring } from './keyring.ts';
import { acquireLock, isLetGo, liveHolders } from './lock.ts';
import { isFileName, logPath, openLogFile, readLogFile } from './log.ts';
import { inspectSchema, migrate } from './migrations.ts';
import * as outputs from './outputs.ts';
import { listLost, rotateKeys } from './rotate.ts';
import * as runs from './runs.ts';
import { ValueCodec } from './values.ts';

const ENDED: ReadonlySet<string | undefined> = new Set([
  'succeeded',
  'failed',
  'errored',
  'aborted',
  'unknown',
]);

const HANDOVER_MS = 200;

/** What the stores of one directory in this process share: the database must be opened once only. */
interface Shared {
  readonly paths: StatePaths;
  readonly db: Database;
  readonly keys: Keyring;
  readonly codec: ValueCodec;
  readonly files: BundleStateFiles;
}

interface Entry {
  readonly shared: Promise<Shared>;
  users: number;
}

// On the global object, so that two copies of this module (library and program) still share.
const REGISTRY = Symbol.for('skycap.state.open');
const shared = globalThis as { [REGISTRY]?: Map<string, Entry> };
shared[REGISTRY] ??= new Map();
const registry = shared[REGISTRY];

export async function openSqliteState(options: { readonly directory: string }): Promise<ManagedStateStore> {
  const paths = prepareDirectory(options.directory);
  let entry = registry.get(paths.directory);
  if (entry === undefined) {
    entry = { shared: openShared(paths), users: 0 };
    registry.set(paths.directory, entry);
  }
  entry.users++;
  try {
    return new SqliteState(await entry.shared, () => leave(paths.directory, entry));
  } catch (error) {
    entry.users--;
    if (registry.get(paths.directory) === entry) registry.delete(paths.directory);
    throw error;
  }
}

async function leave(directory: string, entry: Entry): Promise<void> {
  entry.users--;
  if (entry.users > 0) return;
  // From here on a new store opens its own; SQLite itself keeps locks of one process apart.
  if (registry.get(directory) === entry) registry.delete(directory);
  await (await entry.shared).db.close();
}

async function openShared(paths: StatePaths): Promise<Shared> {
  ensureDatabase(paths.database);
  try {
    return await openDatabase(paths, 'shared');
  } catch (error) {
    if (!isSkycapError(error, 'DISK_FULL')) throw error;
    // WAL's shared memory file needs room. Alone on the database SQLite does without, so records stay readable.
    return await openDatabase(paths, 'alone').catch(() => {
      throw error;
    });
  }
}

async function openDatabase(paths: StatePaths, how: 'shared' | 'alone'): Promise<Shared> {
  const db = new Database(paths.database);
  try {
    await db.patiently(() => {
      if (how === 'alone') db.script('PRAGMA locking_mode = EXCLUSIVE');
      inspectSchema(db);
      db.script('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON');
    });
    await migrate(db);
    const keys = await Keyring.open(db, paths.masterKey);
    const files = new BundleStateFiles(db, keys, paths.bundleState);
    return { paths, db, keys, codec: new ValueCodec(keys), files };
  } catch (error) {
    db.closeNow();
    throw error;
  }
}

class SqliteState implements ManagedStateStore {
  readonly #shared: Shared;
  readonly #leave: () => Promise<void>;
  #open = true;

  constructor(shared: Shared, leave: () => Promise<void>) {
    this.#shared = shared;
    this.#leave = leave;
  }

  getInstallation(key: InstallationKey): Promise<Installation | undefined> {
    return this.#read((db, { codec }) => installations.getInstallation(db, codec, key));
  }

  listInstallations(filter: InstallationFilter): Promise<readonly Installation[]> {
    return this.#read((db, { codec }) => installations.listInstallations(db, codec, filter));
  }

  putInstallation(installation: Installation): Promise<void> {
    return this.#write((db, { codec }) => installations.putInstallation(db, codec, installation));
  }

  async deleteInstallation(key: InstallationKey): Promise<void> {
    const gone = await this.#write((db) => installations.deleteInstallation(db, key));
    if (gone === undefined) return;
    await this.#shared.files.removeFiles(gone.id);
    await this.#removeLogs(gone.runs);
  }

  putRun(run: Run): Promise<void> {
    return this.#write((db, { codec }) => runs.putRun(db, codec, run));
  }

  getRun(runId: string): Promise<Run | undefined> {
    return this.#read((db, { codec }) => runs.getRun(db, codec, runId));
  }

  listRuns(filter: RunFilter): Promise<readonly Run[]> {
    return this.#read((db, { codec }) => runs.listRuns(db, codec, filter));
  }

  async deleteRuns(runIds: readonly string[]): Promise<void> {
    await this.#write((db) => runs.deleteRuns(db, runIds));
    await this.#removeLogs(runIds);
  }

  putStep(runId: string, step: StepRecord, together: StepChange = {}): Promise<void> {
    const { intent, ended, outputs: values = [] } = together;
    const { db: database, keys } = this.#mine();
    const put = (db: Database): void => {
      runs.putStep(db, runId, step);
      if (intent !== undefined) runs.putIntent(db, intent);
      if (ended !== undefined) runs.clearIntent(db, ended);
      for (const output of values) outputs.putOutput(db, keys, output);
    };
    // What is about to start must be known for certain; after an end comes a start, or the end of the run.
    return intent === undefined && ended !== undefined ? database.writeSoon(put) : database.write(put);
  }

  async clearIntent(containerId: string): Promise<void> {
    await this.#write((db) => runs.clearIntent(db, containerId));
  }

  listIntents(key: InstallationKey): Promise<readonly Intent[]> {
    return this.#read((db) => runs.listIntents(db, key));
  }

  putOutput(output: OutputRecord): Promise<void> {
    return this.#write((db, { keys }) => outputs.putOutput(db, keys, output));
  }

  latestOutputs(installationId: string, except: readonly string[] = []): Promise<readonly OutputRecord[]> {
    return this.#read((db, { keys }) => outputs.latestOutputs(db, keys, { installationId, except }));
  }

  runOutputs(runId: string): Promise<readonly OutputRecord[]> {
    return this.#read((db, { keys }) => outputs.runOutputs(db, keys, runId));
  }

  openLog(runId: string): Promise<LogWriter> {
    return openLogFile(logPath(this.#mine().paths.logs, runId));
  }

  async *readLog(
    runId: string,
    options: { readonly follow: boolean; readonly signal: AbortSignal },
  ): AsyncIterable<string> {
    const { paths } = this.#mine();
    if (!isFileName(runId)) throw runs.noSuchRun(runId);
    let any = false;
    const ended = async (): Promise<boolean> =>
      ENDED.has(await this.#read((db) => runs.runState(db, runId))) || (await this.#isAbandoned(runId));
    for await (const line of readLogFile(logPath(paths.logs, runId), { ...options, ended })) {
      any = true;
      yield line;
    }
    if (any || options.signal.aborted) return;
    if ((await this.#read((db) => runs.runState(db, runId))) === undefined) throw runs.noSuchRun(runId);
  }

  /** The process that ran it is gone, and none that would finish it is at work. */
  async #isAbandoned(runId: string): Promise<boolean> {
    const run = await this.getRun(runId);
    if (run === undefined) return false;
    const { locks } = this.#mine().paths;
    const key = { namespace: run.namespace, name: run.installation };
    if (!isLetGo(locks, key)) return false;
    // One lets go while the next takes hold.
    await sleep(HANDOVER_MS);
    return isLetGo(locks, key);
  }

  saveState(installationId: string, runId: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    return this.#mine().files.save(installationId, runId, bytes);
  }

  loadState(installationId: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    return this.#mine().files.load(installationId);
  }

  stateRun(installationId: string): Promise<string | undefined> {
    return this.#read((db) => stateRun(db, installationId));
  }

  deleteState(installationId: string): Promise<void> {
    return this.#mine().files.remove(installationId);
  }

  async fingerprint(value: Uint8Array): Promise<string> {
    return this.#mine().keys.fingerprint(value);
  }

  lock(key: InstallationKey, mode: 'exclusive' | 'shared', holder: LockHolder): Promise<InstallationLock> {
    return acquireLock(this.#mine().paths.locks, key, { mode, holder });
  }

  async holders(key: InstallationKey): Promise<readonly LiveHolder[]> {
    return liveHolders(this.#mine().paths.locks, key);
  }

  async rotateKeys(): Promise<void> {
    const { db, keys, codec, paths } = this.#mine();
    const holder: LockHolder = { runId: '-', action: 'key rotate' };
    await using _ = await acquireLock(
      paths.directory,
      { namespace: '', name: 'keys' },
      { mode: 'exclusive', holder },
    );
    await rotateKeys(db, keys, codec);
  }

  lostItems(): Promise<readonly LostItem[]> {
    return this.#read((db, { keys }) => listLost(db, keys));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#leave();
  }

  #mine(): Shared {
    if (!this.#open) throw new Error('the state store is closed');
    return this.#shared;
  }

  async #read<T>(work: (db: Database, shared: Shared) => T): Promise<T> {
    const shared = this.#mine();
    const before = shared.keys.misses;
    const result = await shared.db.read((db) => work(db, shared));
    // A rotation in another process may have ended between our look at the database and that at the key file.
    return shared.keys.misses === before ? result : shared.db.read((db) => work(db, shared));
  }

  async #write<T>(work: (db: Database, shared: Shared) => T): Promise<T> {
    const shared = this.#mine();
    return shared.db.write((db) => work(db, shared));
  }

  async #removeLogs(runIds: readonly string[]): Promise<void> {
    const { logs } = this.#shared.paths;
    await Promise.all(runIds.filter(isFileName).map((runId) => rm(logPath(logs, runId), { force: true })));
  }
}
