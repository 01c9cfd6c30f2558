import { mkdtemp, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { makeImage, recordingTransfer } from '../../testkit/images/index.ts';
import { type LayoutStore, openStore } from './index.ts';

/** What opening or reading an index.json meets. */
const fault = vi.hoisted(() => ({ code: '', on: 'open' as 'open' | 'read' | 'stat' }));
vi.mock(import('node:fs/promises'), async (original) => {
  const real = await original();
  const fail = (path: unknown): Promise<never> =>
    Promise.reject(Object.assign(new Error(`${fault.code}: it failed`), { code: fault.code, path }));
  const open: typeof real.open = async (path, ...rest) => {
    const isIndex = String(path).endsWith('/index.json') && fault.code !== '';
    if (isIndex && fault.on === 'open') return await fail(path);
    const handle = await real.open(path, ...rest);
    if (isIndex && fault.on === 'read') vi.spyOn(handle, 'readFile').mockImplementation(() => fail(path));
    return handle;
  };
  const stat = async (path: string) =>
    fault.code !== '' && fault.on === 'stat' && path.endsWith('/index.json')
      ? await fail(path)
      : await real.stat(path);
  return { ...real, open, stat: stat as typeof real.stat };
});

const transfer = recordingTransfer();
let directory: string;
let store: LayoutStore;
let before: string;
const index = (): string => join(store.directory, 'index.json');
const asides = async (): Promise<readonly string[]> =>
  (await readdir(store.directory)).filter((name) => name.includes('damaged'));

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-index-'));
  store = await openStore({ directory: join(directory, 'store') });
  await makeImage(store, { files: { f: 'x' }, reference: 'localhost/a:1' });
  before = await readFile(index(), 'utf8');
});
afterEach(async () => {
  fault.code = '';
  await store[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

describe('a fault while index.json is read is an error of the store and no damage', () => {
  it.each(
    (['EIO', 'EMFILE', 'ENFILE', 'EACCES', 'EPERM', 'ENOMEM', 'ESTALE', 'EBUSY'] as const).flatMap((code) => [
      [code, 'open'] as const,
      [code, 'read'] as const,
    ]),
  )('%s on %s', async (code, on) => {
    Object.assign(fault, { code, on });
    const works = [
      () => store.fsck({ repair: false, ...transfer }),
      () => store.fsck({ repair: true, ...transfer }),
      () => store.list(),
      () => store.untag('localhost/a:1'),
      () => store.prune({ olderThanMs: 0, keep: [] }),
    ];
    for (const work of works) {
      await expect(work()).rejects.toMatchObject({
        code: 'OCI_STORE_INVALID',
        message: expect.stringContaining(`the store ${store.directory} cannot be used: `),
        hint: expect.any(String),
        place: { file: index() },
        details: { system: code },
      });
    }
    fault.code = '';
    expect(await asides()).toEqual([]);
    expect(await readFile(index(), 'utf8')).toBe(before);
    expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
  });

  it('EIO of the system itself', async () => {
    await rename(index(), join(directory, 'kept'));
    // Linux: reading its first page fails with EIO.
    await symlink('/proc/self/mem', index());
    await expect(store.fsck({ repair: true, ...transfer })).rejects.toMatchObject({
      code: 'OCI_STORE_INVALID',
      details: { system: 'EIO' },
    });
    expect(await asides()).toEqual([]);
    await rename(join(directory, 'kept'), index());
    expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
  });
});

describe('what is no document is damage', () => {
  it.each(['ENOENT', 'EISDIR', 'ELOOP', 'ENXIO'])('%s', async (code) => {
    Object.assign(fault, { code, on: 'open' });
    expect(await store.fsck({ repair: false, ...transfer })).toContainEqual({
      kind: 'index',
      subject: 'index.json',
      message: 'it cannot be read; names are lost',
      repaired: false,
    });
    await expect(store.list()).rejects.toMatchObject({ message: `${index()} is damaged` });
  });

  it('a link that leads to itself is set aside', async () => {
    await rm(index());
    await symlink('index.json', index());
    const [found] = await store.fsck({ repair: true, ...transfer });
    expect(found).toMatchObject({ subject: 'index.json', repaired: true });
    expect(await asides()).toHaveLength(1);
    expect(await store.list()).toEqual([]);
  });

  it('is not replaced where it cannot be set aside', async () => {
    await rm(index());
    await symlink('index.json', index());
    Object.assign(fault, { code: 'EIO', on: 'stat' });
    await expect(store.fsck({ repair: true, ...transfer })).rejects.toMatchObject({
      code: 'OCI_STORE_INVALID',
    });
    expect(await asides()).toEqual([]);
    expect((await readdir(store.directory)).includes('index.json')).toBe(true);
  });
});
