import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { listBundleFiles } from './bundle-files.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'skycap-bundle-'));
  writeFileSync(join(folder, 'porter.yaml'), '');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

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
