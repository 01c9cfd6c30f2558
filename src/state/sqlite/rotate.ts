import type { LostItem } from '../port.ts';
import { wrapContext } from './bundle-state.ts';
import type { Database, Row } from './database.ts';
import { installationOwner } from './installations.ts';
import type { Keyring } from './keyring.ts';
import { outputContext } from './outputs.ts';
import { runOwner } from './runs.ts';
import { seal, unseal } from './seal.ts';
import type { EncodedValues, ValueCodec, ValueOwner } from './values.ts';

interface ParameterRow {
  readonly table: 'installations' | 'runs';
  readonly id: string;
  readonly owner: ValueOwner;
  readonly document: { readonly parameters: EncodedValues };
}

/**
 * A new master key and a new data key; every value is sealed anew, and old keys go once nothing needs them. The key
 * that fingerprints are made with stays, or no fingerprint on record would fit again. Saved state keeps the key of
 * its file, wrapped anew, until its next save. Killed at any point, both keys are there, and a second try completes.
 */
export async function rotateKeys(db: Database, keys: Keyring, codec: ValueCodec): Promise<void> {
  await db.write(() => {
    // Inside the transaction: no other process can take a key under the old master meanwhile.
    keys.addMaster();
    keys.rewrapAll(db);
    keys.renew(db, 'seal');
  });
  await db.write(() => {
    for (const row of [...parameterRows(db, 'installations'), ...parameterRows(db, 'runs')]) {
      const parameters = codec.reseal(db, row.document.parameters, row.owner);
      db.run(
        `UPDATE ${row.table} SET document = ? WHERE id = ?`,
        JSON.stringify({ ...row.document, parameters }),
        row.id,
      );
    }
    resealOutputs(db, keys);
    rewrapFileKeys(db, keys);
    const used = usedKeys(db);
    for (const row of db.all("SELECT id FROM data_keys WHERE purpose = 'seal' AND current = 0")) {
      if (!used.has(row.id as string)) db.run('DELETE FROM data_keys WHERE id = ?', row.id as string);
    }
  });
  await db.write(() => keys.dropUnusedMasters(db));
}

function resealOutputs(db: Database, keys: Keyring): void {
  const current = keys.current(db);
  // One at a time: values may be large.
  const sql = 'SELECT sequence FROM outputs WHERE key_id IS NOT NULL AND key_id <> ?';
  for (const { sequence } of db.all(sql, current.id)) {
    const row = db.get(
      'SELECT installation_id, run_id, name, key_id, value FROM outputs WHERE sequence = ?',
      sequence as number,
    );
    const key = row === undefined ? undefined : keys.find(db, row.key_id as string);
    if (row === undefined || key === undefined) continue;
    const context = outputContext(outputFacts(row));
    const plain = unseal(key, row.value as Uint8Array, context);
    if (plain === undefined) continue;
    const sealed = seal(current, plain, context);
    db.run(
      'UPDATE outputs SET key_id = ?, value = ? WHERE sequence = ?',
      current.id,
      sealed,
      sequence as number,
    );
  }
}

function rewrapFileKeys(db: Database, keys: Keyring): void {
  const current = keys.current(db);
  for (const row of db.all(
    'SELECT installation_id, run_id, file_key_id, key_id, file_key FROM bundle_state',
  )) {
    const installation = row.installation_id as string;
    const context = wrapContext(installation, row.run_id as string, row.file_key_id as string);
    const key = keys.find(db, row.key_id as string);
    const secret = key === undefined ? undefined : unseal(key, row.file_key as Uint8Array, context);
    if (secret === undefined) continue;
    const wrapped = seal(current, secret, context);
    db.run(
      'UPDATE bundle_state SET key_id = ?, file_key = ? WHERE installation_id = ?',
      current.id,
      wrapped,
      installation,
    );
  }
}

function usedKeys(db: Database): ReadonlySet<string> {
  const used = new Set<string>();
  for (const row of db.all('SELECT DISTINCT key_id FROM outputs WHERE key_id IS NOT NULL'))
    used.add(row.key_id as string);
  for (const row of db.all('SELECT DISTINCT key_id FROM bundle_state')) used.add(row.key_id as string);
  for (const { document } of [...parameterRows(db, 'installations'), ...parameterRows(db, 'runs')]) {
    for (const value of Object.values(document.parameters)) if ('k' in value) used.add(value.k);
  }
  return used;
}

/** Everything that was encrypted under a key that cannot be had. */
export function listLost(db: Database, keys: Keyring): readonly LostItem[] {
  const items: LostItem[] = [];
  const gone = new Map<string, boolean>();
  const isGone = (id: string): boolean => {
    const known = gone.get(id) ?? keys.find(db, id) === undefined;
    gone.set(id, known);
    return known;
  };
  for (const row of [...parameterRows(db, 'installations'), ...parameterRows(db, 'runs')]) {
    for (const [name, value] of Object.entries(row.document.parameters)) {
      if (!('k' in value) || !isGone(value.k)) continue;
      const run = row.owner.run === '' ? {} : { runId: row.owner.run };
      items.push({ kind: 'parameter', installationId: row.owner.installation, ...run, name, key: value.k });
    }
  }
  for (const row of db.all(
    'SELECT installation_id, run_id, name, key_id FROM outputs WHERE key_id IS NOT NULL',
  )) {
    const key = row.key_id as string;
    if (isGone(key)) items.push({ kind: 'output', ...outputFacts(row), key });
  }
  for (const row of db.all('SELECT installation_id, run_id, key_id FROM bundle_state')) {
    const key = row.key_id as string;
    if (!isGone(key)) continue;
    const place = { installationId: row.installation_id as string, runId: row.run_id as string };
    items.push({ kind: 'state', ...place, name: 'state', key });
  }
  return items;
}

function outputFacts(row: Row): { installationId: string; runId: string; name: string } {
  return {
    installationId: row.installation_id as string,
    runId: row.run_id as string,
    name: row.name as string,
  };
}

function parameterRows(db: Database, table: ParameterRow['table']): ParameterRow[] {
  // Records without a sealed value need no look.
  const rows = db.all(`SELECT * FROM ${table} WHERE instr(document, '"k":') > 0`);
  return rows.map((row) => {
    const id = row.id as string;
    const namespace = row.namespace as string;
    const owner =
      table === 'installations'
        ? installationOwner({ id, namespace, name: row.name as string })
        : runOwner({
            id,
            namespace,
            installation: row.installation as string,
            installationId: row.installation_id as string,
          });
    return { table, id, owner, document: JSON.parse(row.document as string) as ParameterRow['document'] };
  });
}
