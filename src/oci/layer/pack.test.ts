import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { packFolder } from './index.ts';

/** Process groups of our children with that name. */
function groupsOf(name: string): readonly number[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .flatMap((pid) => {
      try {
        const [, command, rest = ''] =
          /^\d+ \((.*)\) (.*)$/.exec(readFileSync(`/proc/${pid}/stat`, 'latin1').trim()) ?? [];
        const [, parent, group] = rest.split(' ').map(Number);
        return command === name && parent === process.pid && group !== undefined ? [group] : [];
      } catch {
        return [];
      }
    });
}

it('keeps tar out of the group that Ctrl-C in a terminal reaches', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'skycap-pack-'));
  try {
    mkdirSync(join(folder, 'a'));
    // More than a pipe holds, so that tar is still there when the first bytes have come.
    for (const name of ['b', 'c']) writeFileSync(join(folder, 'a', name), Buffer.alloc(4 << 20, 'x'));
    const [, , own] = (readFileSync('/proc/self/stat', 'latin1').split(') ')[1] ?? '').split(' ').map(Number);
    const packed = packFolder(folder);
    await packed.next();
    const groups = groupsOf('tar');
    expect(groups).toHaveLength(1);
    expect(groups).not.toContain(own);
    await packed.return(undefined);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
