import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { stateError } from '../errors.ts';
import type { Database } from './database.ts';
import { asFileError, fileErrorCode, partialName, syncFolder } from './files.ts';
import type { Keyring } from './keyring.ts';
import { associatedData, type DataKey, type SealContext, seal, unseal } from './seal.ts';
import { damaged, lost } from './values.ts';

/*
 * A file of saved state: 8 bytes of magic, then chunks of at most 256 KiB, each
 *   4 bytes length of the ciphertext | ciphertext | 16 bytes tag
 * AES-256-GCM under a key made for this file alone, the nonce being the chunk's number with a mark on the last one
 * (the STREAM construction: chunks cannot be reordered, dropped or cut off unseen). The file's key lies in the
 * database, wrapped under the current data key, so rotating keys rewrites no gigabytes.
 */
const MAGIC = Buffer.from('SKYSTAT1');
const CHUNK_BYTES = 256 * 1024;
const TAG_BYTES = 16;

interface StateRow {
  readonly runId: string;
  readonly file: string;
  readonly size: number;
  readonly fileKeyId: string;
  readonly keyId: string;
  readonly fileKey: Uint8Array;
}

function stateContext(installation: string, run: string): SealContext {
  return { installation, run, name: 'state' };
}

function nonceOf(chunk: number, last: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64BE(BigInt(chunk), 0);
  nonce[11] = last ? 1 : 0;
  return nonce;
}

/** Installation ids are ULIDs; whatever they are, they name one folder and leave no other. */
function folderOf(root: string, installationId: string): string {
  const plain = /^[A-Za-z0-9_-]{1,64}$/.test(installationId);
  return join(
    root,
    plain ? installationId : `x-${createHash('sha256').update(installationId).digest('hex')}`,
  );
}

/** Saved state of bundles: one encrypted file per installation, replaced as a whole. */
export class BundleStateFiles {
  readonly #db: Database;
  readonly #keys: Keyring;
  readonly #root: string;

  constructor(db: Database, keys: Keyring, root: string) {
    this.#db = db;
    this.#keys = keys;
    this.#root = root;
  }

  /** The earlier state stays until the new one is complete and durable. */
  async save(installationId: string, runId: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const folder = folderOf(this.#root, installationId);
    const fileKey: DataKey = { id: `fk-${randomBytes(9).toString('hex')}`, secret: randomBytes(32) };
    const context = stateContext(installationId, runId);
    const name = `${fileKey.id}.${process.pid}.state`;
    const path = join(folder, name);
    const partial = partialName(path);
    let size = 0;
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      syncFolder(this.#root);
      const file = await open(partial, 'wx', 0o600);
      try {
        size = await writeChunks(file, bytes, { key: fileKey, context });
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(partial, path);
      syncFolder(folder);
      await this.#db.write((db) => {
        const key = this.#keys.current(db);
        db.run(
          `INSERT OR REPLACE INTO bundle_state (installation_id, run_id, file, size, file_key_id, key_id, file_key, created)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
          installationId,
          runId,
          name,
          size,
          fileKey.id,
          key.id,
          seal(key, fileKey.secret, wrapContext(installationId, runId, fileKey.id)),
          new Date().toISOString(),
        );
      });
    } catch (error) {
      await rm(partial, { force: true });
      await rm(path, { force: true });
      throw asFileError(error, folder);
    }
    await this.#sweep(installationId);
  }

  /**
   * @throws STATE_KEY_LOST, STATE_CORRUPT; the latter also while reading, as each chunk is checked before it is given
   */
  async load(installationId: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    for (let attempt = 0; ; attempt++) {
      const found = await this.#db.read((db) => {
        const row = readRow(db, installationId);
        return row === undefined ? undefined : { row, key: this.#keys.find(db, row.keyId) };
      });
      if (found === undefined) return undefined;
      const { row, key } = found;
      const what = `the saved state of installation ${installationId} (run ${row.runId})`;
      if (key === undefined) throw lost(what, row.keyId);
      const secret = unseal(key, row.fileKey, wrapContext(installationId, row.runId, row.fileKeyId));
      if (secret === undefined) throw damaged(what);
      const path = join(folderOf(this.#root, installationId), row.file);
      const file = await open(path, 'r').catch((error: unknown) => {
        if (fileErrorCode(error) === 'ENOENT') return undefined;
        throw error;
      });
      if (file === undefined) {
        // Another process may have saved a newer one between our two looks.
        if (attempt < 5) continue;
        throw stateError('STATE_CORRUPT', `${what} is missing: ${path}`, {
          hint: 'restore the state directory from a backup, or remove the installation with `skycap installation delete --force`',
          details: { path },
        });
      }
      if ((await file.stat()).size !== row.size) {
        await file.close();
        throw damaged(what);
      }
      return readChunks(file, {
        key: { id: row.fileKeyId, secret },
        context: stateContext(installationId, row.runId),
        what,
      });
    }
  }

  async remove(installationId: string): Promise<void> {
    await this.#db.write((db) =>
      db.run('DELETE FROM bundle_state WHERE installation_id = ?', installationId),
    );
    await this.removeFiles(installationId);
  }

  /** For when the record is gone already. */
  async removeFiles(installationId: string): Promise<void> {
    await rm(folderOf(this.#root, installationId), { recursive: true, force: true });
  }

  /** Removes what earlier saves and killed processes left, and nothing that a living process is writing. */
  async #sweep(installationId: string): Promise<void> {
    const folder = folderOf(this.#root, installationId);
    const current = await this.#db.read((db) => readRow(db, installationId)?.file);
    for (const name of await readdir(folder).catch(() => [])) {
      if (name === current) continue;
      const owner = /\.(\d+)-[0-9a-f]+\.partial$/.exec(name)?.[1];
      if (owner !== undefined && isAlive(Number(owner))) continue;
      const maker = /\.(\d+)\.state$/.exec(name)?.[1];
      // A whole file of another living process may be about to be recorded.
      if (maker !== undefined && Number(maker) !== process.pid && isAlive(Number(maker))) continue;
      await rm(join(folder, name), { force: true });
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return fileErrorCode(error) === 'EPERM';
  }
}

function readRow(db: Database, installationId: string): StateRow | undefined {
  const row = db.get('SELECT * FROM bundle_state WHERE installation_id = ?', installationId);
  if (row === undefined) return undefined;
  return {
    runId: row.run_id as string,
    file: row.file as string,
    size: Number(row.size),
    fileKeyId: row.file_key_id as string,
    keyId: row.key_id as string,
    fileKey: row.file_key as Uint8Array,
  };
}

export function wrapContext(installation: string, run: string, fileKeyId: string): SealContext {
  return { installation, run, name: `state key ${fileKeyId}` };
}

/** @returns size of the file in bytes */
async function writeChunks(
  file: FileHandle,
  bytes: AsyncIterable<Uint8Array>,
  how: { readonly key: DataKey; readonly context: SealContext },
): Promise<number> {
  const associated = associatedData(how.context, how.key.id);
  let size = 0;
  let chunk = 0;
  const append = async (block: Uint8Array): Promise<void> => {
    for (let at = 0; at < block.length; ) {
      const { bytesWritten } = await file.write(block, at, block.length - at, size);
      at += bytesWritten;
      size += bytesWritten;
    }
  };
  const appendChunk = async (plain: Uint8Array, last: boolean): Promise<void> => {
    const cipher = createCipheriv('aes-256-gcm', how.key.secret, nonceOf(chunk++, last));
    cipher.setAAD(associated);
    const head = Buffer.alloc(4);
    head.writeUInt32BE(plain.length);
    await append(Buffer.concat([head, cipher.update(plain), cipher.final(), cipher.getAuthTag()]));
  };
  await append(MAGIC);
  const buffer = Buffer.alloc(CHUNK_BYTES);
  let filled = 0;
  for await (const piece of bytes) {
    for (let at = 0; at < piece.length; ) {
      // A full buffer waits for the next byte: only then is it known not to be the last chunk.
      if (filled === CHUNK_BYTES) {
        await appendChunk(buffer, false);
        filled = 0;
      }
      const taken = Math.min(CHUNK_BYTES - filled, piece.length - at);
      buffer.set(piece.subarray(at, at + taken), filled);
      filled += taken;
      at += taken;
    }
  }
  await appendChunk(buffer.subarray(0, filled), true);
  return size;
}

async function* readChunks(
  file: FileHandle,
  from: { readonly key: DataKey; readonly context: SealContext; readonly what: string },
): AsyncGenerator<Uint8Array, void, undefined> {
  const associated = associatedData(from.context, from.key.id);
  let position = 0;
  const take = async (length: number): Promise<Buffer> => {
    const block = Buffer.alloc(length);
    for (let at = 0; at < length; ) {
      const { bytesRead } = await file.read(block, at, length - at, position);
      if (bytesRead === 0) throw damaged(from.what);
      at += bytesRead;
      position += bytesRead;
    }
    return block;
  };
  try {
    const { size } = await file.stat();
    if (!(await take(MAGIC.length)).equals(MAGIC)) throw damaged(from.what);
    for (let chunk = 0; ; chunk++) {
      const length = (await take(4)).readUInt32BE();
      if (length > CHUNK_BYTES) throw damaged(from.what);
      const sealed = await take(length + TAG_BYTES);
      const last = position === size;
      const decipher = createDecipheriv('aes-256-gcm', from.key.secret, nonceOf(chunk, last), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(associated);
      decipher.setAuthTag(sealed.subarray(length));
      let plain: Buffer;
      try {
        plain = Buffer.concat([decipher.update(sealed.subarray(0, length)), decipher.final()]);
      } catch {
        throw damaged(from.what);
      }
      if (plain.length > 0) yield plain;
      if (last) return;
    }
  } finally {
    await file.close();
  }
}

/** Id of the run that saved an installation's state. */
export function stateRun(db: Database, installationId: string): string | undefined {
  const row = db.get('SELECT run_id FROM bundle_state WHERE installation_id = ?', installationId);
  return row?.run_id as string | undefined;
}
