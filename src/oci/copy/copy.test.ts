import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isSkycapError } from '../../kernel/index.ts';
import {
  makeImage,
  recordingTransfer,
  signImage,
  storeRegistry,
  tarFile,
} from '../../testkit/images/index.ts';
import { fc } from '../../testkit/property.ts';
import { buildIndex, pullImage } from '../image/index.ts';
import { serveRegistry } from '../registry/server/index.ts';
import { type LayoutStore, openStore } from '../store/index.ts';
import type { Descriptor, PinnedImage } from '../types.ts';
import { endsClient, endsIn } from './ends.fixture.ts';
import {
  type Copied,
  copyImage,
  type Ends,
  openSource,
  openTarget,
  parseTransport,
  readSourceImage,
  validateImage,
} from './index.ts';

const amd = { os: 'linux', architecture: 'amd64' };
const arm = { os: 'linux', architecture: 'arm64' };
let directory: string;
let store: LayoutStore;
let one: PinnedImage;
let both: Descriptor;
let transfer: ReturnType<typeof recordingTransfer>;
// Every blob is synced, which is slow on a disk that others use.
const base = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const requests: string[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(base, 'skycap-copy-'));
  store = await openStore({ directory: join(directory, 'store') });
  transfer = recordingTransfer();
  requests.length = 0;
  const big = { content: randomBytes(300_000) };
  one = await makeImage(store, {
    compression: 'gzip',
    platform: amd,
    files: { f: 'amd', big },
    reference: 'localhost/t/i:amd',
  });
  const two = await makeImage(store, { platform: arm, files: { f: 'arm' }, reference: 'localhost/t/i:arm' });
  both = await buildIndex(store, [one, two], { ...transfer, reference: 'localhost/t/i:1' });
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

afterAll(() => endsClient[Symbol.asyncDispose]());

function ends(more: Partial<Ends> = {}): Ends {
  return endsIn(directory, { ...transfer, store: async () => store }, more);
}

async function copy(
  from: string,
  to: string,
  more: {
    readonly platforms?: (typeof amd)[];
    readonly referrers?: boolean;
    readonly replace?: boolean;
  } = {},
): Promise<Copied> {
  await using source = await openSource(parseTransport(from, 'docker'), ends());
  await using target = await openTarget(parseTransport(to, 'docker'), ends(), {
    replace: more.replace ?? false,
  });
  return await copyImage(source, target, {
    ...transfer,
    platforms: more.platforms ?? [],
    referrers: more.referrers ?? false,
    defaultPlatform: amd,
  });
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'done',
    (error: unknown) => (isSkycapError(error) ? error.code : `not coded: ${String(error)}`),
  );
}

async function valid(place: string): Promise<readonly unknown[]> {
  await using source = await openSource(parseTransport(place, 'store'), ends());
  return (await validateImage(source, { ...transfer, platforms: [] })).findings;
}

describe('between all kinds', () => {
  it.each([
    ['oci:lay', 'oci:lay'],
    ['oci:lay:name', 'oci:lay:name'],
    ['oci-archive:a.tar:name', 'oci-archive:a.tar:@0'],
    ['store:localhost/t/other:2', 'store:localhost/t/other:2'],
  ])('an index keeps its digest: %s', async (to, from) => {
    const copied = await copy('store:localhost/t/i:1', to);
    expect(copied).toMatchObject({ digest: both.digest, sourceDigest: both.digest, manifests: 3 });
    expect(copied.changed).toBeUndefined();
    expect(await valid(from)).toEqual([]);
    const back = await copy(from, 'store:localhost/t/back:1');
    expect(back.digest).toBe(both.digest);
    expect(back.blobs.copied).toBe(0);
  });

  it('an archive of Docker gets another digest, says why, and holds the same image', async () => {
    const copied = await copy('store:localhost/t/i:1', 'docker-archive:d.tar:localhost/t/i:d');
    expect(copied).toMatchObject({ sourceDigest: both.digest, imageId: one.configDigest });
    expect(copied.changed).toMatch(/only its image for linux\/amd64 .*; Docker keeps layers uncompressed/);
    const back = await copy('docker-archive:d.tar:localhost/t/i:d', 'store:localhost/t/back:1');
    expect(back).toMatchObject({ digest: copied.digest, sourceDigest: copied.digest });
    expect(back.made).toContain('no manifest');
    expect(await valid('docker-archive:d.tar')).toEqual([]);
    expect(await readdir(directory)).not.toContain('.d.tar.skycap-copy');
  });

  it('platforms: one is the image alone, several are an index cut to them', async () => {
    const single = await copy('store:localhost/t/i:1', 'oci:one', { platforms: [arm] });
    expect(single).toMatchObject({ sourceDigest: both.digest, manifests: 1 });
    expect(single.changed).toBe('the source is an index, and only its image for linux/arm64 was copied');
    const all = await copy('store:localhost/t/i:1', 'oci:all', { platforms: [amd, arm] });
    expect(all).toMatchObject({ digest: both.digest });
    const three = await makeImage(store, {
      platform: { os: 'linux', architecture: 's390x' },
      files: { f: 's' },
      reference: 'localhost/t/i:s390x',
    });
    const two = await makeImage(store, { platform: arm, files: { f: 'arm' } });
    await buildIndex(store, [one, two, three], { ...transfer, reference: 'localhost/t/i:3' });
    const cut = await copy('store:localhost/t/i:3', 'oci:cut', { platforms: [amd, arm] });
    expect(cut).toMatchObject({ digest: both.digest, manifests: 3 });
    expect(cut.changed).toBe('the index was cut to linux/amd64, linux/arm64');
    expect(
      await codeOf(copy('store:localhost/t/i:1', 'oci:no', { platforms: [three.platform as typeof amd] })),
    ).toBe('OCI_PLATFORM_MISSING');
    expect(await codeOf(copy('store:localhost/t/i:amd', 'oci:no', { platforms: [arm] }))).toBe(
      'OCI_PLATFORM_MISSING',
    );
    expect(await codeOf(copy('store:localhost/t/i:1', 'docker-archive:x', { platforms: [amd, arm] }))).toBe(
      'OCI_CONVERSION_IMPOSSIBLE',
    );
  });

  it('carries signatures along, and leaves them out unless asked', async () => {
    const { referrer, signature } = await signImage(store, 'localhost/t/i', one.manifestDigest);
    const plain = await copy('store:localhost/t/i:1', 'oci:plain:v1');
    expect(plain.referrers).toBe(0);
    const full = await copy('store:localhost/t/i:1', 'oci:full:v1', { referrers: true });
    expect(full.referrers).toBe(2);
    const again = await copy('oci:full:v1', 'oci-archive:again.tar:v1', { referrers: true });
    expect(again.referrers).toBe(2);
    const back = await copy('oci-archive:again.tar:v1', 'store:localhost/far/i:1', { referrers: true });
    expect(back.referrers).toBe(2);
    expect(await store.resolve(`localhost/far/i@${referrer}`)).toMatchObject({ digest: referrer });
    const tag = `localhost/far/i:${one.manifestDigest.replace(':', '-')}.sig`;
    expect(await store.resolve(tag)).toMatchObject({ digest: signature });
    expect(await codeOf(copy('store:localhost/t/i:1', 'docker-archive:s.tar', { referrers: true }))).toBe(
      'OCI_CONVERSION_IMPOSSIBLE',
    );
  });
});

describe('with registries', () => {
  async function withRegistry(work: (host: string) => Promise<void>): Promise<void> {
    await using remote = await openStore({ directory: join(directory, 'remote') });
    const server = await serveRegistry({
      store: remote,
      port: 0,
      writable: true,
      onRequest: ({ method, path, status }) => void requests.push(`${method} ${path} ${status}`),
    });
    try {
      await work(server.host);
    } finally {
      await server.close();
    }
  }

  it('children come before parents, the name last; what is there is not sent again', async () => {
    await withRegistry(async (host) => {
      await signImage(store, 'localhost/t/i', one.manifestDigest);
      const first = await copy('store:localhost/t/i:1', `docker://${host}/a/b:1`, { referrers: true });
      expect(first).toMatchObject({ digest: both.digest, referrers: 2 });
      const puts = requests.filter((line) => /^PUT .*\/manifests\//.test(line));
      expect(puts.at(-1)).toMatch(/\/manifests\/1 201$/);
      const at = (text: string): number => puts.findIndex((line) => line.includes(text));
      expect(at(one.manifestDigest)).toBeLessThan(at(both.digest));
      requests.length = 0;
      const again = await copy('store:localhost/t/i:1', `docker://${host}/a/b:2`);
      expect(again.blobs).toEqual({ copied: 0, present: 0, mounted: 0 });
      expect(requests.filter((line) => line.includes('/blobs/'))).toEqual([]);
      const other = `docker://${host}/a/b@${one.digest}`;
      expect(await codeOf(copy('store:localhost/t/i:1', other))).toBe('OCI_TRANSPORT_INVALID');
      expect((await copy('store:localhost/t/i:amd', other)).digest).toBe(one.digest);
      const away = await copy(`${host}/a/b:1`, 'oci:away:v1', { referrers: true });
      expect(away).toMatchObject({ digest: both.digest, referrers: 2 });
    });
  });

  it('no byte of a blob moves between repositories of one registry', async () => {
    await withRegistry(async (host) => {
      await copy('store:localhost/t/i:1', `docker://${host}/a/b:1`);
      requests.length = 0;
      const copied = await copy(`${host}/a/b:1`, `${host}/c/d:1`);
      expect(copied).toMatchObject({ copiedBytes: 0, digest: both.digest, blobs: { copied: 0 } });
      expect(requests.filter((line) => /^(GET|PATCH|PUT) .*\/blobs\//.test(line))).toEqual([]);
    });
  });
});

describe('what breaks off', () => {
  it('goes on where it ended, in a layout and for an archive', async () => {
    for (const to of ['oci:cut', 'oci-archive:cut.tar']) {
      const offsets: number[] = [];
      const broken = async (breakAt: number): Promise<Copied> => {
        await using real = await openSource(parseTransport('store:localhost/t/i:amd', 'docker'), ends());
        const layer = one.layers[0]?.digest;
        const source = {
          ...real,
          async blob(descriptor: Descriptor, offset: number) {
            if (descriptor.digest === layer) offsets.push(offset);
            async function* some(): AsyncGenerator<Uint8Array> {
              let at = offset;
              for await (const chunk of store.readBlob(descriptor.digest, offset)) {
                for (let start = 0; start < chunk.length; start += 10_000) {
                  if (descriptor.digest === layer && at >= breakAt) throw new Error('broken');
                  const part = chunk.subarray(start, start + 10_000);
                  at += part.length;
                  yield part;
                }
              }
            }
            return some();
          },
        };
        await using target = await openTarget(parseTransport(to, 'docker'), ends(), { replace: false });
        return await copyImage(source, target, {
          ...transfer,
          platforms: [],
          referrers: false,
          defaultPlatform: amd,
        });
      };
      expect(await codeOf(broken(100_000))).toBe('OCI_BLOB_INCOMPLETE');
      const staging = await stat(join(directory, '.cut.tar.skycap-copy')).catch(() => undefined);
      if (staging !== undefined) expect(staging.mode & 0o777).toBe(0o700);
      else expect(to).toBe('oci:cut');
      offsets.length = 0;
      expect((await broken(Number.POSITIVE_INFINITY)).digest).toBe(one.digest);
      expect(offsets[0]).toBeGreaterThanOrEqual(100_000);
      expect(await valid(to)).toEqual([]);
    }
    expect(await readdir(join(directory, 'cut'))).toEqual(['blobs', 'index.json', 'oci-layout']);
    expect((await readdir(directory)).filter((name) => name.includes('skycap-copy'))).toEqual([]);
  });

  it('follows no manifest or config that is not what its digest says', async () => {
    for (const [name, digest] of [
      ['index', both.digest],
      ['config', one.configDigest],
    ] as const) {
      await copy('store:localhost/t/i:1', `oci:${name}:v1`);
      const path = join(directory, name, 'blobs', ...digest.split(':'));
      await writeFile(path, (await readFile(path, 'utf8')).replace('linux', 'linus'));
      await using source = await openSource(parseTransport(`oci:${name}:v1`, 'docker'), ends());
      expect(await codeOf(readSourceImage(source, amd, transfer))).toBe('OCI_BLOB_CORRUPT');
      expect(await valid(`oci:${name}:v1`)).toMatchObject([{ code: 'OCI_BLOB_CORRUPT', digest }]);
    }
  });

  it.each(['oci:stopped', 'oci-archive:stopped.tar'])('stopped on purpose leaves nothing: %s', async (to) => {
    const stop = new AbortController();
    const stopped = { ...ends(), signal: stop.signal };
    await using source = await openSource(parseTransport('store:localhost/t/i:1', 'docker'), stopped);
    {
      await using target = await openTarget(parseTransport(to, 'docker'), stopped, { replace: false });
      const emit = (event: { readonly type: string }): void => {
        if (event.type === 'blob.copied') stop.abort();
      };
      const options = { signal: stop.signal, emit, platforms: [], referrers: false, defaultPlatform: amd };
      expect(await codeOf(copyImage(source, target, { ...options, concurrency: 1 }))).toBe('CANCELLED');
    }
    expect((await readdir(directory)).filter((name) => name.includes('stopped'))).toEqual([]);
  });

  it('believes no wrong bytes, and names nothing that has them', async () => {
    await copy('store:localhost/t/i:1', 'oci:bad:v1');
    const path = join(directory, 'bad/blobs', ...(one.layers[0]?.digest ?? '').split(':'));
    const bytes = await readFile(path);
    bytes.write('y', 1000);
    await writeFile(path, bytes);
    expect(await codeOf(copy('oci:bad:v1', 'oci-archive:bad.tar'))).toBe('OCI_BLOB_CORRUPT');
    expect(await stat(join(directory, 'bad.tar')).catch(() => undefined)).toBeUndefined();
    expect(await valid('oci:bad:v1')).toMatchObject([
      { code: 'OCI_BLOB_CORRUPT', what: 'layer 1 of linux/amd64' },
    ]);
  });
});

describe('bad input', () => {
  it('each kind of source says what is wrong with it', async () => {
    const code = async (place: string): Promise<string> => codeOf(valid(place));
    await mkdir(join(directory, 'empty'));
    await writeFile(join(directory, 'text'), 'no archive');
    await writeFile(join(directory, 'zeros'), Buffer.alloc(1024));
    expect(await code('oci:none')).toBe('OCI_LAYOUT_INVALID');
    expect(await code('oci:empty')).toBe('OCI_LAYOUT_INVALID');
    expect(await code('oci-archive:none.tar')).toBe('OCI_ARCHIVE_INVALID');
    expect(await code('oci-archive:empty')).toBe('OCI_ARCHIVE_INVALID');
    expect(await code('docker-archive:text')).toBe('OCI_ARCHIVE_INVALID');
    expect(await code('docker-archive:zeros')).toBe('OCI_ARCHIVE_INVALID');
    expect(await code('docker-daemon:x')).toBe('OCI_DAEMON_UNREACHABLE');
    expect(await code('store:localhost/none:1')).toBe('OCI_IMAGE_MISSING');
    await copy('store:localhost/t/i:1', 'oci:lay:v1');
    await copy('store:localhost/t/i:amd', 'oci:lay:v2');
    expect(await code('oci:lay')).toBe('OCI_IMAGE_MISSING');
    expect(await code('oci:lay:v3')).toBe('OCI_IMAGE_MISSING');
    expect(await code('oci:lay:@2')).toBe('OCI_IMAGE_MISSING');
    expect(await code('oci:lay:@1')).toBe('done');
    expect(await code('oci-archive:lay')).toBe('OCI_ARCHIVE_INVALID');
    await copy('store:localhost/t/i:amd', 'docker-archive:d.tar');
    expect(await code('oci-archive:d.tar')).toBe('OCI_LAYOUT_INVALID');
    expect(await code('docker-archive:d.tar:other/name')).toBe('OCI_IMAGE_MISSING');
  });

  it('each kind of target says why it is none', async () => {
    const code = async (to: string): Promise<string> => codeOf(copy('store:localhost/t/i:amd', to));
    await writeFile(join(directory, 'file'), 'mine');
    await mkdir(join(directory, 'mine'));
    await writeFile(join(directory, 'mine/letter'), 'mine');
    expect(await code('oci:mine')).toBe('OCI_LAYOUT_INVALID');
    expect(await code('oci:store')).toBe('OCI_LAYOUT_INVALID');
    expect(await code('oci:file')).toBe('OCI_LAYOUT_INVALID');
    expect(await code('oci-archive:file')).toBe('OCI_ARCHIVE_WRITE');
    expect(await code('docker-archive:mine')).toBe('OCI_ARCHIVE_WRITE');
    expect(await code('oci-archive:file/below.tar')).toBe('OCI_ARCHIVE_WRITE');
    expect(await code('oci:x:@0')).toBe('OCI_TRANSPORT_INVALID');
    expect(await code(`docker-daemon:sha256:${'0'.repeat(64)}`)).toBe('OCI_TRANSPORT_INVALID');
    expect(await code('docker-daemon:x')).toBe('OCI_DAEMON_UNREACHABLE');
    expect(await readFile(join(directory, 'file'), 'utf8')).toBe('mine');
    expect(await codeOf(copy('store:localhost/t/none:1', 'oci:never/made'))).toBe('OCI_IMAGE_MISSING');
    expect(await codeOf(copy('store:localhost/t/none:1', 'oci-archive:never.tar'))).toBe('OCI_IMAGE_MISSING');
    expect((await readdir(directory)).filter((name) => name.includes('never.tar'))).toEqual([]);
    expect(await readdir(join(directory, 'never'))).toEqual([]);
    await copy('store:localhost/t/i:amd', 'oci-archive:file', { replace: true });
    expect(await valid('oci-archive:file')).toEqual([]);
  });

  it('an index of which one platform was pulled is not copied whole', async () => {
    await using other = await openStore({ directory: join(directory, 'other') });
    await pullImage(storeRegistry(store), other, 'localhost/t/i:1', { ...transfer, platform: arm });
    const from = parseTransport('store:localhost/t/i:1', 'docker');
    const copied = async (platforms: (typeof amd)[]): Promise<Copied> => {
      await using source = await openSource(from, ends({ store: async () => other }));
      await using target = await openTarget(parseTransport('oci:part', 'docker'), ends(), { replace: false });
      const options = { ...transfer, platforms, referrers: false, defaultPlatform: amd };
      return await copyImage(source, target, options);
    };
    expect(await codeOf(copied([]))).toBe('OCI_BLOB_MISSING');
    expect((await copied([arm])).manifests).toBe(1);
  });

  it('an archive with damaged bytes ends in a code or is read right', async () => {
    await copy('store:localhost/t/i:amd', 'docker-archive:d.tar:x/y:1');
    await copy('store:localhost/t/i:amd', 'oci-archive:o.tar');
    let refused = 0;
    for (const kind of ['docker-archive:d.tar', 'oci-archive:o.tar']) {
      const path = join(directory, kind.split(':')[1] as string);
      const whole = await readFile(path);
      // Headers and documents are where it is interesting; the layer is 300 kB of noise.
      const places = fc
        .integer({ min: 0, max: whole.length - 1 })
        .map((at) => at - (at % 3 === 0 ? 0 : at % 512));
      const damage = fc.array(fc.tuple(places, fc.integer({ min: 0, max: 255 })), {
        minLength: 1,
        maxLength: 4,
      });
      const length = fc.option(fc.integer({ min: 0, max: whole.length }), { freq: 4 });
      await fc.assert(
        fc.asyncProperty(damage, length, async (changes, cut) => {
          const bytes = Buffer.from(whole).subarray(0, cut ?? whole.length);
          for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value;
          await writeFile(path, bytes);
          const code = await codeOf(valid(kind));
          expect(code).toMatch(/^(done|OCI_[A-Z_]+|DIGEST_INVALID|PLATFORM_INVALID)$/);
          if (code !== 'done') refused += 1;
        }),
        { numRuns: 60 },
      );
    }
    expect(refused).toBeGreaterThan(10);
  });

  it('an archive that holds one name twice is refused', async () => {
    const entry = (path: string, content: string) => tarFile({ path, content });
    await writeFile(
      join(directory, 'twice.tar'),
      Buffer.concat([entry('manifest.json', '[]'), entry('./manifest.json', '[{}]'), Buffer.alloc(1024)]),
    );
    await expect(valid('docker-archive:twice.tar')).rejects.toMatchObject({
      code: 'OCI_ARCHIVE_INVALID',
      message: expect.stringContaining('two files "manifest.json"'),
    });
  });

  it('follows no link out of a layout', async () => {
    await copy('store:localhost/t/i:amd', 'oci:lay:v1');
    const path = join(directory, 'lay/blobs', ...one.configDigest.split(':'));
    await writeFile(join(directory, 'outside'), await readFile(path));
    await rm(path);
    await symlink(join(directory, 'outside'), path);
    expect(await codeOf(copy('oci:lay:v1', 'oci:other'))).toBe('OCI_LAYOUT_INVALID');
  });

  it('an artifact is no image for Docker', async () => {
    const { referrer } = await signImage(store, 'localhost/t/i', one.manifestDigest);
    expect(await codeOf(copy(`store:localhost/t/i@${referrer}`, 'docker-archive:x.tar'))).toBe(
      'OCI_CONVERSION_IMPOSSIBLE',
    );
  });
});
