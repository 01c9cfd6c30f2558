import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { digestOf } from '../names/index.ts';
import type { Digest } from '../types.ts';
import type { Reached } from './graph.ts';
import { type Layout, openLayout } from './layout.ts';
import { LeaseBook } from './leases.ts';
import { tryLock } from './lock.ts';
import { blobFiles, emptyTrash, moveAside, moveUnreached, sweepDead, sweepUnfinished } from './prune.ts';

const NOW = 1_700_000_000_000;
const HOUR = 3_600_000;
let layout: Layout;
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-prune-'));
  layout = await openLayout(join(directory, 'store'));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(directory, { recursive: true, force: true });
});

const clock = (): unknown => vi.spyOn(Date, 'now').mockReturnValue(NOW);
const age = (path: string, ms: number): Promise<void> => utimes(path, new Date(), new Date(NOW - ms));
const nothing = (): Reached => ({
  blobs: new Set(),
  diffIds: new Set(),
  missing: new Map(),
  configs: new Set(),
  images: [],
});

async function blob(name: string, ms: number): Promise<Digest> {
  const digest = digestOf(name);
  await writeFile(layout.blob(digest), name);
  await age(layout.blob(digest), ms);
  return digest;
}

async function layer(key: string, ms: number, diffId?: Digest): Promise<string> {
  const path = join(layout.layers, key);
  await mkdir(path);
  const record = {
    version: 1,
    id: diffId,
    diffId,
    map: null,
    entries: 0,
    opaque: [],
    boot: 'x',
    durable: true,
  };
  if (diffId !== undefined) await writeFile(join(path, 'layer.json'), JSON.stringify(record));
  await age(path, ms);
  return key;
}

const blobs = (): Promise<readonly string[]> => readdir(join(layout.blobs, 'sha256'));
const hexOf = (digest: Digest): string => digest.slice('sha256:'.length);

describe('what nothing leads to', () => {
  it('goes when it is as old as is said, and not a moment younger', async () => {
    clock();
    await blob('old', HOUR);
    const young = await blob('young', HOUR - 1);
    await layer('old', HOUR, digestOf('1'));
    await layer('oldest', 2 * HOUR);
    await layer('young', HOUR - 1, digestOf('2'));
    expect(await moveUnreached(layout, nothing(), HOUR)).toEqual({ blobs: 1, layers: 2, freedBytes: 3 });
    expect(await blobs()).toEqual([hexOf(young)]);
    expect(await readdir(layout.layers)).toEqual(['young']);
    expect(await readdir(layout.trash)).toHaveLength(3);
    await emptyTrash(layout);
    expect(await readdir(layout.trash)).toEqual([]);
  });

  it('is told from what something leads to, and from what is not finished', async () => {
    clock();
    const kept = await blob('kept', 0);
    await blob('gone', 0);
    const diffId = digestOf('diff');
    await layer('kept', 0, diffId);
    await layer('gone', 0, digestOf('other'));
    await layer('tmp-aa', 0);
    const reached = { ...nothing(), blobs: new Set([kept]), diffIds: new Set([diffId]) };
    expect(await moveUnreached(layout, reached, 0)).toEqual({ blobs: 1, layers: 1, freedBytes: 4 });
    expect(await blobs()).toEqual([hexOf(kept)]);
    expect(await readdir(layout.layers)).toEqual(['kept', 'tmp-aa']);
  });

  it('and that somebody else took meanwhile is not counted', async () => {
    clock();
    await blob('one', 0);
    await layer('one', 0, digestOf('one'));
    const taking = (pathOf: (digest: Digest) => string): object => ({
      has: (digest: Digest) => {
        rmSync(pathOf(digest), { recursive: true });
        return false;
      },
    });
    const blobsSeen = taking((digest) => layout.blob(digest));
    const diffIdsSeen = taking(() => join(layout.layers, 'one'));
    const reached = { ...nothing(), blobs: blobsSeen, diffIds: diffIdsSeen } as unknown as Reached;
    expect(await moveUnreached(layout, reached, 0)).toEqual({ blobs: 0, layers: 0, freedBytes: 0 });
  });

  it('and that cannot be moved aside is not counted', async () => {
    clock();
    await blob('one', 0);
    await layer('one', 0, digestOf('one'));
    await rm(layout.trash, { recursive: true });
    expect(await moveUnreached(layout, nothing(), 0)).toEqual({ blobs: 0, layers: 0, freedBytes: 0 });
    expect([...(await blobs()), ...(await readdir(layout.layers))]).toHaveLength(2);
  });
});

describe('moving aside', () => {
  it('is one rename; what is gone is somebody else’s; every other fault is told', async () => {
    const digest = await blob('one', 0);
    expect(await moveAside(layout, layout.blob(digest))).toBe(true);
    expect(await moveAside(layout, layout.blob(digest))).toBe(false);
    expect(await readdir(layout.trash)).toEqual([expect.stringMatching(/^[0-9a-f]{16}$/)]);
    await rm(layout.trash, { recursive: true });
    await writeFile(layout.trash, '');
    await expect(moveAside(layout, layout.index)).rejects.toMatchObject({ code: 'ENOTDIR' });
  });
});

it('the blobs of a store are its files with names of digests, of each algorithm', async () => {
  const one = await blob('one', 0);
  const long = digestOf('long', 'sha512');
  await mkdir(join(layout.blobs, 'sha512'));
  await writeFile(layout.blob(long), '');
  await writeFile(join(layout.blobs, 'sha256', 'stray'), '');
  await writeFile(join(layout.blobs, 'sha1'), '');
  const found: unknown[] = [];
  for await (const file of blobFiles(layout)) found.push(file);
  expect(found).toEqual([one, long].map((digest) => ({ digest, path: layout.blob(digest) })));
});

describe('what was not finished', () => {
  const part = (letter: string): string => `sha256-${letter.repeat(64)}.part`;

  it('goes when it is as old as is said and nobody is at it', async () => {
    clock();
    const put = async (path: string, ms: number): Promise<string> => {
      await writeFile(path, '');
      await age(path, ms);
      return path;
    };
    const ingest = (name: string): string => join(layout.ingest, name);
    const layers = (name: string): string => join(layout.layers, name);
    const old = [await put(ingest(part('a')), HOUR), await put(layers('tmp-bb-1'), 2 * HOUR)];
    const young = [await put(ingest(part('c')), HOUR - 1), await put(layers('tmp-cc-1'), HOUR - 1)];
    const busy = [await put(ingest(part('d')), HOUR), await put(layers('tmp-dd-1'), HOUR)];
    const strange = [await put(ingest('note'), HOUR), await put(layers('bb'), HOUR)];
    using _blob = tryLock(join(layout.locks, 'blob-dd'));
    using _layer = tryLock(join(layout.locks, 'layer-dd'));
    const spool = await put(ingest('spool-1'), 0);
    await writeFile(join(layout.locks, 'spool-2'), '');
    await writeFile(ingest('spool-3'), '');
    using _spool = tryLock(join(layout.locks, 'spool-3'));
    expect((await sweepUnfinished(layout, HOUR)).toSorted()).toEqual(
      [...old, spool, ingest('spool-2')].toSorted(),
    );
    const left = [...young, ...busy, ...strange, ingest('spool-3')];
    const names = [
      ...(await readdir(layout.ingest)).map(ingest),
      ...(await readdir(layout.layers)).map(layers),
    ];
    expect(names.toSorted()).toEqual(left.toSorted());
    expect((await readdir(layout.locks)).filter((name) => name.startsWith('spool-'))).toEqual(['spool-3']);
    expect(await sweepUnfinished(layout, HOUR)).toEqual([]);
  });

  it('and that nobody can go on with goes at once', async () => {
    const dead = ['.ab.tmp', '.index.json.7.ab.tmp', '..tmp'];
    const kept = ['ab.tmp', '.ab.tmpx', '.abtmpx', 'x.ab.tmp', '.ab_tmp'];
    for (const folder of [layout.directory, layout.leases])
      for (const name of [...dead, ...kept]) await writeFile(join(folder, name), '');
    await writeFile(join(layout.ingest, 'spool-1'), '');
    await writeFile(join(layout.ingest, part('a')), '');
    await sweepDead(layout);
    expect((await readdir(layout.leases)).toSorted()).toEqual(kept.toSorted());
    expect((await readdir(layout.directory)).filter((name) => /tmp/.test(name)).toSorted()).toEqual(
      kept.toSorted(),
    );
    expect(await readdir(layout.ingest)).toEqual([part('a')]);
  });
});

describe('leases', () => {
  const A = digestOf('a');
  const lease = { name: 'n', digests: [A], expires: NOW };

  it('are private files of one process, which keeps one lock for them all', async () => {
    const book = new LeaseBook(layout);
    await book.write('one', { ...lease, expires: 0 });
    await book.write('two', lease);
    expect(await readdir(layout.leases)).toEqual(['one.json', 'two.json']);
    for (const name of ['one', 'two'])
      expect((await stat(join(layout.leases, `${name}.json`))).mode & 0o777).toBe(0o600);
    const holders = (await readdir(layout.locks)).filter((name) => name.startsWith('holder-'));
    expect(holders).toHaveLength(1);
    using lock = tryLock(join(layout.locks, holders[0] ?? ''));
    expect(lock).toBeUndefined();
    await book.close();
    expect(await readdir(layout.locks)).toEqual(['store']);
  });

  it('end by their name and no other does, whatever stands beside them', async () => {
    const book = new LeaseBook(layout);
    await book.write('two', { ...lease, name: 'm' });
    await writeFile(join(layout.leases, 'two.note'), JSON.stringify({ ...lease, holder: 'x' }));
    await writeFile(join(layout.leases, 'bad.json'), 'null');
    await mkdir(join(layout.leases, 'folder.json'));
    await book.end('n');
    expect(await readdir(layout.leases)).toEqual(['bad.json', 'folder.json', 'two.json', 'two.note']);
    await book.end('m');
    expect(await readdir(layout.leases)).toEqual(['bad.json', 'folder.json', 'two.note']);
    expect(book.covers(A)).toBe(false);
    await book.close();
  });

  it('of the dead go with their locks, and no other lock does', async () => {
    const book = new LeaseBook(layout);
    for (const name of ['holder-dead', 'blob-aa', 'layer-aa']) await writeFile(join(layout.locks, name), '');
    await writeFile(join(layout.leases, 'x.json'), JSON.stringify({ ...lease, holder: 'holder-dead' }));
    expect(await book.sweep(NOW - 1)).toEqual(new Set([A]));
    expect((await readdir(layout.locks)).toSorted()).toEqual(['blob-aa', 'layer-aa', 'store']);
    expect(await book.sweep(NOW)).toEqual(new Set());
    expect(await readdir(layout.leases)).toEqual([]);
  });
});
