import { randomUUID } from 'node:crypto';
import { createReadStream, type Dirent } from 'node:fs';
import { mkdir, open, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { isRepositoryPath } from '../../names/index.ts';
import { type Lock, tryLock } from '../../store/lock.ts';
import { makeQueue } from './queue.ts';
import { Refused } from './reply.ts';
import { isUploadId } from './route.ts';

/** An upload whose digest is not yet known, in a file of its own. */
export interface Upload {
  readonly id: string;
  readonly repository: string;
  /** Bytes so far. */
  readonly size: number;
}

export interface Uploads extends AsyncDisposable {
  begin(repository: string): Promise<Upload>;
  /** Also one that was begun by a server which has been killed since: as much of it as is on the disk. */
  find(id: string): Promise<Upload | undefined>;
  /**
   * All of `body`. When it breaks off, what came of it where `keep` says that whoever sends it counts, else none of
   * it. One at a time.
   */
  append(upload: Upload, body: AsyncIterable<Uint8Array>, keep: boolean): Promise<void>;
  read(upload: Upload, offset: number): AsyncIterable<Uint8Array>;
  drop(upload: Upload): Promise<void>;
}

const MOST = 1000;
const PREFIX = '.uploads-';
/** What a killed server left is kept for so long after its last byte; milliseconds. */
const STALE_MS = 24 * 3_600_000;

interface Record extends Upload {
  size: number;
  busy: boolean;
  readonly path: string;
}

interface Folder {
  readonly path: string;
  readonly lock: Lock | undefined;
}

/**
 * Each server has a folder, and in it a file for each upload, `<repository>/<id>`: that is all another one needs to go on.
 *
 * @param directory of the store, so that nothing is copied between file systems
 */
export function makeUploads(directory: string, { most = MOST } = {}): Uploads {
  const records = new Map<string, Record>();
  const folders: Folder[] = [];
  let own: string | undefined;
  // Nobody looks for what another has taken and not yet read, nor removes what another is making.
  const alone = makeQueue();

  async function prepare(): Promise<string> {
    await mkdir(directory, { recursive: true });
    await takeOver();
    const path = join(directory, `${PREFIX}${randomUUID()}`);
    // Before the folder is there: where somebody finds the folder and the lock is free, this server has died.
    folders.push({ path, lock: tryLock(lockOf(path)) });
    await mkdir(path, { mode: 0o700 });
    return path;
  }

  async function takeOver(): Promise<void> {
    for (const folder of await leftIn(directory)) {
      folders.push(folder);
      for (const record of await recordsIn(folder.path)) await admit(record);
    }
  }

  async function admit(record: Record): Promise<void> {
    for (const oldest of records.values()) {
      if (records.size < most) break;
      await drop(oldest);
    }
    records.set(record.id, record);
  }

  const recordOf = (upload: Upload): Record => {
    const record = records.get(upload.id);
    if (record === undefined) throw new Refused(404, 'BLOB_UPLOAD_UNKNOWN', 'no such upload');
    return record;
  };

  async function drop(upload: Upload): Promise<void> {
    const record = records.get(upload.id);
    records.delete(upload.id);
    if (record !== undefined) await rm(record.path, { force: true });
  }

  return {
    begin: (repository) =>
      alone(async () => {
        own ??= await prepare();
        const id = randomUUID();
        const record: Record = { id, repository, size: 0, busy: false, path: join(own, repository, id) };
        await mkdir(dirname(record.path), { recursive: true });
        await writeFile(record.path, '', { flag: 'wx', mode: 0o600 });
        await admit(record);
        return record;
      }),
    find: async (id) => {
      if (!records.has(id)) await alone(takeOver);
      return records.get(id);
    },
    append: async (upload, body, keep) => {
      const record = recordOf(upload);
      if (record.busy) throw new Refused(416, 'BLOB_UPLOAD_INVALID', 'another chunk is being written');
      record.busy = true;
      try {
        await write(record, body, keep);
      } finally {
        record.busy = false;
      }
    },
    read: (upload, offset) =>
      createReadStream(recordOf(upload).path, { start: offset, highWaterMark: 256 * 1024 }),
    drop,
    [Symbol.asyncDispose]: () =>
      alone(async () => {
        for (const folder of folders) await remove(folder);
      }),
  };
}

async function write(record: Record, body: AsyncIterable<Uint8Array>, keep: boolean): Promise<void> {
  const file = await open(record.path, 'a', 0o600);
  let added = 0;
  try {
    for await (const part of body) {
      await file.appendFile(part);
      added += part.length;
    }
    record.size += added;
  } catch (error) {
    if (keep) record.size += added;
    await truncate(record.path, record.size).catch(() => {});
    throw error;
  } finally {
    await file.close();
  }
}

/** The folders of servers that were killed, locked for this one. */
async function leftIn(directory: string): Promise<readonly Folder[]> {
  const entries = await entriesOf(directory, { recursive: false });
  return entries.flatMap((entry) => {
    if (!entry.isDirectory() || !entry.name.startsWith(PREFIX)) return [];
    const path = join(directory, entry.name);
    const lock = tryLock(lockOf(path));
    return lock === undefined ? [] : [{ path, lock }];
  });
}

/** A server that ends takes its folder away, perhaps after it was listed. */
async function entriesOf(folder: string, { recursive }: { recursive: boolean }): Promise<readonly Dirent[]> {
  return await readdir(folder, { withFileTypes: true, recursive }).catch((error: { code?: string }) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
}

/** What has been left for too long is removed, and what no server wrote is left alone. */
async function recordsIn(folder: string): Promise<readonly Record[]> {
  const found: Record[] = [];
  for (const entry of await entriesOf(folder, { recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    const repository = relative(folder, entry.parentPath);
    if (!entry.isFile() || !isUploadId(entry.name) || !isRepositoryPath(repository)) continue;
    const { size, mtimeMs } = await stat(path);
    if (Date.now() - mtimeMs > STALE_MS) await rm(path);
    else found.push({ id: entry.name, repository, size, busy: false, path });
  }
  return found;
}

async function remove({ path, lock }: Folder): Promise<void> {
  await rm(path, { recursive: true, force: true });
  await rm(lockOf(path), { force: true });
  lock?.[Symbol.dispose]();
}

const lockOf = (path: string): string => `${path}.lock`;
