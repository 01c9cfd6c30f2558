import { mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { writesTheTable } from '../../testkit/contracts/oracle.contract.ts';
import { hasGnuTar } from './index.ts';

// A host without GNU tar: all programs but that one. Set before anything asks for it.
const programs = mkdtempSync(join(tmpdir(), 'skycap-programs-'));
const found = new Map(
  ['/bin', '/sbin', '/usr/bin', '/usr/sbin'].flatMap((folder) =>
    readdirSync(folder).map((name) => [name, join(folder, name)] as const),
  ),
);
found.delete('tar');
for (const [name, path] of found) symlinkSync(path, join(programs, name));
process.env.PATH = programs;
afterAll(() => rmSync(programs, { recursive: true, force: true }));

it('L25 finds no GNU tar here', async () => expect(await hasGnuTar()).toBe(false));
writesTheTable('our own writer', {
  times: (line) => line.replace(/"(\d{16})\d{3}"/, '"$1"'),
});
