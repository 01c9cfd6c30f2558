import { stateError } from '../errors.ts';
import type { Database } from './database.ts';

/** "SkyC" in the header field that SQLite keeps for applications (sqlite.org/fileformat2.html, 1.3). */
export const APPLICATION_ID = 0x536b7943;

/** A step forward. Numbers count from 1 without gaps; a released one never changes. */
export interface Migration {
  readonly version: number;
  readonly sql: string;
}

export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    sql: `
      CREATE TABLE data_keys (
        id TEXT PRIMARY KEY,
        purpose TEXT NOT NULL CHECK (purpose IN ('seal', 'fingerprint')),
        master TEXT NOT NULL,
        wrapped BLOB NOT NULL,
        current INTEGER NOT NULL,
        created TEXT NOT NULL
      ) STRICT;
      CREATE UNIQUE INDEX data_keys_current ON data_keys (purpose) WHERE current = 1;

      CREATE TABLE installations (
        id TEXT PRIMARY KEY,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        document TEXT NOT NULL,
        UNIQUE (namespace, name)
      ) STRICT;
      CREATE TABLE labels (
        installation_id TEXT NOT NULL REFERENCES installations (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (installation_id, name)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX labels_by_value ON labels (name, value);

      CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        installation_id TEXT NOT NULL,
        namespace TEXT NOT NULL,
        installation TEXT NOT NULL,
        state TEXT NOT NULL,
        created TEXT NOT NULL,
        document TEXT NOT NULL,
        plan TEXT NOT NULL
      ) STRICT;
      CREATE INDEX runs_by_installation ON runs (installation_id, created);
      CREATE INDEX runs_by_name ON runs (namespace, installation, created);
      CREATE TABLE steps (
        run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        id TEXT NOT NULL,
        position INTEGER NOT NULL,
        document TEXT NOT NULL,
        PRIMARY KEY (run_id, id)
      ) STRICT, WITHOUT ROWID;

      CREATE TABLE intents (
        container_id TEXT PRIMARY KEY,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        run_id TEXT NOT NULL,
        document TEXT NOT NULL
      ) STRICT;
      CREATE INDEX intents_by_name ON intents (namespace, name);

      CREATE TABLE outputs (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        installation_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        name TEXT NOT NULL,
        content_type TEXT NOT NULL,
        created TEXT NOT NULL,
        key_id TEXT,
        value BLOB NOT NULL,
        UNIQUE (run_id, name)
      ) STRICT;
      CREATE INDEX outputs_by_installation ON outputs (installation_id, name, sequence);

      CREATE TABLE bundle_state (
        installation_id TEXT PRIMARY KEY,
        run_id TEXT NOT NULL,
        file TEXT NOT NULL,
        size INTEGER NOT NULL,
        file_key_id TEXT NOT NULL,
        key_id TEXT NOT NULL,
        file_key BLOB NOT NULL,
        created TEXT NOT NULL
      ) STRICT;
    `,
  },
];

function pragma(db: Database, name: string): number {
  return Number(Object.values(db.get(`PRAGMA ${name}`) ?? {})[0] ?? 0);
}

/**
 * Says whether this is our database, before anything is changed in it.
 *
 * @throws STATE_FOREIGN, STATE_FUTURE
 */
export function inspectSchema(db: Database, migrations: readonly Migration[] = MIGRATIONS): number {
  const application = pragma(db, 'application_id');
  const version = pragma(db, 'user_version');
  const tables = Number(db.get('SELECT count(*) AS n FROM sqlite_schema')?.n ?? 0);
  const empty = application === 0 && version === 0 && tables === 0;
  if (!empty && application !== APPLICATION_ID) {
    throw stateError('STATE_FOREIGN', `${db.path} is the database of another program`, {
      hint: 'move that file away, or set `state.directory` to another folder',
      details: { path: db.path, applicationId: application },
    });
  }
  const newest = migrations.at(-1)?.version ?? 0;
  if (version > newest) {
    throw stateError(
      'STATE_FUTURE',
      `${db.path} has schema version ${version}; this Skycap knows up to ${newest}`,
      {
        hint: 'use the Skycap version that wrote it, or a newer one; nothing was changed',
        details: { path: db.path, version, newest },
      },
    );
  }
  return version;
}

/** Brings the schema forward in one transaction: all of it or none. */
export async function migrate(db: Database, migrations: readonly Migration[] = MIGRATIONS): Promise<void> {
  const newest = migrations.at(-1)?.version ?? 0;
  if (inspectSchema(db, migrations) === newest) return;
  await db.write(() => {
    // Read again: another process may have been first.
    const from = inspectSchema(db, migrations);
    for (const migration of migrations) {
      if (migration.version > from) db.script(migration.sql);
    }
    db.script(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${newest}`);
  });
}
