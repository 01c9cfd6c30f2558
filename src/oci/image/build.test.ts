import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { codeOf } from '../../testkit/contracts/store.contract.ts';
import { recordingTransfer } from '../../testkit/images/index.ts';
import { openStore } from '../store/index.ts';
import { buildImage } from './build.ts';

it('gives no name to an image that nothing could read, and leaves it where it is', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'skycap-build-'));
  try {
    await using store = await openStore({ directory });
    const build = (user: string, reference: string) =>
      buildImage(
        store,
        {
          layers: [{ files: [{ path: 'f', content: user }] }],
          config: { user },
          platform: { os: 'linux', architecture: 'amd64' },
          reference,
        },
        recordingTransfer(),
      );
    const good = await build('1000', 'localhost/a:1');
    for (const user of ['-1', '4294967296', 'a\nb']) {
      expect(await codeOf(build(user, 'localhost/a:1'))).toBe('OCI_MANIFEST_INVALID');
      expect(await codeOf(build(user, 'localhost/b:1'))).toBe('OCI_MANIFEST_INVALID');
    }
    expect((await store.resolve('localhost/a:1'))?.digest).toBe(good.digest);
    expect((await store.list()).map(({ reference }) => reference)).toEqual(['localhost/a:1']);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
