import { stateError } from '../errors.ts';
import type { OutputRecord } from '../port.ts';
import type { Database, Row } from './database.ts';
import type { Keyring } from './keyring.ts';
import { type SealContext, seal, unseal } from './seal.ts';
import { damaged, lost } from './values.ts';

// SQLite takes 10^9 bytes, and reading such a value takes that much memory twice.
const LIMIT_BYTES = 256 * 1024 * 1024;

const COLUMNS = 'installation_id, run_id, name, content_type, created, key_id, value';

export function putOutput(db: Database, keys: Keyring, output: OutputRecord): void {
  if (output.value.length > LIMIT_BYTES) {
    throw stateError(
      'STATE_TOO_LARGE',
      `output "${output.name}" has ${output.value.length} bytes; ${LIMIT_BYTES} is the limit`,
      {
        hint: 'keep large results in a registry or a bucket and make their address the output',
        details: { output: output.name, sizeBytes: output.value.length, limitBytes: LIMIT_BYTES },
      },
    );
  }
  const key = output.sensitive ? keys.current(db) : undefined;
  const value = key === undefined ? output.value : seal(key, output.value, outputContext(output));
  // The last one put is the newest, also when an output of the same run is replaced.
  db.run('DELETE FROM outputs WHERE run_id = ? AND name = ?', output.runId, output.name);
  db.run(
    `INSERT INTO outputs (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    output.installationId,
    output.runId,
    output.name,
    output.contentType,
    output.created,
    key?.id ?? null,
    value,
  );
}

export function latestOutputs(
  db: Database,
  keys: Keyring,
  of: { readonly installationId: string; readonly except: readonly string[] },
): readonly OutputRecord[] {
  const rows = db.all(
    `SELECT ${COLUMNS} FROM outputs WHERE sequence IN
       (SELECT max(sequence) FROM outputs WHERE installation_id = ?
         AND run_id NOT IN (SELECT value FROM json_each(?)) GROUP BY name) ORDER BY name`,
    of.installationId,
    JSON.stringify(of.except),
  );
  return rows.map((row) => decodeOutput(db, keys, row));
}

export function runOutputs(db: Database, keys: Keyring, runId: string): readonly OutputRecord[] {
  const rows = db.all(`SELECT ${COLUMNS} FROM outputs WHERE run_id = ? ORDER BY name`, runId);
  return rows.map((row) => decodeOutput(db, keys, row));
}

export function outputContext(output: Pick<OutputRecord, 'installationId' | 'runId' | 'name'>): SealContext {
  return { installation: output.installationId, run: output.runId, name: `output ${output.name}` };
}

function decodeOutput(db: Database, keys: Keyring, row: Row): OutputRecord {
  const facts = {
    installationId: row.installation_id as string,
    runId: row.run_id as string,
    name: row.name as string,
    contentType: row.content_type as OutputRecord['contentType'],
    created: row.created as string,
  };
  const stored = row.value as Uint8Array;
  const keyId = row.key_id as string | null;
  if (keyId === null) return { ...facts, sensitive: false, value: new Uint8Array(stored) };
  const key = keys.find(db, keyId);
  const what = `output "${facts.name}" of run ${facts.runId}`;
  let opened: Uint8Array | undefined;
  const open = (): Uint8Array => {
    if (key === undefined) throw lost(what, keyId);
    const plain = opened ?? unseal(key, stored, outputContext(facts));
    if (plain === undefined) throw damaged(what);
    opened = new Uint8Array(plain);
    return opened;
  };
  return {
    ...facts,
    sensitive: true,
    get value() {
      return open();
    },
    ...(key === undefined ? { lostKey: keyId } : {}),
  };
}
