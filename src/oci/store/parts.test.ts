import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isSkycapError, type SkycapError } from '../../kernel/index.ts';
import { codeOf } from '../../testkit/contracts/store.contract.ts';
import { digestOf } from '../names/index.ts';
import {
  bootId,
  chainId,
  isImage,
  isWhole,
  type LayerName,
  layerKey,
  readRecord,
  recordImage,
} from './layers.ts';
import { Layout, openLayout, readPlainFile } from './layout.ts';
import { LeaseBook } from './leases.ts';
import { acquireLock, tryLock } from './lock.ts';
import { damaged, missing, storeError, unreadable } from './problems.ts';

const A = digestOf('a');
const B = digestOf('b');
let directory: string;
let layout: Layout;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-parts-'));
  layout = await openLayout(join(directory, 'store'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

describe('a fault of the system', () => {
  it.each<[code: string, what: RegExp, hint?: RegExp]>([
    ['EACCES', /may not be read or written/],
    ['EPERM', /may not be read or written/],
    ['EROFS', /read-only/],
    ['ENOENT', /cannot be made, or is gone/],
    ['ENOTDIR', /a file stands where a folder belongs/],
    ['EEXIST', /a file stands where a folder belongs/],
    ['EISDIR', /a folder stands where a file belongs/],
    ['ENOTEMPTY', /a folder stands where a file belongs/],
    ['ELOOP', /a link stands where a file belongs/],
    ['EIO', /the disk cannot be read/, /dmesg/],
    ['ENODEV', /no ordinary folder/],
    ['ENXIO', /no ordinary folder/],
    ['EINVAL', /no ordinary folder/],
    ['ENAMETOOLONG', /its name is too long/],
    ['EMFILE', /too many files are open/, /ulimit -n/],
    ['ENFILE', /too many files are open/, /fs\.file-max/],
    ['ENOMEM', /not enough memory/, /memory/],
    ['ESTALE', /its file system is gone/, /mount it again/],
    ['EBUSY', /something on the host is using it/, /^run the same command again$/],
  ])('%s names the store, the file and what to do', (code, what, hint = /SKYCAP_STORE_DIRECTORY/) => {
    const cause = Object.assign(new Error('no'), { code, path: '/s/f' });
    const error = storeError(cause, '/s') as SkycapError;
    expect(error).toMatchObject({ code: 'OCI_STORE_INVALID', place: { file: '/s/f' }, cause });
    expect(error.message).toMatch(/^the store \/s cannot be used: /);
    expect(error.message).toMatch(what);
    expect(error.hint).toMatch(hint);
    expect(error.details).toEqual({ directory: '/s', system: code });
    expect(storeError(Object.assign(new Error('no'), { code }), '/s')).toMatchObject({
      place: { file: '/s' },
    });
  });

  it('of another kind stays as it is, and a coded one too', () => {
    for (const other of [new Error('x'), Object.assign(new Error('x'), { code: 'EWHAT' }), missing(A)])
      expect(storeError(other, '/s')).toBe(other);
  });
});

it.each<[Error, string, RegExp, RegExp]>([
  [
    damaged('/s/b', A),
    'OCI_BLOB_CORRUPT',
    /damaged copy of sha256:.*: its bytes have changed$/,
    /fsck --repair/,
  ],
  [missing(A), 'OCI_BLOB_MISSING', /is not in the store$/, /pull the image again/],
  [unreadable(A, undefined), 'OCI_BLOB_MISSING', /which is not in the store: what it needs/, /fsck --repair/],
  [unreadable(A, 9e6), 'OCI_BLOB_CORRUPT', /has 9000000 bytes, too many for a manifest/, /fsck --repair/],
])('%s says what is wrong with which blob', (error, code, message, hint) => {
  expect(isSkycapError(error, code)).toBe(true);
  expect(error).toMatchObject({ details: { digest: A } });
  expect(error.message).toMatch(message);
  expect(error.message).toContain(A);
  expect((error as SkycapError).hint).toMatch(hint);
});

describe('a lock', () => {
  const signal = new AbortController().signal;

  it('is held once, until it is let go, and letting go twice frees nobody else’s', async () => {
    const path = join(directory, 'lock');
    const first = tryLock(path);
    expect(first?.path).toBe(path);
    expect(tryLock(path)).toBeUndefined();
    first?.[Symbol.dispose]();
    const second = tryLock(path);
    first?.[Symbol.dispose]();
    expect(second).toBeDefined();
    expect(tryLock(path)).toBeUndefined();
    second?.[Symbol.dispose]();
  });

  it('that stays taken is said so after its time, and a wait ends with the signal', async () => {
    const path = join(directory, 'lock');
    using _held = tryLock(path);
    const busy = acquireLock(path, { signal, timeoutMs: 20 });
    await expect(busy).rejects.toMatchObject({
      code: 'OCI_STORE_BUSY',
      message: `the store is locked by another process (${path})`,
      hint: 'wait for the other command, or end it if it hangs',
    });
    const stop = new AbortController();
    const waiting = codeOf(acquireLock(path, { signal: stop.signal }));
    stop.abort();
    expect(await waiting).toBe('CANCELLED');
  });

  it('is waited for', async () => {
    const path = join(directory, 'lock');
    const held = tryLock(path);
    const waiting = acquireLock(path, { signal, timeoutMs: 30_000 });
    held?.[Symbol.dispose]();
    using lock = await waiting;
    expect(lock.path).toBe(path);
  });

  it('in a file that is none is refused, with what to do', async () => {
    const path = join(directory, 'folder');
    await mkdir(path);
    const file = join(directory, 'no-lock');
    await writeFile(file, 'x'.repeat(5000));
    for (const one of [path, file]) {
      expect(() => tryLock(one)).toThrow(/^the store cannot be locked: ./);
      await expect(acquireLock(one, { signal })).rejects.toMatchObject({
        code: 'OCI_STORE_INVALID',
        hint: expect.stringMatching(/rights of the folder `locks`/),
        place: { file: one },
        cause: expect.any(Error),
      });
    }
  });
});

describe('leases', () => {
  const far = Date.now() + 3_600_000;

  it('keep what they name while their process lives, or until they expire', async () => {
    const mine = new LeaseBook(layout);
    const other = new LeaseBook(layout);
    await mine.write('one', { name: 'n', digests: [A], expires: 0 });
    await other.write('two', { name: 'n', digests: [B], expires: far });
    expect([mine.covers(A), mine.covers(B), other.covers(B)]).toEqual([true, false, true]);
    expect(await mine.sweep(Date.now())).toEqual(new Set([A, B]));
    expect(await other.sweep(Date.now())).toEqual(new Set([A, B]));
    await mine.close();
    expect(mine.covers(A)).toBe(false);
    expect(await other.sweep(Date.now())).toEqual(new Set([B]));
    await other.close();
    await other.close();
    const third = new LeaseBook(layout);
    expect(await third.sweep(far - 1)).toEqual(new Set([B]));
    expect(await third.sweep(far)).toEqual(new Set());
    expect(await readdir(layout.leases)).toEqual([]);
    expect((await readdir(layout.locks)).filter((name) => name.startsWith('holder-'))).toEqual([]);
  });

  it('end by their name, those of others too, and no file but theirs is touched', async () => {
    const mine = new LeaseBook(layout);
    const other = new LeaseBook(layout);
    await other.write('one', { name: 'n', digests: [A], expires: far });
    await other.write('two', { name: 'm', digests: [B], expires: far });
    await writeFile(
      join(layout.leases, 'note'),
      JSON.stringify({ name: 'n', holder: 'x', expires: far, digests: [] }),
    );
    await mine.end('n');
    expect((await readdir(layout.leases)).toSorted()).toEqual(['note', 'two.json']);
    await other.drop('two');
    await other.drop('two');
    expect(other.covers(B)).toBe(false);
    expect(await readdir(layout.leases)).toEqual(['note']);
    await other.close();
  });

  it('that cannot be read keep nothing and are removed; of others only digests count', async () => {
    const book = new LeaseBook(layout);
    const lease = { name: 'n', holder: 'gone', expires: far };
    const put = async (name: string, value: unknown): Promise<void> =>
      await writeFile(join(layout.leases, name), typeof value === 'string' ? value : JSON.stringify(value));
    await put('a.json', '{');
    await put('b.json', { ...lease, holder: 1, digests: [A] });
    await put('c.json', { ...lease, expires: 'soon', digests: [A] });
    await put('d.json', lease);
    await put('e.json', { ...lease, digests: [B, 'no digest', 7] });
    await put('note', 'x');
    expect(await book.sweep(Date.now())).toEqual(new Set([B]));
    expect((await readdir(layout.leases)).toSorted()).toEqual(['e.json', 'note']);
  });
});

describe('the folder', () => {
  it('has a place of its own for everything', () => {
    const at = new Layout('/s');
    const hex = A.slice('sha256:'.length);
    expect([at.index, at.blobs, at.ingest, at.layers, at.leases, at.trash, at.locks]).toEqual(
      ['index.json', 'blobs', 'ingest', 'layers', 'leases', 'trash', 'locks'].map((name) => `/s/${name}`),
    );
    expect(at.blob(A)).toBe(`/s/blobs/sha256/${hex}`);
    expect(at.partial(A)).toBe(`/s/ingest/sha256-${hex}.part`);
    expect(at.storeLock).toBe('/s/locks/store');
    expect(at.blobLock(A)).toBe(`/s/locks/blob-${hex.slice(0, 2)}`);
    expect(at.layerLock('abc')).toBe('/s/locks/layer-ab');
  });

  it.each<[string, string, RegExp]>([
    ['oci-layout', '{"imageLayoutVersion":"2.0.0"}', /not an OCI image layout of version 1\.0\.0/],
    ['oci-layout', '{', /not an OCI image layout of version 1\.0\.0/],
    ['skycap-store.json', '{"version":2}', /another version of Skycap \(store version 2\)/],
    ['skycap-store.json', '{', /another version of Skycap \(store version undefined\)/],
  ])('with %s of %s is refused', async (name, text, message) => {
    await writeFile(join(layout.directory, name), text);
    await expect(openLayout(layout.directory)).rejects.toMatchObject({
      code: 'OCI_STORE_INVALID',
      message: expect.stringMatching(message),
      hint: expect.stringMatching(/name (another|a) folder/),
      place: { file: join(layout.directory, name) },
    });
  });

  it('of something else is refused, and of a store half made is gone on with', async () => {
    const foreign = join(directory, 'foreign');
    await mkdir(foreign);
    await writeFile(join(foreign, 'mine'), '');
    await expect(openLayout(foreign)).rejects.toThrow(`${foreign} is no store, and not empty (mine)`);
    await expect(openLayout(foreign)).rejects.toMatchObject({ place: { file: foreign } });
    await rm(join(foreign, 'mine'));
    await writeFile(join(foreign, '.index.json.1.tmp'), '');
    await mkdir(join(foreign, 'blobs'));
    expect((await openLayout(foreign)).directory).toBe(foreign);
  });

  it('reads plain files only', async () => {
    await expect(readPlainFile(layout.blobs)).rejects.toMatchObject({ code: 'EISDIR', path: layout.blobs });
    expect((await readPlainFile(layout.index)).toString()).toContain('"manifests":[]');
  });
});

describe('an unpacked layer', () => {
  const name: LayerName = { id: A, map: undefined, form: 'folder' };

  it('has a name of its own by digest, ids and form', () => {
    const names: readonly LayerName[] = [
      name,
      { ...name, id: B },
      { ...name, form: 'erofs' },
      { ...name, map: { hostBase: 1, size: 2 } },
      { ...name, map: { hostBase: 1, size: 3 } },
      { ...name, map: { hostBase: 12, size: 2 } },
    ];
    const keys = names.map(layerKey);
    expect(new Set(keys).size).toBe(names.length);
    for (const key of keys) expect(key).toMatch(/^[0-9a-f]{32}$/);
    expect(chainId(undefined, A)).toBe(A);
    expect(chainId(A, B)).toBe(digestOf(`${A} ${B}`));
  });

  it('is believed where its record is whole, its own, and of this boot or durable', async () => {
    const folder = join(layout.layers, layerKey(name));
    await mkdir(folder);
    const good = {
      version: 1,
      id: A,
      diffId: A,
      map: null,
      entries: 0,
      opaque: [],
      boot: 'x',
      durable: true,
    };
    const read = async (change: object): Promise<boolean> => {
      await writeFile(join(folder, 'layer.json'), JSON.stringify({ ...good, ...change }));
      return (await readRecord(layout, name)) !== undefined;
    };
    expect(await read({})).toBe(true);
    for (const bad of [
      { version: 2 },
      { id: B },
      { id: 'x' },
      { diffId: 'x' },
      { map: { hostBase: 1, size: 1 } },
    ])
      expect(await read(bad), JSON.stringify(bad)).toBe(false);
    expect(await read({ durable: false })).toBe(false);
    expect(await read({ durable: false, boot: await bootId() })).toBe(true);
    expect(await bootId()).toMatch(/^[0-9a-f-]{36}$/);
    expect(isWhole(undefined)).toBe(false);
    const whole = await readRecord(layout, name);
    expect(isWhole(whole)).toBe(true);
    expect(whole !== undefined && isWhole({ ...whole, needsParents: true })).toBe(false);
    expect(whole !== undefined && isWhole({ ...whole, notErofs: 'why' })).toBe(false);
  });

  it('is not there where its record is no record', async () => {
    const folder = join(layout.layers, layerKey(name));
    await mkdir(folder);
    for (const text of ['null', '{', '7', '[]']) {
      await writeFile(join(folder, 'layer.json'), text);
      expect(await readRecord(layout, name), text).toBeUndefined();
    }
  });

  it('that cannot be one file has a mark, which is believed without one', async () => {
    const image = { ...name, form: 'erofs' } as const;
    const folder = join(layout.layers, layerKey(image));
    await mkdir(folder);
    const record = {
      version: 1,
      id: A,
      diffId: A,
      map: null,
      entries: 0,
      opaque: [],
      boot: 'x',
      durable: true,
    };
    const read = async (more: object): Promise<unknown> => {
      await writeFile(join(folder, 'layer.json'), JSON.stringify({ ...record, ...more }));
      return await readRecord(layout, image);
    };
    for (const mark of [{ needsParents: true }, { notErofs: 'why' }])
      expect(await read(mark)).toEqual({ ...record, ...mark });
    expect(await read({})).toBeUndefined();
    await writeFile(join(folder, 'image.erofs'), 'x');
    const file = await recordImage(join(folder, 'image.erofs'));
    expect(await read({ image: file })).toEqual({ ...record, image: file });
    expect(await read({ image: { ...file, inode: '0' } })).toBeUndefined();
  });

  it('that is one file is known by size, inode and time', async () => {
    const path = join(directory, 'image');
    await writeFile(path, 'x');
    const record = await recordImage(path);
    expect(record).toMatchObject({ size: 1 });
    expect(await isImage(path, record)).toBe(true);
    expect(await isImage(path, undefined)).toBe(false);
    expect(await isImage(`${path}-gone`, record)).toBe(false);
    for (const change of [{ size: 2 }, { inode: '0' }, { ctime: '0' }])
      expect(await isImage(path, { ...record, ...change }), JSON.stringify(change)).toBe(false);
  });
});
