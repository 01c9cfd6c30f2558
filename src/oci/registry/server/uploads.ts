import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, open, readdir, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
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
  /** All of `body` or, when it breaks off, none of it. One at a time. */
  append(upload: Upload, body: AsyncIterable<Uint8Array>): Promise<void>;
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
export function makeUploads(directory: string, pid: number): Uploads {
  const records = new Map<string, Record>();
  let folder: Promise<string> | undefined;

  async function prepare(): Promise<string> {
    await mkdir(directory, { recursive: true });
    await sweep(directory);
    return await mkdtemp(join(directory, `${PREFIX}${pid}-`));
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
      folder ??= prepare();
      const oldest = records.values().next().value;
      if (records.size >= MOST && oldest !== undefined) await drop(oldest);
      const id = randomUUID();
      const record: Record = { id, repository, size: 0, busy: false, path: join(await folder, id) };
      records.set(id, record);
      return record;
    },
    find: (id) => records.get(id),
    append: async (upload, body) => {
      const record = recordOf(upload);
      if (record.busy) throw new Refused(416, 'BLOB_UPLOAD_INVALID', 'another chunk is being written');
      record.busy = true;
      const file = await open(record.path, 'a', 0o600);
      let added = 0;
      try {
        for await (const part of body) {
          await file.appendFile(part);
          added += part.length;
        }
        record.size += added;
      } catch (error) {
        await truncate(record.path, record.size).catch(() => {});
        throw error;
      } finally {
        record.busy = false;
        await file.close();
      }
    },
    read: (upload, offset) =>
      createReadStream(recordOf(upload).path, { start: offset, highWaterMark: 256 * 1024 }),
    drop,
    [Symbol.asyncDispose]: async () => {
      records.clear();
      if (folder !== undefined) await rm(await folder, { recursive: true, force: true });
    },
  };
}

/** Removes what servers that were killed left behind. */
async function sweep(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const owner = new RegExp(`^\\${PREFIX}(\\d+)-`).exec(name)?.[1];
    if (owner !== undefined && !isAlive(Number(owner)))
      await rm(join(directory, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { code?: string }).code === 'EPERM';
  }
}
