import { mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { findsInLayers } from '../../testkit/contracts/lower-file.contract.ts';
import { hasGnuTar } from '../layer/index.ts';

// A host without GNU tar: the programs that are needed, and not that one. Set before anything asks for it.
const programs = mkdtempSync(join(tmpdir(), 'skycap-programs-'));
const needed = new Set(['sh', 'getfattr', 'setfattr', 'sync']);
const found = new Map(
  ['/bin', '/sbin', '/usr/bin', '/usr/sbin'].flatMap((folder) =>
    readdirSync(folder).map((name) => [name, join(folder, name)] as const),
  ),
);
for (const [name, path] of found) if (needed.has(name)) symlinkSync(path, join(programs, name));
process.env.PATH = programs;
afterAll(() => rmSync(programs, { recursive: true, force: true }));

it('L14 finds no GNU tar here', async () => expect(await hasGnuTar()).toBe(false));
findsInLayers('Node');
