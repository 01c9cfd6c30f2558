import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { asStateError, Database } from './database.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-database-'));
});
afterEach(() => rm(directory, { recursive: true }));

const error = (errcode: number): Error => Object.assign(new Error('of SQLite'), { errcode });

// sqlite.org/rescode.html: BUSY and its RECOVERY and SNAPSHOT, LOCKED, PROTOCOL.
it.each([5, 261, 517, 6, 15])('asks again where others are at the database: result code %i', async (code) => {
  const database = new Database(join(directory, 'state.db'));
  let asked = 0;
  const answer = await database.patiently(() => {
    asked += 1;
    if (asked < 3) throw error(code);
    return asked;
  });
  expect(answer).toBe(3);
  expect(asStateError(error(code), 'state.db')).toMatchObject({ code: 'STATE_BUSY' });
  await database.close();
});

it('asks once where it is of no use', async () => {
  const database = new Database(join(directory, 'state.db'));
  let asked = 0;
  const work = database.patiently(() => {
    asked += 1;
    throw error(11);
  });
  await expect(work).rejects.toMatchObject({ code: 'STATE_CORRUPT' });
  expect(asked).toBe(1);
  await database.close();
});
