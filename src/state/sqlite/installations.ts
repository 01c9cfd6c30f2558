import { stateError } from '../errors.ts';
import type { Installation, InstallationFilter, InstallationKey } from '../port.ts';
import type { Database, Row } from './database.ts';
import type { EncodedValues, ValueCodec, ValueOwner } from './values.ts';

type InstallationDocument = Omit<Installation, 'id' | 'namespace' | 'name' | 'parameters'> & {
  readonly parameters: EncodedValues;
};

export function describeKey(key: InstallationKey): string {
  return key.namespace === '' ? key.name : `${key.namespace}/${key.name}`;
}

export function installationOwner(installation: InstallationKey & { readonly id: string }): ValueOwner {
  return { installation: installation.id, run: '', what: `installation ${describeKey(installation)}` };
}

export function putInstallation(db: Database, codec: ValueCodec, installation: Installation): void {
  const { id, namespace, name, parameters, ...rest } = installation;
  const other = db.get(
    'SELECT id FROM installations WHERE namespace = ? AND name = ? AND id <> ?',
    namespace,
    name,
    id,
  );
  if (other !== undefined) {
    throw stateError(
      'STATE_CONFLICT',
      `installation ${describeKey(installation)} exists already with id ${String(other.id)}`,
      {
        hint: 'choose another name, or delete the other installation first',
        details: { namespace, name, id: other.id },
      },
    );
  }
  const document: InstallationDocument = {
    ...rest,
    parameters: codec.encode(db, parameters, installationOwner(installation)),
  };
  db.run(
    `INSERT INTO installations (id, namespace, name, document) VALUES (?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET namespace = excluded.namespace, name = excluded.name, document = excluded.document`,
    id,
    namespace,
    name,
    JSON.stringify(document),
  );
  db.run('DELETE FROM labels WHERE installation_id = ?', id);
  for (const [label, value] of Object.entries(installation.labels)) {
    db.run('INSERT INTO labels (installation_id, name, value) VALUES (?, ?, ?)', id, label, value);
  }
}

export function getInstallation(
  db: Database,
  codec: ValueCodec,
  key: InstallationKey,
): Installation | undefined {
  codec.prepare(db);
  const row = db.get(
    'SELECT id, namespace, name, document FROM installations WHERE namespace = ? AND name = ?',
    key.namespace,
    key.name,
  );
  if (row === undefined) return undefined;
  const document = JSON.parse(row.document as string) as InstallationDocument;
  return decodeInstallation(codec, [row.id as string, row.namespace as string, row.name as string, document]);
}

export function listInstallations(
  db: Database,
  codec: ValueCodec,
  filter: InstallationFilter,
): readonly Installation[] {
  codec.prepare(db);
  const conditions: string[] = [];
  const values: (string | number)[] = [];
  if (filter.namespace !== undefined) {
    conditions.push('namespace = ?');
    values.push(filter.namespace);
  }
  if (filter.name !== undefined) {
    conditions.push('instr(name, ?) > 0');
    values.push(filter.name);
  }
  for (const [label, value] of Object.entries(filter.labels ?? {})) {
    conditions.push('id IN (SELECT installation_id FROM labels WHERE name = ? AND value = ?)');
    values.push(label, value);
  }
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
  // One text for all is parsed in less time than as many rows and texts take; V8 holds half a million such records.
  // As bytes: SQLite's texts are decoded character by character, those of a buffer many at once.
  const record =
    "'[' || json_quote(id) || ',' || json_quote(namespace) || ',' || json_quote(name) || ',' || document || ']'";
  const inOrder = `SELECT ${record} AS record FROM installations ${where} ORDER BY namespace, name LIMIT ? OFFSET ?`;
  const row = db.get(
    `SELECT CAST('[' || coalesce(group_concat(record, ','), '') || ']' AS BLOB) AS records FROM (${inOrder})`,
    ...values,
    filter.limit ?? -1,
    filter.skip ?? 0,
  );
  const { buffer, byteOffset, byteLength } = (row as Row).records as Uint8Array<ArrayBuffer>;
  const found = JSON.parse(Buffer.from(buffer, byteOffset, byteLength).toString('utf8')) as readonly Stored[];
  return found.map((stored) => decodeInstallation(codec, stored));
}

type Stored = readonly [id: string, namespace: string, name: string, document: InstallationDocument];

/** Each property by its name: to copy the rest of an object takes three times as long, for thousands of records. */
function decodeInstallation(codec: ValueCodec, [id, namespace, name, document]: Stored): Installation {
  const { labels, custom, bundle, credentialSources, status, parameters: encoded } = document;
  let decoded: Installation['parameters'] | undefined;
  return {
    id,
    namespace,
    name,
    labels,
    custom,
    bundle,
    credentialSources,
    status,
    get parameters() {
      decoded ??= codec.decode(encoded, installationOwner({ id, namespace, name }));
      return decoded;
    },
  };
}

/** @returns ids of the installation's runs, whose logs are to be removed, or undefined if there is no such installation */
export function deleteInstallation(
  db: Database,
  key: InstallationKey,
): { id: string; runs: readonly string[] } | undefined {
  const row = db.get(
    'SELECT id FROM installations WHERE namespace = ? AND name = ?',
    key.namespace,
    key.name,
  );
  if (row === undefined) return undefined;
  const id = row.id as string;
  const runs = db.all('SELECT id FROM runs WHERE installation_id = ?', id).map((run) => run.id as string);
  for (const table of ['outputs', 'runs', 'bundle_state'])
    db.run(`DELETE FROM ${table} WHERE installation_id = ?`, id);
  db.run('DELETE FROM installations WHERE id = ?', id);
  return { id, runs };
}
