import { existsSync, statSync, unlinkSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { takeTurn } from './turn.ts';

/** Called when a process has opened the file and not yet locked it. */
const opened = vi.hoisted(() => ({ once: undefined as (() => void) | undefined }));
vi.mock(import('node:sqlite'), async (original) => {
  const real = await original();
  class Watched extends real.DatabaseSync {
    constructor(path: string, options?: ConstructorParameters<typeof real.DatabaseSync>[1]) {
      super(path, options ?? {});
      const once = opened.once;
      opened.once = undefined;
      once?.();
    }
  }
  return { ...real, DatabaseSync: Watched as typeof real.DatabaseSync };
});

const NEVER = new AbortController().signal;
const LOCK = 'PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE';
let directory: string;
let file: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-turn-'));
  file = join(directory, 'folder', 'lock');
});
afterEach(async () => {
  opened.once = undefined;
  await rm(directory, { recursive: true, force: true });
});

const mark = (): number => Number(statSync(file, { bigint: true }).ino % 0x7fffffffn) + 1;

function isFree(): boolean {
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    database.exec('BEGIN EXCLUSIVE');
    return true;
  } catch {
    return false;
  } finally {
    database.close();
  }
}

it('leaves no file', async () => {
  await (await takeTurn(file, NEVER))[Symbol.asyncDispose]();
  expect(await readdir(join(directory, 'folder'))).toEqual([]);
});

it('waits for whoever has it', async () => {
  let held = 0;
  let most = 0;
  const one = async (): Promise<void> => {
    await using _turn = await takeTurn(file, NEVER);
    held += 1;
    most = Math.max(most, held);
    await new Promise(setImmediate);
    held -= 1;
  };
  await Promise.all(Array.from({ length: 8 }, one));
  expect(most).toBe(1);
  expect(await readdir(join(directory, 'folder'))).toEqual([]);
});

it.each([
  ['and nobody has made a new one', false],
  ['and another process has made a new one', true],
])('a file that was taken away after it was opened is no turn: %s', async (_, again) => {
  await mkdir(join(directory, 'folder'));
  const before = new DatabaseSync(file);
  before.exec(LOCK);
  let other: DatabaseSync | undefined;
  opened.once = () => {
    before.exec(`PRAGMA user_version = ${mark()}; COMMIT`);
    unlinkSync(file);
    before.close();
    if (!again) return;
    other = new DatabaseSync(file);
    other.exec(LOCK);
  };

  const taking = takeTurn(file, NEVER);
  if (again) {
    const first = await Promise.race([
      taking.then(() => 'taken'),
      new Promise((done) => setTimeout(done, 100, 'waits')),
    ]);
    expect(first).toBe('waits');
    other?.close();
  }
  const turn = await taking;

  expect(existsSync(file)).toBe(true);
  expect(isFree()).toBe(false);
  await turn[Symbol.asyncDispose]();
  expect(await readdir(join(directory, 'folder'))).toEqual([]);
});

it('takes a file whose process was killed before it took it away', async () => {
  await mkdir(join(directory, 'folder'));
  const killed = new DatabaseSync(file);
  killed.exec(`CREATE TABLE t (c); PRAGMA user_version = ${mark()}`);
  killed.close();

  await (await takeTurn(file, NEVER))[Symbol.asyncDispose]();

  expect(await readdir(join(directory, 'folder'))).toEqual([]);
});

it('makes the folder again that was taken away before the file was opened', async () => {
  const made = takeTurn(file, NEVER);
  await made.then((turn) => turn[Symbol.asyncDispose]());
  await rm(join(directory, 'folder'), { recursive: true });
  await (await takeTurn(file, NEVER))[Symbol.asyncDispose]();
  expect(await readdir(join(directory, 'folder'))).toEqual([]);
});

it('says so where the file is no lock', async () => {
  await mkdir(join(directory, 'folder'));
  await writeFile(file, 'something of mine, which is no database at all');
  await expect(takeTurn(file, NEVER)).rejects.toMatchObject({ code: 'OCI_ARCHIVE_WRITE' });
});

it('ends with the signal', async () => {
  const turn = await takeTurn(file, NEVER);
  await expect(takeTurn(file, AbortSignal.timeout(20))).rejects.toMatchObject({ code: 'CANCELLED' });
  await turn[Symbol.asyncDispose]();
});
