import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { openState } from '../index.ts';
import { networkFileSystem, prepareDirectory } from './directory.ts';
import { anInstallation, anOutput, aRun, pieces } from './samples.fixture.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-dir-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function failure(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => 'no error',
    (error: unknown) => error,
  );
}

describe('the state directory', () => {
  it('and everything in it is for its owner alone, whatever the umask and the modes found there', async () => {
    const root = join(directory, 'deep', 'state');
    await mkdir(root, { recursive: true, mode: 0o755 });
    await chmod(root, 0o755);
    const before = process.umask(0);
    try {
      await using store = await openState({ directory: root });
      await store.putInstallation(
        anInstallation('app', { parameters: { p: { sensitive: true, value: 'x' } } }),
      );
      await store.putRun(aRun('A'));
      await store.putOutput(anOutput('A', 'o'));
      await store.saveState('INST-app', 'A', pieces('state'));
      await using log = await store.openLog('A');
      log.write('{}');
      await using _lock = await store.lock({ namespace: '', name: 'app' }, 'exclusive', {
        runId: 'A',
        action: 'x',
      });
      const names = await readdir(root, { recursive: true });
      expect(names).toEqual(
        expect.arrayContaining(['state.db', 'state.db-wal', 'master.key', 'logs/A.ndjson']),
      );
      for (const name of ['.', ...names]) {
        const entry = await stat(join(root, name));
        expect(`${name} ${(entry.mode & 0o777).toString(8)}`).toBe(
          `${name} ${entry.isDirectory() ? '700' : '600'}`,
        );
      }
    } finally {
      process.umask(before);
    }
  });

  it('is refused on network file systems', () => {
    const mountInfo = () =>
      [
        '1 0 0:1 / / rw - ext4 /dev/x rw',
        '2 1 0:2 / /home\\040of/me rw shared:1 - fuse.sshfs me@host: rw',
        '3 1 0:3 / /local rw - fuse.fuse-overlayfs x rw',
      ].join('\n');
    const probe = (magic: number) => ({ magicOf: () => magic, mountInfo });
    for (const [magic, type] of [
      [0x6969, 'nfs'],
      [0xff534d42, 'cifs'],
      [0xff534d42 | 0, 'cifs'], // as a signed number
      [0x01021997, '9p'],
    ] as const) {
      expect(networkFileSystem('/x', probe(magic))).toBe(type);
      expect(() => prepareDirectory(join(directory, 'n'), probe(magic))).toThrow(
        expect.objectContaining({
          code: 'STATE_NETWORK_FS',
          exitCode: 60,
          hint: expect.stringContaining('state.directory'),
        }),
      );
    }
    expect(networkFileSystem('/home of/me/state', probe(0x65735546))).toBe('fuse.sshfs');
    expect(networkFileSystem('/home of/mean', probe(0x65735546))).toBeUndefined();
    expect(networkFileSystem('/local/x', probe(0x65735546))).toBeUndefined();
    expect(networkFileSystem('/x', probe(0xef53))).toBeUndefined();
    expect(networkFileSystem(directory)).toBeUndefined();
  });

  it('is refused where a file is in its place', async () => {
    await writeFile(join(directory, 'file'), '');
    for (const place of ['file', 'file/below']) {
      expect(await failure(openState({ directory: join(directory, place) }))).toMatchObject({
        code: 'STATE_PERMISSIONS',
        hint: expect.any(String),
      });
    }
  });

  it('is one store however it is spelled', async () => {
    const root = join(directory, 'state');
    await using one = await openState({ directory: root });
    await symlink(root, join(directory, 'link'));
    const other = await openState({ directory: join(directory, 'link', '.') });
    await other.putInstallation(anInstallation('app'));
    await other[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
    expect(await one.listInstallations({})).toHaveLength(1);
    await expect(other.listInstallations({})).rejects.toThrow('closed');
  });
});

describe('a database that is not ours', () => {
  const path = (): string => join(directory, 'state.db');

  it('of a newer version is refused and left as it is', async () => {
    await (await openState({ directory }))[Symbol.asyncDispose]();
    const db = new DatabaseSync(path());
    db.exec('PRAGMA user_version = 99; CREATE TABLE of_the_future (x)');
    db.close();
    const before = await readFile(path());
    expect(await failure(openState({ directory }))).toMatchObject({
      code: 'STATE_FUTURE',
      exitCode: 63,
      message: expect.stringMatching(/state\.db has schema version 99; this Skycap knows up to \d+/),
    });
    expect((await readFile(path())).equals(before)).toBe(true);
  });

  it('of another program is refused and left as it is', async () => {
    const db = new DatabaseSync(path());
    db.exec('CREATE TABLE bookmarks (x)');
    db.close();
    const before = await readFile(path());
    expect(await failure(openState({ directory }))).toMatchObject({ code: 'STATE_FOREIGN', exitCode: 64 });
    expect((await readFile(path())).equals(before)).toBe(true);
  });

  it('or no database at all is refused and left as it is', async () => {
    await writeFile(
      path(),
      'just some text that is long enough to be no database header at all, in any way. '.repeat(20),
    );
    expect(await failure(openState({ directory }))).toMatchObject({ code: 'STATE_FOREIGN' });
    expect(await readFile(path(), 'utf8')).toMatch(/^just some text/);
  });

  it('or a damaged one says so', async () => {
    {
      await using store = await openState({ directory });
      for (let n = 0; n < 200; n++) await store.putInstallation(anInstallation(`app-${n}`));
    }
    const bytes = await readFile(path());
    bytes.fill(0xff, 4096 * 2);
    await writeFile(path(), bytes);
    const list = async (): Promise<void> => {
      await using store = await openState({ directory });
      await store.listInstallations({});
    };
    expect(await failure(list())).toMatchObject({
      code: 'STATE_CORRUPT',
      hint: expect.stringContaining('backup'),
    });
  });

  it('and an empty one, which no killed first start leaves, has lost what it held', async () => {
    await writeFile(path(), '', { mode: 0o600 });
    expect(await failure(openState({ directory }))).toMatchObject({
      code: 'STATE_CORRUPT',
      hint: expect.stringContaining('backup'),
    });
  });
});
