import { existsSync, statSync, unlinkSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { takeTurn, takeTurnSoon } from './turn.ts';

/** Called when a process has opened the file and not yet locked it. */
const opened = vi.hoisted(() => ({ once: undefined as (() => void) | undefined }));
const disk = vi.hoisted(() => ({ isFull: false, takesNoFile: false }));
vi.mock(import('node:sqlite'), async (original) => {
  const real = await original();
  class Watched extends real.DatabaseSync {
    constructor(path: string, options?: ConstructorParameters<typeof real.DatabaseSync>[1]) {
      if (disk.takesNoFile) throw new Error('unable to open database file');
      super(path, options ?? {});
      const once = opened.once;
      opened.once = undefined;
      once?.();
    }
    override exec(sql: string): void {
      if (disk.isFull && sql.includes('user_version =')) throw new Error('database or disk is full');
      super.exec(sql);
    }
  }
  return { ...real, DatabaseSync: Watched as typeof real.DatabaseSync };
});

const NEVER = new AbortController().signal;
const LOCK = 'PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE';
let directory: string;
let folder: string;
let file: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-turn-'));
  folder = join(directory, 'folder');
  file = join(folder, 'lock');
});
afterEach(async () => {
  opened.once = undefined;
  disk.isFull = false;
  disk.takesNoFile = false;
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
  await (await takeTurn(folder, NEVER))[Symbol.asyncDispose]();
  expect(await readdir(directory)).toEqual([]);
});

it('waits for whoever has it', async () => {
  let held = 0;
  let most = 0;
  const one = async (): Promise<void> => {
    await using _turn = await takeTurn(folder, NEVER);
    held += 1;
    most = Math.max(most, held);
    await new Promise(setImmediate);
    held -= 1;
  };
  await Promise.all(Array.from({ length: 8 }, one));
  expect(most).toBe(1);
  expect(await readdir(directory)).toEqual([]);
});

it.each([
  ['and nobody has made a new one', false],
  ['and another process has made a new one', true],
])('a file that was taken away after it was opened is no turn: %s', async (_, again) => {
  await mkdir(folder, { mode: 0o700 });
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

  const taking = takeTurn(folder, NEVER);
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
  expect(await readdir(directory)).toEqual([]);
});

it('takes a file whose process was killed before it took it away', async () => {
  await mkdir(folder, { mode: 0o700 });
  const killed = new DatabaseSync(file);
  killed.exec(`CREATE TABLE t (c); PRAGMA user_version = ${mark()}`);
  killed.close();

  await (await takeTurn(folder, NEVER))[Symbol.asyncDispose]();

  expect(await readdir(directory)).toEqual([]);
});

it('leaves no file either where there is no room to say that it is going', async () => {
  const turn = await takeTurn(folder, NEVER);
  disk.isFull = true;
  await turn[Symbol.asyncDispose]();
  expect(await readdir(directory)).toEqual([]);
});

it('a file that has no name any more is no turn, whether it says so or not', async () => {
  await mkdir(folder, { mode: 0o700 });
  opened.once = () => unlinkSync(file);
  const turn = await takeTurn(folder, NEVER);
  expect(existsSync(file)).toBe(true);
  expect(isFree()).toBe(false);
  await turn[Symbol.asyncDispose]();
  expect(await readdir(directory)).toEqual([]);
});

it('leaves no folder in which no file can be made', async () => {
  disk.takesNoFile = true;
  await expect(takeTurn(folder, NEVER)).rejects.toMatchObject({ code: 'OCI_ARCHIVE_WRITE' });
  expect(await readdir(directory)).toEqual([]);
});

it('makes the folder again that was taken away before the file was opened', async () => {
  const made = takeTurn(folder, NEVER);
  await made.then((turn) => turn[Symbol.asyncDispose]());
  await rm(folder, { recursive: true, force: true });
  await (await takeTurn(folder, NEVER))[Symbol.asyncDispose]();
  expect(await readdir(directory)).toEqual([]);
});

it('says so where the file is no lock', async () => {
  await mkdir(folder, { mode: 0o700 });
  await writeFile(file, 'something of mine, which is no database at all');
  await expect(takeTurn(folder, NEVER)).rejects.toMatchObject({ code: 'OCI_ARCHIVE_WRITE' });
});

it('takes the copy of a file whose process was killed, such as a backup brings back', async () => {
  await mkdir(folder, { mode: 0o700 });
  const copied = new DatabaseSync(file);
  copied.exec(`CREATE TABLE t (c); PRAGMA user_version = ${mark() + 1}`);
  copied.close();

  await (await takeTurn(folder, NEVER))[Symbol.asyncDispose]();

  expect(await readdir(directory)).toEqual([]);
});

it.each<[string, () => Promise<unknown>]>([
  ['a link to what is not there', () => symlink(join(directory, 'planted'), folder)],
  [
    'a link to a private folder',
    () =>
      mkdir(join(directory, 'planted'), { mode: 0o700 }).then(() =>
        symlink(join(directory, 'planted'), folder),
      ),
  ],
  ['a folder that others may look into', () => mkdir(folder).then(() => chmod(folder, 0o755))],
  ['a file', () => writeFile(folder, '', { mode: 0o600 })],
])('is taken in no place that somebody else may have prepared: %s', async (_, prepare) => {
  await prepare();
  await expect(takeTurn(folder, NEVER)).rejects.toMatchObject({
    code: 'OCI_ARCHIVE_WRITE',
    message: `${folder} is there already, and is no private folder of yours`,
  });
  expect(existsSync(join(directory, 'planted', 'lock'))).toBe(false);
  expect(existsSync(file)).toBe(false);
});

it('ends with the signal', async () => {
  const turn = await takeTurn(folder, NEVER);
  await expect(takeTurn(folder, AbortSignal.timeout(20))).rejects.toMatchObject({ code: 'CANCELLED' });
  await turn[Symbol.asyncDispose]();
});

it('a short turn is not waited for without end', async () => {
  await using _held = await takeTurn(folder, NEVER);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    const waiting = takeTurnSoon(folder, NEVER);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(30_000);
    expect(await waiting).toEqual({ turn: undefined, busy: 30 });
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

it('a short turn is gone without where there can be none, and not where it is cancelled', async () => {
  await mkdir(folder);
  await chmod(folder, 0o755);
  expect(await takeTurnSoon(folder, NEVER)).toEqual({ turn: undefined });
  await expect(takeTurnSoon(folder, AbortSignal.abort())).rejects.toMatchObject({ code: 'CANCELLED' });
});
