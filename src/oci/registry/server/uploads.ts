import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { type Lock, tryLock } from '../../store/lock.ts';
import { Refused } from './reply.ts';

/** An upload whose digest is not yet known, in a file of its own. */
export interface Upload {
  readonly id: string;
  readonly repository: string;
  /** Bytes so far. */
  readonly size: number;
}

export interface Uploads extends AsyncDisposable {
  begin(repository: string): Promise<Upload>;
  find(id: string): Upload | undefined;
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

interface Record extends Upload {
  size: number;
  busy: boolean;
  readonly path: string;
}

/** @param directory of the store, so that nothing is copied between file systems */
export function makeUploads(directory: string): Uploads {
  const records = new Map<string, Record>();
  let folder: Promise<string> | undefined;
  let lock: Lock | undefined;

  async function prepare(): Promise<string> {
    await mkdir(directory, { recursive: true });
    await sweep(directory);
    const path = join(directory, `${PREFIX}${randomUUID()}`);
    // Before the folder is there: where somebody finds the folder and the lock is free, this server has died.
    lock = tryLock(lockOf(path));
    await mkdir(path, { mode: 0o700 });
    return path;
  }

  const recordOf = (upload: Upload): Record => {
    const record = records.get(upload.id);
    if (record === undefined) throw new Error('the upload is over');
    return record;
  };

  async function drop(upload: Upload): Promise<void> {
    const record = records.get(upload.id);
    records.delete(upload.id);
    if (record !== undefined) await rm(record.path, { force: true });
  }

  return {
    begin: async (repository) => {
      // What failed is tried again by the next.
      folder ??= prepare().catch((error: unknown) => {
        folder = undefined;
        lock?.[Symbol.dispose]();
        throw error;
      });
      const oldest = records.values().next().value;
      if (records.size >= MOST && oldest !== undefined) await drop(oldest);
      const id = randomUUID();
      const record: Record = { id, repository, size: 0, busy: false, path: join(await folder, id) };
      records.set(id, record);
      return record;
    },
    find: (id) => records.get(id),
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
    [Symbol.asyncDispose]: async () => {
      records.clear();
      if (folder !== undefined) await remove(await folder);
      lock?.[Symbol.dispose]();
    },
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

/** Removes what servers that were killed left behind. */
async function sweep(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    if (!entry.isDirectory() || !entry.name.startsWith(PREFIX)) continue;
    const path = join(directory, entry.name);
    using free = tryLock(lockOf(path));
    if (free !== undefined) await remove(path);
  }
}

async function remove(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
  await rm(lockOf(path), { force: true });
}

const lockOf = (path: string): string => `${path}.lock`;
