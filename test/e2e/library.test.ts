import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { buildIndex } from '../../src/oci/image/index.ts';
import { type LayoutStore, loadRegistryServer, loadStore, type ServedRegistry } from '../../src/oci/index.ts';
import { makeImage, recordingTransfer, signImage } from '../../src/testkit/images/index.ts';

const EXAMPLES = join(import.meta.dirname, '../../examples/library');
const execute = promisify(execFile);

interface Side {
  readonly store: LayoutStore;
  readonly served: ServedRegistry;
}

let directory: string;
let from: Side;
let to: Side;

async function side(name: string): Promise<Side> {
  const { openStore } = await loadStore();
  const { serveRegistry } = await loadRegistryServer();
  const store = await openStore({ directory: join(directory, name) });
  return { store, served: await serveRegistry({ store, writable: true }) };
}

beforeAll(async () => {
  // Every blob is synced, which is slow on a disk that others use.
  directory = await mkdtemp(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'skycap-library-'));
  from = await side('from');
  to = await side('to');
  const platform = { os: 'linux', architecture: 'amd64' };
  const image = (architecture: string, greeting: string) =>
    makeImage(from.store, {
      reference: `localhost/team/app:${architecture}`,
      platform: { ...platform, architecture },
      compression: 'gzip',
      layers: [
        { files: [{ path: 'etc/greeting', content: 'old\n' }] },
        { files: [{ path: 'etc/greeting', content: greeting }] },
      ],
    });
  const images = [await image('amd64', 'hello\n'), await image('arm64', 'hi\n')];
  const reference = 'localhost/team/app:1';
  const { digest } = await buildIndex(from.store, images, { ...recordingTransfer(), reference });
  await signImage(from.store, 'localhost/team/app', digest);
});

afterAll(async () => {
  for (const one of [from, to]) {
    await one.served.close();
    await one.store[Symbol.asyncDispose]();
  }
  await rm(directory, { recursive: true, force: true });
});

async function example(name: string, ...argv: readonly string[]): Promise<string> {
  const { stdout } = await execute(process.execPath, [join(EXAMPLES, name), ...argv], { cwd: directory });
  return stdout;
}

it('examples/library/read-file.ts gives a file as its container would see it', async () => {
  const name = `${from.served.host}/team/app:1`;
  expect(await example('read-file.ts', join(directory, 'own'), name, 'etc/greeting')).toBe('hello\n');
  expect(await example('read-file.ts', join(directory, 'own'), name, '/etc/greeting')).toBe('hello\n');
  await expect(example('read-file.ts', join(directory, 'own'), name, 'etc/none')).rejects.toThrow(
    /has no file/,
  );
});

it('examples/library/copy.ts and list.ts bring over what refers to an image too', async () => {
  const source = `${from.served.host}/team/app:1`;
  const target = `${to.served.host}/other/app:2`;
  const before = await example('list.ts', source);
  expect(before).toMatch(/^tag 1$/m);
  expect(before).toMatch(/^referrer sha256:[0-9a-f]{64} test\/signature$/m);

  expect(await example('copy.ts', source, target)).toMatch(
    /^sha256:[0-9a-f]{64} copied=[1-9][0-9]* present=0\n$/,
  );
  expect(await example('copy.ts', source, target)).toMatch(/ copied=0 /);

  const after = await example('list.ts', target);
  expect(after).toMatch(/^tag 2$/m);
  const referrers = (text: string): readonly string[] =>
    text.split('\n').filter((line) => line.startsWith('referrer'));
  expect(referrers(after)).toEqual(referrers(before));
});
