import { createHmac, randomBytes } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';

import { stateError } from '../errors.ts';
import type { Database, Row } from './database.ts';
import { fileErrorCode, writeWhole } from './files.ts';
import { type DataKey, type SealContext, seal, unseal } from './seal.ts';

const SECRET_BYTES = 32;

interface MasterFile {
  readonly version: 1;
  readonly current: string;
  /** By id; more than one only while a rotation is under way, or after a lost key was put back by hand. */
  readonly keys: Readonly<Record<string, { readonly created: string; readonly secret: string }>>;
}

export type KeyPurpose = 'seal' | 'fingerprint';

/**
 * Data keys lie in the database, wrapped under a master key; the master key lies in a file of its own, so a copy
 * of the database alone reveals nothing.
 */
export class Keyring {
  readonly #path: string;
  #master: MasterFile;
  readonly #unwrapped = new Map<string, DataKey>();
  #fingerprintKey: DataKey | undefined;
  /** Grows with each key that was asked for and could not be had. */
  misses = 0;

  private constructor(path: string) {
    this.#path = path;
    this.#master = readMaster(path) ?? createMaster(path);
  }

  /** @throws STATE_KEY_FILE, DISK_FULL */
  static async open(db: Database, path: string): Promise<Keyring> {
    const keyring = new Keyring(path);
    await db.write(() => {
      keyring.#usable(db, 'seal');
      keyring.#fingerprintKey = keyring.#usable(db, 'fingerprint');
    });
    return keyring;
  }

  /** The key for new values. Call it inside the transaction that stores what it seals. */
  current(db: Database): DataKey {
    return this.#usable(db, 'seal');
  }

  /** @returns undefined if the key is lost */
  find(db: Database, id: string): DataKey | undefined {
    const known = this.#unwrapped.get(id);
    if (known !== undefined) return known;
    const row = db.get('SELECT id, purpose, master, wrapped FROM data_keys WHERE id = ?', id);
    const key = row === undefined ? undefined : this.#unwrap(row);
    if (key === undefined) this.misses++;
    return key;
  }

  /** Makes every key that can be had `known`. Call it inside the transaction that reads what is sealed. */
  load(db: Database): void {
    for (const row of db.all('SELECT id, purpose, master, wrapped FROM data_keys')) {
      if (this.#unwrapped.has(row.id as string)) continue;
      if (this.#unwrap(row) === undefined) this.misses++;
    }
  }

  /** @returns undefined if the key is lost, or was not loaded */
  known(id: string): DataKey | undefined {
    return this.#unwrapped.get(id);
  }

  fingerprint(value: Uint8Array): string {
    if (this.#fingerprintKey === undefined) throw new Error('keyring is not open');
    return `hmac-sha256:${createHmac('sha256', this.#fingerprintKey.secret).update(value).digest('hex')}`;
  }

  /** Adds a new master key beside the old ones and makes it the current one. */
  addMaster(): void {
    const file = readMaster(this.#path) ?? this.#master;
    const id = newId('mk');
    this.#writeMaster({ ...file, current: id, keys: { ...file.keys, [id]: newSecret() } });
  }

  /** Wraps every data key that can be read under the current master key; the others stay as they are. */
  rewrapAll(db: Database): void {
    for (const row of db.all('SELECT id, purpose, master, wrapped FROM data_keys')) {
      const key = this.#unwrap(row);
      if (key === undefined) continue;
      const purpose = row.purpose as KeyPurpose;
      const wrapped = this.#wrap(key, purpose);
      db.run(
        'UPDATE data_keys SET master = ?, wrapped = ? WHERE id = ?',
        this.#master.current,
        wrapped,
        key.id,
      );
    }
  }

  /** Puts a new data key in the place of the current one, which stays for what is sealed under it. */
  renew(db: Database, purpose: KeyPurpose): DataKey {
    const key: DataKey = { id: newId('dk'), secret: randomBytes(SECRET_BYTES) };
    db.run('UPDATE data_keys SET current = 0 WHERE purpose = ?', purpose);
    db.run(
      'INSERT INTO data_keys (id, purpose, master, wrapped, current, created) VALUES (?, ?, ?, ?, 1, ?)',
      key.id,
      purpose,
      this.#master.current,
      this.#wrap(key, purpose),
      new Date().toISOString(),
    );
    this.#unwrapped.set(key.id, key);
    return key;
  }

  /** Forgets master keys that wrap nothing any more. */
  dropUnusedMasters(db: Database): void {
    const used = new Set(db.all('SELECT DISTINCT master FROM data_keys').map((row) => row.master));
    const keys = Object.entries(this.#master.keys).filter(
      ([id]) => used.has(id) || id === this.#master.current,
    );
    this.#writeMaster({ ...this.#master, keys: Object.fromEntries(keys) });
  }

  #usable(db: Database, purpose: KeyPurpose): DataKey {
    const row = db.get(
      'SELECT id, purpose, master, wrapped FROM data_keys WHERE purpose = ? AND current = 1',
      purpose,
    );
    const known =
      row === undefined ? undefined : (this.#unwrapped.get(row.id as string) ?? this.#unwrap(row));
    return known ?? this.renew(db, purpose);
  }

  #unwrap(row: Row): DataKey | undefined {
    const id = row.id as string;
    let master = this.#masterKey(row.master as string);
    if (master === undefined) {
      // Another process may have rotated the keys since this one read the file.
      this.#master = readMaster(this.#path) ?? this.#master;
      master = this.#masterKey(row.master as string);
    }
    if (master === undefined) return undefined;
    const secret = unseal(master, row.wrapped as Uint8Array, wrapContext(id, row.purpose as KeyPurpose));
    if (secret === undefined) return undefined;
    const key: DataKey = { id, secret };
    this.#unwrapped.set(id, key);
    return key;
  }

  #wrap(key: DataKey, purpose: KeyPurpose): Buffer {
    const master = this.#masterKey(this.#master.current);
    if (master === undefined) throw damaged(this.#path, 'its current key is missing');
    return seal(master, key.secret, wrapContext(key.id, purpose));
  }

  #masterKey(id: string): DataKey | undefined {
    const entry = this.#master.keys[id];
    return entry === undefined ? undefined : { id, secret: Buffer.from(entry.secret, 'base64') };
  }

  #writeMaster(file: MasterFile): void {
    writeWhole(this.#path, `${JSON.stringify(file, undefined, 2)}\n`, 'replace');
    this.#master = file;
  }
}

function wrapContext(id: string, purpose: KeyPurpose): SealContext {
  return { installation: '', run: '', name: `data key ${purpose} ${id}` };
}

function newId(prefix: string): string {
  return `${prefix}-${randomBytes(9).toString('hex')}`;
}

function newSecret(): { created: string; secret: string } {
  return { created: new Date().toISOString(), secret: randomBytes(SECRET_BYTES).toString('base64') };
}

function createMaster(path: string): MasterFile {
  const id = newId('mk');
  const file: MasterFile = { version: 1, current: id, keys: { [id]: newSecret() } };
  if (writeWhole(path, `${JSON.stringify(file, undefined, 2)}\n`, 'create')) return file;
  return readMaster(path) ?? file;
}

function readMaster(path: string): MasterFile | undefined {
  let text: string;
  try {
    const { mode, uid } = statSync(path);
    const me = process.geteuid?.() ?? 0;
    if (me !== 0 && uid !== me) throw damaged(path, `it belongs to user ${uid}`);
    // Others may have read it already; closing it without a word would hide that.
    if ((mode & 0o077) !== 0)
      throw damaged(path, `its mode ${(mode & 0o777).toString(8)} lets others read it`);
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return undefined;
    if (fileErrorCode(error) === 'EACCES') throw damaged(path, 'this user may not read it');
    throw error;
  }
  const file = parseMaster(text);
  if (file === undefined) throw damaged(path, 'it is not a key file');
  return file;
}

function parseMaster(text: string): MasterFile | undefined {
  try {
    const file = JSON.parse(text) as Partial<MasterFile> | null;
    if (file?.version !== 1 || typeof file.current !== 'string' || typeof file.keys !== 'object')
      return undefined;
    const entries = Object.values(file.keys ?? {});
    const whole = entries.every(
      (entry) => Buffer.from(String(entry?.secret), 'base64').length === SECRET_BYTES,
    );
    return whole && file.keys?.[file.current] !== undefined ? (file as MasterFile) : undefined;
  } catch {
    return undefined;
  }
}

function damaged(path: string, why: string): Error {
  return stateError('STATE_KEY_FILE', `the master key file ${path} cannot be used: ${why}`, {
    hint: `give it mode 0600 and the content it had, or move it away: then what is encrypted under it is lost (chmod 600 ${path})`,
    details: { path },
  });
}
