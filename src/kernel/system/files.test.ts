import { execFileSync } from 'node:child_process';
import { constants, readdirSync, rmSync } from 'node:fs';
import {
  type FileHandle,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isSkycapError } from '../errors.ts';
import { diskError, ensureDirectory, ensurePrivateDirectory, openBeneath, writeFileAtomic } from './index.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'skycap-files-'));
});
afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

async function codeOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'done',
    (error: unknown) => (isSkycapError(error) ? error.code : String((error as { code?: string }).code)),
  );
}

describe('writeFileAtomic', () => {
  it('replaces a file whole, private unless told otherwise, and leaves nothing beside it', async () => {
    const path = join(root, 'f');
    await writeFileAtomic(path, 'one');
    await writeFileAtomic(path, 'two', { mode: 0o644 });
    expect(await readFile(path, 'utf8')).toBe('two');
    expect((await stat(path)).mode & 0o777).toBe(0o644);
    await writeFileAtomic(join(root, 'g'), 'x');
    expect((await stat(join(root, 'g'))).mode & 0o777).toBe(0o600);
    expect(await readdir(root)).toEqual(['f', 'g']);
  });

  it('cleans up where it cannot', async () => {
    await mkdir(join(root, 'd'));
    expect(await codeOf(writeFileAtomic(join(root, 'd'), 'x'))).toBe('EISDIR');
    expect(await readdir(root)).toEqual(['d']);
    expect(await codeOf(writeFileAtomic(join(root, 'none', 'f'), 'x'))).toBe('ENOENT');
  });

  it('sweeps what killed processes left of this file, where it is told to', async () => {
    const left = '.f.4711.0123456789ab.tmp';
    const others = ['.f.4711.tmp', '.f.g.4711.0123456789ab.tmp', '.g.4711.0123456789ab.tmp', 'g'];
    for (const name of [left, ...others]) await writeFile(join(root, name), '');
    await writeFileAtomic(join(root, 'f'), 'one');
    expect(await readdir(root)).toContain(left);
    await writeFileAtomic(join(root, 'f'), 'two', { sweep: true });
    expect((await readdir(root)).sort()).toEqual([...others, 'f'].sort());
  });

  it('begins again where another process took its file for such a one', async () => {
    const path = join(root, 'f');
    let swept = 0;
    const at = (moment: string): void => {
      if (moment === 'renamed' || swept++ > 1) return;
      for (const name of readdirSync(root)) rmSync(join(root, name));
    };
    await writeFileAtomic(path, 'whole', { at });
    expect(swept).toBe(3);
    expect(await readFile(path, 'utf8')).toBe('whole');
    expect(await readdir(root)).toEqual(['f']);
  });
});

describe('ensurePrivateDirectory', () => {
  it('makes a folder and its parents for the user alone, and leaves one that is there', async () => {
    await ensurePrivateDirectory(join(root, 'a', 'b'));
    expect((await stat(join(root, 'a'))).mode & 0o777).toBe(0o700);
    expect((await stat(join(root, 'a', 'b'))).mode & 0o777).toBe(0o700);
    await mkdir(join(root, 'open'), { mode: 0o755 });
    await ensurePrivateDirectory(join(root, 'open'));
    expect((await stat(join(root, 'open'))).mode & 0o777).toBe(0o755);
  });

  it.each(['/proc/none', '/proc/none/below', '/proc/self/none/a/b'])(
    'comes to an end at %s',
    async (path) => {
      expect(await codeOf(ensurePrivateDirectory(path))).toMatch(/ENOENT|EPERM|EACCES/);
      expect(await codeOf(ensureDirectory(path))).toMatch(/ENOENT|EPERM|EACCES/);
    },
  );

  it('makes a folder that others may look into as the mask says', async () => {
    const mask = process.umask(0o022);
    try {
      await ensureDirectory(join(root, 'a', 'b'));
    } finally {
      process.umask(mask);
    }
    expect((await stat(join(root, 'a', 'b'))).mode & 0o777).toBe(0o755);
  });

  it('does not take a file for a folder', async () => {
    await writeFile(join(root, 'f'), '');
    expect(await codeOf(ensurePrivateDirectory(join(root, 'f')))).toBe('EEXIST');
    expect(await codeOf(ensurePrivateDirectory(join(root, 'f', 'g')))).toBe('ENOTDIR');
  });
});

describe('what a container may have prepared', () => {
  const read = (path: string | Buffer): Promise<FileHandle> => openBeneath(root, path, constants.O_RDONLY);
  beforeEach(async () => {
    await mkdir(join(root, 'd'));
    await writeFile(join(root, 'd', 'f'), 'content');
  });

  it('is opened where it is below, by bytes that are no UTF-8 too', async () => {
    const name = Buffer.from('d/\xff', 'latin1');
    await writeFile(Buffer.concat([Buffer.from(`${root}/`), name]), 'bytes');
    await using plain = await read('d/f');
    await using odd = await read(name);
    expect(await plain.readFile('utf8')).toBe('content');
    expect(await odd.readFile('utf8')).toBe('bytes');
    expect(await codeOf(read('d/none'))).toBe('ENOENT');
  });

  it('is not opened by way of a link', async () => {
    await symlink('d', join(root, 'l'));
    await symlink('f', join(root, 'd', 'l'));
    expect(await codeOf(read('l/f'))).toMatch(/ELOOP|ENOTDIR/);
    expect(await codeOf(read('d/l'))).toBe('ELOOP');
  });

  it('is not waited for where it is a FIFO', async () => {
    execFileSync('mkfifo', [join(root, 'd', 'p')]);
    await using fifo = await read('d/p');
    expect((await fifo.stat()).isFIFO()).toBe(true);
  });

  it.each(['../f', 'd/../../f', '', '.', 'a\0b'])('and %j is no path below', async (path) => {
    expect(await codeOf(read(path))).toBe('FILE_UNREADABLE');
  });
});

it('a full disk has a code, other faults keep theirs', () => {
  expect(isSkycapError(diskError(Object.assign(new Error('x'), { code: 'ENOSPC' }), '/a'), 'DISK_FULL')).toBe(
    true,
  );
  const other = Object.assign(new Error('x'), { code: 'EACCES' });
  expect(diskError(other, '/a')).toBe(other);
});
