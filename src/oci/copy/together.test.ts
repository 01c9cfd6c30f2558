import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { makeImage, recordingTransfer } from '../../testkit/images/index.ts';
import { type LayoutStore, openStore } from '../store/index.ts';
import { endsClient, endsIn } from './ends.fixture.ts';
import { type Copied, copyImage, openSource, openTarget, parseTransport } from './index.ts';
import { layoutTarget } from './layout-target.ts';

/** Called before a folder or a file is looked at or opened, so that another copy can be quicker, or the disk full. */
const before = vi.hoisted(() => ({ look: async (_path: string): Promise<void> => {} }));
vi.mock(import('node:fs/promises'), async (original) => {
  const real = await original();
  return {
    ...real,
    readFile: (async (...given: Parameters<typeof real.readFile>) => {
      await before.look(String(given[0]));
      return await real.readFile(...given);
    }) as typeof real.readFile,
    open: (async (...given: Parameters<typeof real.open>) => {
      await before.look(String(given[0]));
      return await real.open(...given);
    }) as typeof real.open,
    readdir: (async (...given: Parameters<typeof real.readdir>) => {
      await before.look(String(given[0]));
      return await real.readdir(...given);
    }) as typeof real.readdir,
  };
});

let directory: string;
let store: LayoutStore;
let transfer: ReturnType<typeof recordingTransfer>;

afterAll(() => endsClient[Symbol.asyncDispose]());
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-copies-'));
  store = await openStore({ directory: join(directory, 'store') });
  transfer = recordingTransfer();
  await makeImage(store, { files: { f: 'one' }, reference: 'localhost/t/i:1' });
});
afterEach(async () => {
  before.look = async () => {};
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

async function copy(to: string, { replace = false } = {}): Promise<Copied> {
  const ends = endsIn(directory, { ...transfer, store: async () => store });
  await using source = await openSource(parseTransport('store:localhost/t/i:1', 'docker'), ends);
  await using target = await openTarget(parseTransport(to, 'docker'), ends, { replace });
  const platform = { os: 'linux', architecture: 'amd64' };
  return await copyImage(source, target, {
    ...transfer,
    platforms: [],
    referrers: false,
    defaultPlatform: platform,
  });
}

const six = Array.from({ length: 6 }, (_, index) => index);

it('six copies at once make one layout with all their names, and leave nothing of their own', async () => {
  await Promise.all(six.map((index) => copy(`oci:lay:t${index}`)));

  expect((await readdir(join(directory, 'lay'))).sort()).toEqual(['blobs', 'index.json', 'oci-layout']);
  const { manifests } = JSON.parse(await readFile(join(directory, 'lay', 'index.json'), 'utf8')) as {
    manifests: { annotations: Record<string, string> }[];
  };
  const names = manifests.map(({ annotations }) => annotations['org.opencontainers.image.ref.name']);
  expect(names.sort()).toEqual(six.map((index) => `t${index}`));
});

it.each(['oci-archive', 'docker-archive'])(
  'six copies at once to one file of %s follow each other',
  async (kind) => {
    await Promise.all(six.map(() => copy(`${kind}:a.tar`, { replace: true })));
    expect((await readdir(directory)).sort()).toEqual(['a.tar', 'store']);
  },
);

it('of copies at once that may not replace an archive one makes it', async () => {
  const ended = await Promise.allSettled(six.map(() => copy('oci-archive:a.tar')));
  const refused = ended.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  expect(refused).toHaveLength(5);
  for (const reason of refused) expect(reason).toMatchObject({ code: 'OCI_ARCHIVE_WRITE' });
  expect((await readdir(directory)).sort()).toEqual(['a.tar', 'store']);
});

/** What another copy leaves when it has ended. */
async function wholeLayout(path: string): Promise<void> {
  await mkdir(join(path, 'blobs'), { recursive: true });
  await writeFile(join(path, 'index.json'), '{"schemaVersion":2,"manifests":[]}');
  await writeFile(join(path, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
}

it.each([
  ['its names are listed', ''],
  ['its mark is looked for', 'oci-layout'],
])('a layout that another copy makes before %s is no foreign folder', async (_, name) => {
  const path = join(directory, 'lay');
  let made = false;
  before.look = async (looked) => {
    if (made || looked !== join(path, name)) return;
    made = true;
    await wholeLayout(path);
  };
  const target = await layoutTarget({ name: 'oci:lay', path, signal: transfer.signal });
  await target[Symbol.asyncDispose]();
  expect(made).toBe(true);
});

it('goes on in a layout whose first copy was killed before its mark was there', async () => {
  const path = join(directory, 'lay');
  await wholeLayout(path);
  await rm(join(path, 'oci-layout'));
  await mkdir(join(path, '.skycap-copy'));
  await writeFile(join(path, '.oci-layout.4711.0123456789ab.tmp'), '{');

  await copy('oci:lay:t');

  expect((await readdir(path)).sort()).toEqual(['blobs', 'index.json', 'oci-layout']);
});

describe('a layout whose index is there and its mark is not', () => {
  let path: string;
  beforeEach(() => {
    path = join(directory, 'lay');
  });
  afterEach(async () => {
    await copy('oci:lay:t');
    expect((await readdir(path)).sort()).toEqual(['blobs', 'index.json', 'oci-layout']);
  });

  it('because the disk was full is gone on with', async () => {
    before.look = async (looked) => {
      if (!looked.startsWith(join(path, '.oci-layout.'))) return;
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    };
    await expect(copy('oci:lay:t')).rejects.toMatchObject({ code: 'DISK_FULL' });
    expect((await readdir(path)).sort()).toEqual(['.skycap-copy', 'blobs', 'index.json']);
    before.look = async () => {};
  });

  it('because its copy was killed is gone on with, though the next one broke off early', async () => {
    await wholeLayout(path);
    await rm(join(path, 'oci-layout'));
    await mkdir(join(path, '.skycap-copy'));
    const target = await layoutTarget({ name: 'oci:lay', path, signal: transfer.signal });
    await target[Symbol.asyncDispose]();
    expect((await readdir(path)).sort()).toContain('.skycap-copy');
  });
});
