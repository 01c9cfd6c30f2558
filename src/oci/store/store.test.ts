import { mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { codeOf } from '../../testkit/contracts/store.contract.ts';
import { inPieces, makeImage, recordingTransfer, tarOf } from '../../testkit/images/index.ts';
import { buildImage, buildIndex, pinnedFromStore } from '../image/index.ts';
import { digestOf } from '../names/index.ts';
import type { Descriptor, PinnedImage } from '../types.ts';
import { type LayoutStore, openStore } from './index.ts';

let directory: string;
let store: LayoutStore;
let transfer: ReturnType<typeof recordingTransfer>;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-store-'));
  store = await openStore({ directory: join(directory, 'store') });
  transfer = recordingTransfer();
});
afterEach(async () => {
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const platform = { os: 'linux', architecture: 'amd64' };
const path = (...parts: string[]): string => join(directory, 'store', ...parts);

function blobOf(bytes: Uint8Array): Descriptor {
  return { mediaType: 'application/octet-stream', digest: digestOf(bytes), size: bytes.length };
}

async function collect(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts);
}

describe('a blob', () => {
  const bytes = Buffer.from('0123456789'.repeat(1000));
  const blob = blobOf(bytes);

  it('is right though each piece lies in a buffer that is written over', async () => {
    const long = Buffer.from(Uint8Array.from({ length: 3_500_000 }, (_, at) => at * 31 + (at >> 12)));
    const lent = Buffer.alloc(70_000);
    async function* lend(offset: number): AsyncGenerator<Uint8Array> {
      for (let at = offset; at < long.length; at += lent.length) {
        yield lent.subarray(0, long.copy(lent, 0, at));
        lent.fill(0);
      }
    }
    await store.ingest(blobOf(long), async (offset) => lend(offset), transfer);
    expect((await collect(store.readBlob(blobOf(long).digest))).equals(long)).toBe(true);
  });

  it('is there when its bytes were right, and can be read from anywhere', async () => {
    expect(await store.hasBlob(blob.digest)).toBe(false);
    await store.ingest(blob, async (offset) => inPieces(bytes.subarray(offset)), transfer);
    expect(await store.blobSize(blob.digest)).toBe(10_000);
    expect((await collect(store.readBlob(blob.digest))).equals(bytes)).toBe(true);
    expect((await collect(store.readBlob(blob.digest, 9995))).toString()).toBe('56789');
    expect(await readdir(path('ingest'))).toEqual([]);
  });

  it('that is there is not asked for again', async () => {
    await store.ingest(blob, async () => inPieces(bytes), transfer);
    await store.ingest(blob, () => Promise.reject(new Error('asked')), transfer);
  });

  it.each<[string, Buffer, RegExp]>([
    ['with other bytes', Buffer.alloc(10_000), /: the bytes that came have another digest$/],
    [
      'longer than announced',
      Buffer.concat([bytes, Buffer.from('x')]),
      /: more than the announced 10000 bytes came$/,
    ],
  ])('%s is refused and leaves nothing', async (_what, sent, message) => {
    const ingest = store.ingest(blob, async (offset) => inPieces(sent.subarray(offset)), transfer);
    await expect(ingest).rejects.toMatchObject({
      code: 'OCI_BLOB_CORRUPT',
      message: expect.stringMatching(message),
      hint: expect.stringMatching(/^try again/),
      details: { digest: blob.digest },
    });
    expect(await store.hasBlob(blob.digest)).toBe(false);
    expect(await readdir(path('ingest'))).toEqual([]);
  });

  it('continues where the transfer broke', async () => {
    const offsets: number[] = [];
    async function* cut(offset: number): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(offset, offset + 4000);
      throw new Error('connection reset');
    }
    await store.ingest(
      blob,
      async (offset) => {
        offsets.push(offset);
        return cut(offset);
      },
      transfer,
    );
    expect(offsets).toEqual([0, 4000, 8000]);
    expect(transfer.events.filter((event) => event.type === 'blob.retry')).toMatchObject([
      { offset: 4000, reason: 'connection reset' },
      { offset: 8000 },
    ]);
  });

  it('that never comes is given up, and what came is kept for the next time', async () => {
    let sent = 0;
    const open = async (): Promise<AsyncIterable<Uint8Array>> =>
      inPieces(sent++ === 0 ? bytes.subarray(0, 100) : Buffer.alloc(0));
    expect(await codeOf(store.ingest(blob, open, transfer))).toBe('OCI_BLOB_INCOMPLETE');
    const offsets: number[] = [];
    await store.ingest(
      blob,
      async (offset) => {
        offsets.push(offset);
        return inPieces(bytes.subarray(offset));
      },
      transfer,
    );
    expect(offsets).toEqual([100]);
  });

  it('with a bad leftover is fetched from the start', async () => {
    await writeFile(path('ingest', `${blob.digest.replace(':', '-')}.part`), 'wrong');
    const offsets: number[] = [];
    await store.ingest(
      blob,
      async (offset) => {
        offsets.push(offset);
        return inPieces(bytes.subarray(offset));
      },
      transfer,
    );
    expect(offsets).toEqual([5, 0]);
  });

  it('cancelled leaves nothing', async () => {
    const stop = new AbortController();
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(0, 10);
      stop.abort();
      yield bytes.subarray(10);
    }
    const ingest = store.ingest(blob, async () => slow(), recordingTransfer(stop.signal));
    expect(await codeOf(ingest)).toBe('CANCELLED');
    expect(await readdir(path('ingest'))).toEqual([]);
  });

  it('is written once when many ask at the same time', async () => {
    let opened = 0;
    const open = async (offset: number): Promise<AsyncIterable<Uint8Array>> => {
      opened++;
      return inPieces(bytes.subarray(offset));
    };
    await Promise.all(Array.from({ length: 5 }, () => store.ingest(blob, open, transfer)));
    expect(opened).toBe(1);
  });

  it('whose stored bytes changed is told when read', async () => {
    await store.ingest(blob, async () => inPieces(bytes), transfer);
    await writeFile(path('blobs', ...blob.digest.split(':')), Buffer.alloc(10_000));
    expect(await codeOf(collect(store.readBlob(blob.digest)))).toBe('OCI_BLOB_CORRUPT');
    expect(await codeOf(store.readSmall(blob.digest))).toBe('OCI_BLOB_CORRUPT');
  });
});

describe('names', () => {
  it('lead to whole images only', async () => {
    const image = await makeImage(store, { platform, files: { f: 'x' }, reference: 'localhost/a:1' });
    expect((await store.resolve('localhost/a:1'))?.digest).toBe(image.digest);
    expect(await store.list()).toMatchObject([{ reference: 'localhost/a:1', platforms: [platform] }]);
    const descriptor = (await store.resolve('localhost/a:1')) as Descriptor;
    await rm(path('blobs', ...(image.layers[0]?.digest ?? '').split(':')));
    expect(await codeOf(store.tag('localhost/b:1', descriptor))).toBe('OCI_BLOB_MISSING');
    await store.tag('localhost/sparse:1', descriptor, { sparse: true });
    expect((await store.resolve('localhost/sparse:1'))?.digest).toBe(image.digest);
    const nowhere = blobOf(Buffer.from('nowhere'));
    expect(await codeOf(store.tag('localhost/c:1', nowhere, { sparse: true }))).toBe('OCI_BLOB_MISSING');
    expect(await store.untag('localhost/a:1')).toBe(true);
    expect(await store.untag('localhost/a:1')).toBe(false);
    expect(await store.resolve('localhost/a:1')).toBeUndefined();
  });

  it('of an index are given where one platform is whole and another on its way', async () => {
    const from = await openStore({ directory: join(directory, 'from') });
    const arm = { os: 'linux', architecture: 'arm64' };
    const late = await makeImage(from, { platform: arm, files: { f: 'arm' }, reference: 'localhost/a:arm' });
    const whole = await makeImage(store, { platform, files: { f: 'amd' }, reference: 'localhost/a:amd' });
    await makeImage(from, { platform, files: { f: 'amd' }, reference: 'localhost/a:amd' });
    const root = await buildIndex(from, [late, whole], { ...transfer, reference: 'localhost/a:both' });
    for (const digest of [late.manifestDigest, root.digest]) {
      const bytes = Buffer.from(await from.readSmall(digest));
      await store.ingest(blobOf(bytes), async (offset) => inPieces(bytes.subarray(offset)), transfer);
    }
    await store.tag('localhost/a:both', root);
    expect((await pinnedFromStore(store, 'localhost/a:both', platform))?.manifestDigest).toBe(
      whole.manifestDigest,
    );
    expect(await pinnedFromStore(store, 'localhost/a:both', arm)).toBeUndefined();
    await from[Symbol.asyncDispose]();
  });

  it('of an index lead to the platform asked for', async () => {
    const arm = { os: 'linux', architecture: 'arm64' };
    const one = await makeImage(store, { platform, files: { f: 'amd' }, reference: 'localhost/a:amd' });
    const two = await makeImage(store, { platform: arm, files: { f: 'arm' }, reference: 'localhost/a:arm' });
    const root = await buildIndex(store, [one, two], { ...transfer, reference: 'localhost/a:both' });
    const found = await pinnedFromStore(store, 'localhost/a:both', arm);
    expect(found).toMatchObject({ digest: root.digest, manifestDigest: two.digest, platform: arm });
    const none = pinnedFromStore(store, 'localhost/a:both', { os: 'linux', architecture: 's390x' });
    expect(await codeOf(none)).toBe('OCI_PLATFORM_MISSING');
  });

  it('written by several at once are all there', async () => {
    const image = await makeImage(store, { platform, files: { f: 'x' }, reference: 'localhost/a:0' });
    const descriptor = (await store.resolve('localhost/a:0')) as Descriptor;
    await using other = await openStore({ directory: path() });
    const names = Array.from({ length: 10 }, (_, index) => `localhost/a:${index}`);
    await Promise.all(names.map((name, index) => (index % 2 === 0 ? store : other).tag(name, descriptor)));
    expect((await store.list()).map((item) => item.reference).toSorted()).toEqual(names);
    expect(image.layers).toHaveLength(1);
  });
});

describe('prune', () => {
  const soon = { olderThanMs: 0, keep: [] };
  let image: PinnedImage;
  beforeEach(async () => {
    image = await makeImage(store, { platform, files: { f: 'x' }, reference: 'localhost/a:1' });
    await store.lowers(image, undefined, transfer);
    // Until then the folders of layers get new times.
    await store[Symbol.asyncDispose]();
    store = await openStore({ directory: path() });
  });
  const whole = async (): Promise<boolean> => {
    const found = await pinnedFromStore(store, `localhost/a@${image.digest}`, platform);
    return found !== undefined && (await readdir(path('layers'))).length === 1;
  };

  it('keeps what has a name', async () => {
    expect(await store.prune(soon)).toEqual({ blobs: 0, layers: 0, freedBytes: 0 });
    expect(await whole()).toBe(true);
  });

  it('takes what has none, with its unpacked layers', async () => {
    await store.untag('localhost/a:1');
    expect(await store.prune(soon)).toMatchObject({ blobs: 3, layers: 1 });
    expect(await readdir(path('blobs', 'sha256'))).toEqual([]);
    expect(await readdir(path('layers'))).toEqual([]);
  });

  it('spares what is young, is asked to be kept, or is leased', async () => {
    await store.untag('localhost/a:1');
    await store.prune({ olderThanMs: 60_000, keep: [] });
    expect(await whole()).toBe(true);
    await store.prune({ olderThanMs: 0, keep: [image.digest] });
    expect(await whole()).toBe(true);
    const lease = await store.lease('run 1', [image.digest], { ttlMs: 0 });
    await using other = await openStore({ directory: path() });
    await other.prune(soon);
    expect(await whole()).toBe(true);
    await lease[Symbol.asyncDispose]();
    await other.prune(soon);
    expect(await whole()).toBe(false);
  });

  it('ends leases by name, those of a process that is gone too', async () => {
    {
      await using gone = await openStore({ directory: path() });
      await gone.lease('kept 1', [], { ttlMs: 3_600_000 });
      await gone.lease('kept 2', [], { ttlMs: 3_600_000 });
    }
    await store.lease('kept 1', []);
    await store.endLeases('kept 1');
    expect(await readdir(path('leases'))).toHaveLength(1);
  });

  it('honours a lease after its process is gone until it expires', async () => {
    await store.untag('localhost/a:1');
    {
      await using gone = await openStore({ directory: path() });
      await gone.lease('run 1', [image.digest], { ttlMs: 3_600_000 });
      await gone.lease('run 2', [], { ttlMs: 0 });
    }
    await store.prune(soon);
    expect(await whole()).toBe(true);
    expect(await readdir(path('leases'))).toHaveLength(1);
  });

  it('sweeps what dead processes left, and not what living ones write', async () => {
    await writeFile(path('ingest', `sha256-${'a'.repeat(64)}.part`), 'x');
    await writeFile(path('ingest', 'spool-999999999-aa'), 'x');
    await writeFile(path('layers', 'tmp-aa'), 'x');
    const { acquireLock } = await import('./lock.ts');
    {
      using _busy = await acquireLock(path('locks', 'blob-aa'), transfer);
      await store.prune(soon);
      expect(await readdir(path('ingest'))).toEqual([`sha256-${'a'.repeat(64)}.part`]);
    }
    await store.prune(soon);
    expect(await readdir(path('ingest'))).toEqual([]);
    expect(await readdir(path('layers'))).toHaveLength(1);
  });

  it('takes nothing where the names cannot be read', async () => {
    await writeFile(path('index.json'), '{"manifests":');
    expect(await codeOf(store.prune(soon))).toBe('OCI_STORE_INVALID');
    expect(await readdir(path('blobs', 'sha256'))).toHaveLength(3);
  });
});

describe('layers', () => {
  it('are unpacked once for all images that share them, and again for other ids', async () => {
    const shared = { files: [{ path: 'shared', content: 's' }] };
    const one = await makeImage(store, {
      platform,
      layers: [shared],
      files: { a: '1' },
      reference: 'localhost/a:1',
    });
    const two = await makeImage(store, {
      platform,
      layers: [shared],
      files: { a: '2' },
      reference: 'localhost/a:2',
    });
    const [first, second] = await Promise.all([
      store.lowers(one, undefined, transfer),
      store.lowers(two, undefined, transfer),
    ]);
    expect(first?.[1]?.path).toBe(second?.[1]?.path);
    expect(transfer.events.filter((event) => event.type === 'layer.unpacked')).toHaveLength(3);
    await store.lowers(one, undefined, transfer);
    expect(transfer.events.filter((event) => event.type === 'layer.unpacked')).toHaveLength(3);
  });

  it('that are not what the config says stay invisible', async () => {
    const image = await makeImage(store, { platform, files: { f: 'x' } });
    const lying = {
      ...image,
      layers: image.layers.map((layer) => ({ ...layer, diffId: digestOf('other') })),
    };
    expect(await codeOf(store.lowers(lying, undefined, transfer))).toBe('OCI_LAYER_DIFFID');
    expect(await readdir(path('layers'))).toEqual([]);
  });

  it('of changed bytes say so', async () => {
    const image = await makeImage(store, { platform, files: { f: 'x' } });
    const blob = path('blobs', ...(image.layers[0]?.digest ?? '').split(':'));
    const bytes = await readFile(blob);
    bytes[520] = 0x79;
    await writeFile(blob, bytes);
    expect(await codeOf(store.lowers(image, undefined, transfer))).toBe('OCI_BLOB_CORRUPT');
  });

  it('of another boot that never reached the disk are written again', async () => {
    const image = await makeImage(store, { platform, files: { f: 'x' } });
    const [lower] = await store.lowers(image, undefined, transfer);
    await store[Symbol.asyncDispose]();
    store = await openStore({ directory: path() });
    const record = join(lower?.path ?? '', '..', 'layer.json');
    const said = JSON.parse(await readFile(record, 'utf8')) as Record<string, unknown>;
    expect(said.durable).toBe(true);
    await writeFile(record, JSON.stringify({ ...said, durable: false, boot: 'earlier' }));
    await store.lowers(image, undefined, transfer);
    expect(transfer.events.filter((event) => event.type === 'layer.unpacked')).toHaveLength(2);
    expect(await readdir(path('layers'))).toHaveLength(1);
  });

  it('that link into their parents are found by chainID', async () => {
    const options = { config: {}, platform, reference: 'localhost/a:1', compression: 'none' } as const;
    const link = { tar: inPieces(tarOf([{ path: 'h', type: 'link', linkPath: 'l/f' }])) };
    const below = {
      files: [{ path: 'd/f', content: 'hello' }, { path: 'l', type: 'symlink', linkPath: 'd' } as const],
    };
    const image = await buildImage(store, { ...options, layers: [below, link] }, transfer);
    const lowers = await store.lowers(image, undefined, transfer);
    const top = lowers[1]?.path ?? '';
    expect(await readFile(join(top, 'h'), 'utf8')).toBe('hello');
    expect((await stat(join(top, 'h'))).ino).toBe((await stat(join(top, 'd/f'))).ino);
  });

  it('stop when cancelled', async () => {
    const image = await makeImage(store, { platform, files: { f: 'x' } });
    const stop = new AbortController();
    stop.abort();
    expect(await codeOf(store.lowers(image, undefined, recordingTransfer(stop.signal)))).toBe('CANCELLED');
    expect(await readdir(path('layers'))).toEqual([]);
  });
});

describe('fsck', () => {
  const check = { repair: false };
  const mend = { repair: true };

  it('finds a flipped bit and mends it by dropping the blob', async () => {
    const image = await makeImage(store, { platform, files: { f: 'x' }, reference: 'localhost/a:1' });
    const blob = path('blobs', ...(image.layers[0]?.digest ?? '').split(':'));
    const bytes = await readFile(blob);
    bytes[700] = (bytes[700] ?? 0) ^ 1;
    await writeFile(blob, bytes);
    expect(await store.fsck({ ...check, ...transfer })).toMatchObject([
      { kind: 'blob-digest', repaired: false },
    ]);
    const mended = await store.fsck({ ...mend, ...transfer });
    expect(mended.map((finding) => [finding.kind, finding.repaired])).toEqual([
      ['blob-digest', true],
      ['blob-missing', true],
      ['index', true],
    ]);
    expect(await store.fsck({ ...check, ...transfer })).toEqual([]);
    expect(await pinnedFromStore(store, 'localhost/a:1', platform)).toBeUndefined();
  });

  it('finds leftovers, damaged names and layers', async () => {
    await writeFile(path('ingest', `sha256-${'a'.repeat(64)}.part`), 'x');
    await writeFile(path('layers', 'bb'), 'x');
    await writeFile(path('index.json'), 'rubbish');
    const before = await store.fsck({ ...mend, ...transfer });
    expect(before.map((finding) => [finding.kind, finding.repaired])).toEqual([
      ['index', true],
      ['partial', true],
      ['layer', true],
    ]);
    expect(await store.fsck({ ...check, ...transfer })).toEqual([]);
    expect(await store.list()).toEqual([]);
  });
});

describe('opening', () => {
  it.each([
    ['oci-layout', '{"imageLayoutVersion":"2.0.0"}'],
    ['skycap-store.json', '{"version":99}'],
  ])('refuses a foreign %s', async (name, text) => {
    await writeFile(path(name), text);
    expect(await codeOf(openStore({ directory: path() }))).toBe('OCI_STORE_INVALID');
  });

  it('is the same for many at once', async () => {
    const opened = await Promise.all(
      Array.from({ length: 6 }, () => openStore({ directory: join(directory, 'new') })),
    );
    for (const one of opened) await one[Symbol.asyncDispose]();
    await utimes(join(directory, 'new', 'index.json'), 0, 0);
    expect(JSON.parse(await readFile(join(directory, 'new', 'oci-layout'), 'utf8'))).toEqual({
      imageLayoutVersion: '1.0.0',
    });
  });
});
