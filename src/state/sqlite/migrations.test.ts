import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { openState } from '../index.ts';
import { Database } from './database.ts';
import { MIGRATIONS, type Migration, migrate } from './migrations.ts';
import { anInstallation, anOutput, aRun, aStep, joined } from './samples.fixture.ts';

const FIXTURES = fileURLToPath(new URL('fixtures', import.meta.url));

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-migrate-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const steps: readonly Migration[] = [
  { version: 1, sql: 'CREATE TABLE a (x)' },
  { version: 2, sql: "INSERT INTO a VALUES ('two')" },
  { version: 3, sql: 'ALTER TABLE a ADD COLUMN y' },
];

describe('migrations', () => {
  it('are numbered from 1 without gaps', () => {
    expect(MIGRATIONS.map((migration) => migration.version)).toEqual(MIGRATIONS.map((_, index) => index + 1));
  });

  it('run from where the database stands, once, in order', async () => {
    for (const from of [1, 2, 3]) {
      const db = new Database(join(directory, `from-${from}.db`));
      await migrate(db, steps.slice(0, from));
      await migrate(db, steps);
      await migrate(db, steps);
      expect(db.all('SELECT x, y FROM a')).toEqual([{ x: 'two', y: null }]);
      await db.close();
    }
  });

  it('are all of one piece: one that fails leaves the version before', async () => {
    const db = new Database(join(directory, 'broken.db'));
    await migrate(db, steps.slice(0, 1));
    const broken = [...steps, { version: 4, sql: 'CREATE TABLE b (x); SELECT nonsense' }];
    await expect(migrate(db, broken)).rejects.toThrow('nonsense');
    expect(db.all('SELECT x FROM a')).toEqual([]);
    await migrate(db, steps);
    expect(db.all('SELECT x FROM a')).toEqual([{ x: 'two' }]);
    await db.close();
  });

  it('have a fixture of each version, which opens with all its records', async () => {
    const fixtures = (await readdir(FIXTURES)).sort();
    expect(fixtures).toEqual(MIGRATIONS.map((migration) => `v${migration.version}`));
    for (const name of fixtures) {
      const root = join(directory, name);
      await mkdir(join(root, 'bundle-state', 'INST-app'), { recursive: true });
      const read = (file: string): Promise<string> => readFile(join(FIXTURES, name, file), 'utf8');
      await writeFile(join(root, 'master.key'), await read('master.json'), { mode: 0o600 });
      const db = new DatabaseSync(join(root, 'state.db'));
      db.exec(await read('state.sql'));
      const file = db.prepare('SELECT file FROM bundle_state').get()?.file as string;
      db.close();
      await writeFile(
        join(root, 'bundle-state', 'INST-app', file),
        Buffer.from(await read('bundle-state.base64'), 'base64'),
      );

      await using store = await openState({ directory: root });
      const parameters = {
        plain: { sensitive: false, value: [1, 'two'] },
        secret: { sensitive: true, value: 'fixture-secret' },
      };
      expect(await store.listInstallations({ labels: { team: 'a' } })).toEqual([
        anInstallation('app', { labels: { team: 'a' }, parameters }),
      ]);
      expect(await store.listRuns({})).toEqual([aRun('A', { parameters, steps: [aStep('one', 0)] })]);
      const outputs = await store.latestOutputs('INST-app');
      expect(
        outputs.map((output) => [output.name, output.sensitive, Buffer.from(output.value).toString()]),
      ).toEqual([
        ['ip', false, 'ip of A'],
        ['token', true, 'token of A'],
      ]);
      expect((await joined(await store.loadState('INST-app')))?.toString()).toBe('saved state');
      expect(await store.listIntents({ namespace: 'dev', name: 'app' })).toHaveLength(1);
      expect(await store.fingerprint(Buffer.from('x'))).toBe((await read('fingerprint.txt')).trim());
      await store.putOutput(anOutput('A', 'new'));
      expect(await store.lostItems()).toEqual([]);
    }
  });
});
