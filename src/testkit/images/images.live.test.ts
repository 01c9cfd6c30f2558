import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { loadStore } from '../../oci/index.ts';
import { makeImage } from './index.ts';

it('makes an image with a userland, whose layers unpack', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'skycap-images-'));
  try {
    const { openStore } = await loadStore();
    await using store = await openStore({ directory: join(directory, 'store') });
    const image = await makeImage(store, { busybox: true, files: { 'etc/motd': 'hello' } });
    const again = await makeImage(store, { busybox: true, files: { 'etc/motd': 'hello' } });
    expect(again.digest).toBe(image.digest);
    const transfer = { signal: new AbortController().signal, emit: () => {} };
    const lowers = await store.lowers(image, undefined, transfer);
    expect(lowers).toHaveLength(2);
    expect(execFileSync(join(lowers[0]?.path ?? '', 'bin/echo'), ['hi'], { encoding: 'utf8' })).toBe('hi\n');
    expect(await readFile(join(lowers[1]?.path ?? '', 'etc/motd'), 'utf8')).toBe('hello');
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
