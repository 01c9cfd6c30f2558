import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { listBundleFiles } from './bundle-files.ts';

/** Called when a folder was listed, or something in it looked at. */
const looked = vi.hoisted(() => ({ after: (_path: string): void => {} }));
vi.mock(import('node:fs/promises'), async (original) => {
  const real = await original();
  const watched =
    <Given extends unknown[], Found>(look: (...given: Given) => Promise<Found>) =>
    async (...given: Given): Promise<Found> => {
      const found = await look(...given);
      looked.after(String(given[0]));
      return found;
    };
  return {
    ...real,
    readdir: watched(real.readdir as never) as typeof real.readdir,
    lstat: watched(real.lstat as never) as typeof real.lstat,
  };
});

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'skycap-bundle-'));
  writeFileSync(join(folder, 'porter.yaml'), '');
});
afterEach(() => {
  looked.after = () => {};
  rmSync(folder, { recursive: true, force: true });
});

const paths = async (): Promise<readonly string[]> => (await listBundleFiles(folder)).map(({ path }) => path);

it('refuses a name that is no UTF-8, and takes a folder that ignores it', async () => {
  writeFileSync(Buffer.from(`${folder}/caf\xe9.txt`, 'latin1'), '');
  await expect(paths()).rejects.toMatchObject({
    code: 'BUNDLE_UNREADABLE',
    message: expect.stringContaining('caf\ufffd.txt'),
    place: { file: folder },
  });
  writeFileSync(join(folder, '.porterignore'), 'caf*\n');
  expect(await paths()).toEqual(['porter.yaml']);
});

it('leaves out what a lock in the making has beside it', async () => {
  writeFileSync(join(folder, 'porter.lock'), '{}');
  writeFileSync(join(folder, '.porter.lock.17.0123456789ab.tmp'), '{');
  mkdirSync(join(folder, '.porter.lock.skycap-lock'));
  writeFileSync(join(folder, '.porter.lock.skycap-lock/lock'), '');
  expect(await paths()).toEqual(['porter.lock', 'porter.yaml']);
});

it('takes no offence at files and folders that go while it looks', async () => {
  for (const name of ['a', 'b', 'c']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'swap'), '');
  looked.after = (path) => {
    if (path === folder) rmSync(join(folder, 'swap'), { force: true });
    if (path === join(folder, 'b')) rmSync(path, { recursive: true });
  };
  expect(await paths()).toEqual(['a', 'b', 'c', 'porter.yaml']);
});

it.each([
  ['a pipe', (path: string) => execFileSync('mkfifo', [path])],
  ['a folder', (path: string) => execFileSync('mkdir', [path])],
  ['a link to a device', (path: string) => execFileSync('ln', ['-s', '/dev/zero', path])],
  [
    'a file that is too large',
    (path: string) => {
      writeFileSync(path, '');
      truncateSync(path, 2 << 20);
    },
  ],
])('refuses %s in place of .porterignore', async (_, make) => {
  const file = join(folder, '.porterignore');
  make(file);
  await expect(paths()).rejects.toMatchObject({ code: 'BUNDLE_UNREADABLE', place: { file } });
});
