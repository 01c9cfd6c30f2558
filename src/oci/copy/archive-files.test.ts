import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openFile } from './archive-files.ts';

it('does not wait for the writer of a pipe, where nothing could cancel it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'skycap-archive-'));
  try {
    const path = join(folder, 'image.tar');
    execFileSync('mkfifo', [path]);
    await expect(openFile(path)).rejects.toMatchObject({ code: 'OCI_ARCHIVE_INVALID' });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
