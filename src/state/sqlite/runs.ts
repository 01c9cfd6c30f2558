import { stateError } from '../errors.ts';
import type { InstallationKey, Intent, Run, RunFilter, StepRecord } from '../port.ts';
import type { Database, Row } from './database.ts';
import { describeKey } from './installations.ts';
import type { EncodedValues, ValueCodec, ValueOwner } from './values.ts';

type RunDocument = Omit<Run, 'plan' | 'steps' | 'parameters'> & { readonly parameters: EncodedValues };

export function runOwner(run: Pick<Run, 'id' | 'installationId' | 'namespace' | 'installation'>): ValueOwner {
  const name = describeKey({ namespace: run.namespace, name: run.installation });
  return { installation: run.installationId, run: run.id, what: `run ${run.id} of installation ${name}` };
}

export function putRun(db: Database, codec: ValueCodec, run: Run): void {
  const { plan, steps, parameters, ...rest } = run;
  const document: RunDocument = { ...rest, parameters: codec.encode(db, parameters, runOwner(run)) };
  db.run(
    `INSERT INTO runs (id, installation_id, namespace, installation, state, created, document, plan)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET installation_id = excluded.installation_id, namespace = excluded.namespace,
       installation = excluded.installation, state = excluded.state, created = excluded.created,
       document = excluded.document, plan = excluded.plan`,
    run.id,
    run.installationId,
    run.namespace,
    run.installation,
    run.state,
    run.created,
    JSON.stringify(document),
    plan,
  );
  db.run('DELETE FROM steps WHERE run_id = ?', run.id);
  for (const step of steps) insertStep(db, run.id, step);
}

export function putStep(db: Database, runId: string, step: StepRecord): void {
  if (db.get('SELECT 1 FROM runs WHERE id = ?', runId) === undefined) throw noSuchRun(runId);
  insertStep(db, runId, step);
}

function insertStep(db: Database, runId: string, step: StepRecord): void {
  const sql = 'INSERT OR REPLACE INTO steps (run_id, id, position, document) VALUES (?, ?, ?, ?)';
  db.run(sql, runId, step.id, step.index, JSON.stringify(step));
}

export function noSuchRun(runId: string): Error {
  return stateError('STATE_NOT_FOUND', `there is no run ${runId}`, {
    hint: '`skycap run list` shows the runs that are kept',
    details: { run: runId },
  });
}

export function getRun(db: Database, codec: ValueCodec, runId: string): Run | undefined {
  codec.prepare(db);
  const row = db.get('SELECT id, document, plan FROM runs WHERE id = ?', runId);
  return row === undefined ? undefined : decodeRun(db, codec, row);
}

export function runState(db: Database, runId: string): string | undefined {
  return db.get('SELECT state FROM runs WHERE id = ?', runId)?.state as string | undefined;
}

export function listRuns(db: Database, codec: ValueCodec, filter: RunFilter): readonly Run[] {
  codec.prepare(db);
  const conditions: string[] = [];
  const values: string[] = [];
  const equal = [
    ['namespace', filter.namespace],
    ['installation', filter.installation],
    ['installation_id', filter.installationId],
  ] as const;
  for (const [column, value] of equal) {
    if (value === undefined) continue;
    conditions.push(`${column} = ?`);
    values.push(value);
  }
  if (filter.states !== undefined) {
    conditions.push('state IN (SELECT value FROM json_each(?))');
    values.push(JSON.stringify(filter.states));
  }
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
  // In the order in which they began: the clock may have been set back in between.
  const rows = db.all(`SELECT id, document, plan FROM runs ${where} ORDER BY rowid`, ...values);
  return rows.map((row) => decodeRun(db, codec, row));
}

function decodeRun(db: Database, codec: ValueCodec, row: Row): Run {
  const { parameters, ...rest } = JSON.parse(row.document as string) as RunDocument;
  const steps = db.all('SELECT document FROM steps WHERE run_id = ? ORDER BY position, id', rest.id);
  return {
    ...rest,
    plan: row.plan as string,
    parameters: codec.decode(parameters, runOwner(rest)),
    steps: steps.map((step) => JSON.parse(step.document as string) as StepRecord),
  };
}

/** The last value of an output outlives its run: later runs read it. */
export function deleteRuns(db: Database, runIds: readonly string[]): void {
  const ids = JSON.stringify(runIds);
  db.run(
    `DELETE FROM outputs WHERE run_id IN (SELECT value FROM json_each(?))
     AND sequence NOT IN (SELECT max(sequence) FROM outputs WHERE installation_id IN (SELECT id FROM installations)
       GROUP BY installation_id, name)`,
    ids,
  );
  db.run('DELETE FROM runs WHERE id IN (SELECT value FROM json_each(?))', ids);
}

export function putIntent(db: Database, intent: Intent): void {
  db.run(
    'INSERT OR REPLACE INTO intents (container_id, namespace, name, run_id, document) VALUES (?, ?, ?, ?, ?)',
    intent.containerId,
    intent.namespace,
    intent.name,
    intent.runId,
    JSON.stringify(intent),
  );
}

export function clearIntent(db: Database, containerId: string): void {
  db.run('DELETE FROM intents WHERE container_id = ?', containerId);
}

export function listIntents(db: Database, key: InstallationKey): readonly Intent[] {
  const sql = 'SELECT document FROM intents WHERE namespace = ? AND name = ? ORDER BY rowid';
  return db.all(sql, key.namespace, key.name).map((row) => JSON.parse(row.document as string) as Intent);
}
