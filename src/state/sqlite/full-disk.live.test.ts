import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { expect, it } from 'vitest';

const FIXTURE = fileURLToPath(new URL('full-disk.fixture.ts', import.meta.url));

// A file system of its own needs a mount namespace: root, or a user namespace.
const UNSHARE = process.geteuid?.() === 0 ? ['-m'] : ['-Urm'];

it('a full disk is one error, loses nothing, and a retry with room succeeds', (context) => {
  const possible = spawnSync('unshare', [...UNSHARE, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0;
  if (!possible) {
    if (process.env.SKYCAP_REQUIRE_ENGINES === '1') throw new Error('unshare and mount are needed here');
    context.skip('not tested: a full disk (no mount namespace to be had)');
  }
  const directory = mkdtempSync(join(tmpdir(), 'skycap-full-'));
  try {
    const script = 'mount -t tmpfs -o size=2m tmpfs "$1" && exec "$2" --no-warnings "$3" "$1"';
    const child = spawnSync(
      'unshare',
      [...UNSHARE, 'sh', '-c', script, 'sh', directory, process.execPath, FIXTURE],
      { encoding: 'utf8' },
    );
    expect(child.stderr).toBe('');
    const kept = [['ip of A'], 'earlier state', ['A']];
    expect(JSON.parse(child.stdout)).toEqual({
      output: 'DISK_FULL 62',
      run: 'DISK_FULL 62',
      state: 'DISK_FULL 62',
      log: 'DISK_FULL 62',
      lock: 'DISK_FULL 62',
      readable: kept,
      rotate: 'DISK_FULL 62',
      retry: Array.from({ length: 5 }, () => 'no error'),
      lines: Array.from({ length: 2001 }, (_, n) => n),
      first: 'DISK_FULL 62',
      reopen: 'no error',
      after: [['small', 'ip of A'], 'later state'],
      second: 'no error',
    });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
