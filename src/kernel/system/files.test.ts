import { execFileSync } from 'node:child_process';
import { constants, readdirSync, rmSync } from 'node:fs';
import {
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isSkycapError } from '../errors.ts';
import {
  diskError,
  ensureDirectory,
  ensurePrivateDirectory,
  openBeneath,
  readFileBeneath,
  writeFileAtomic,
} from './index.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'skycap-files-'));
});
afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

const options = { maxBytes: 1000 };

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
  beforeEach(async () => {
    await mkdir(join(root, 'd'));
    await writeFile(join(root, 'd', 'f'), 'content');
  });

  it('is read where it is a plain file', async () => {
    expect((await readFileBeneath(root, 'd/f', options))?.toString()).toBe('content');
    expect(await readFileBeneath(root, 'd/none', options)).toBeUndefined();
  });

  it.each<[string, (at: string) => Promise<unknown> | unknown]>([
    ['a link', (at) => symlink('/etc/shadow', at)],
    ['a hard link', (at) => link(join(root, 'd', 'f'), at)],
    ['a folder', (at) => mkdir(at)],
    ['a FIFO', (at) => execFileSync('mkfifo', [at])],
    [
      'a file of a terabyte',
      async (at) => {
        await writeFile(at, '');
        await truncate(at, 2 ** 40);
      },
    ],
  ])('is refused as %s', async (_what, make) => {
    await make(join(root, 'x'));
    expect(await codeOf(readFileBeneath(root, 'x', options))).toBe('FILE_UNREADABLE');
  });

  it('is refused behind a link to a folder', async () => {
    await symlink('d', join(root, 'l'));
    expect(await codeOf(readFileBeneath(root, 'l/f', options))).toBe('FILE_UNREADABLE');
    expect(await codeOf(openBeneath(root, 'l/f', constants.O_RDONLY))).toMatch(/ELOOP|ENOTDIR/);
  });

  it('whose name is no UTF-8 is opened by its bytes', async () => {
    const name = Buffer.from('d/\xff', 'latin1');
    await writeFile(Buffer.concat([Buffer.from(`${root}/`), name]), 'bytes');
    await using handle = await openBeneath(root, name, constants.O_RDONLY);
    expect(await handle.readFile('utf8')).toBe('bytes');
  });

  it.each(['../f', 'd/../../f', '', '.', 'a\0b'])('and %j is no path below', async (path) => {
    expect(await codeOf(readFileBeneath(root, path, options))).toBe('FILE_UNREADABLE');
  });

  it('up to exactly the limit', async () => {
    expect((await readFileBeneath(root, 'd/f', { maxBytes: 7 }))?.length).toBe(7);
    expect(await codeOf(readFileBeneath(root, 'd/f', { maxBytes: 6 }))).toBe('FILE_UNREADABLE');
  });
});

it('a full disk has a code, other faults keep theirs', () => {
  expect(isSkycapError(diskError(Object.assign(new Error('x'), { code: 'ENOSPC' }), '/a'), 'DISK_FULL')).toBe(
    true,
  );
  const other = Object.assign(new Error('x'), { code: 'EACCES' });
  expect(diskError(other, '/a')).toBe(other);
});
