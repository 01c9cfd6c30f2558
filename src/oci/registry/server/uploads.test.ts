import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { collect, type ServedWorld, servedWorld } from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import { tryLock } from '../../store/lock.ts';
import { makeUploads } from './uploads.ts';

const WORKER = fileURLToPath(new URL('../../../testkit/registry/serve-worker.ts', import.meta.url));
const ID = '0a1b2c3d-0000-4000-8000-0123456789ab';
const HOUR = 3_600_000;
const unknown = { status: 404, code: 'BLOB_UPLOAD_UNKNOWN', message: 'no such upload' };

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'uploads-'));
});
afterEach(() => rm(directory, { recursive: true }));

async function* parts(...all: readonly (string | Error)[]): AsyncGenerator<Uint8Array> {
  for (const one of all) {
    if (one instanceof Error) throw one;
    yield Buffer.from(one);
  }
}

/** What is in the folder of uploads, without the folder's own name. */
async function filesIn(folder: string): Promise<readonly string[]> {
  const all = await readdir(folder, { recursive: true, withFileTypes: true });
  return all.filter((entry) => entry.isFile() && !entry.name.endsWith('.lock')).map(({ name }) => name);
}

/** A folder as a killed server leaves it, with one file of three bytes. */
async function left(
  path: string,
  { hoursAgo = 0, folder = '.uploads-dead', at = directory } = {},
): Promise<string> {
  const file = join(at, folder, path);
  await mkdir(join(file, '..'), { recursive: true });
  await writeFile(file, 'abc');
  const then = new Date(Date.now() - hoursAgo * HOUR);
  await utimes(file, then, then);
  return file;
}

describe('uploads of a living server', () => {
  it('are files that nobody else may read, gone when they are dropped, and all gone at the end', async () => {
    await using uploads = makeUploads(directory);
    const upload = await uploads.begin('team/a');
    const [folder = ''] = (await readdir(directory)).filter((name) => !name.endsWith('.lock'));
    const mode = async (...path: readonly string[]): Promise<number> =>
      (await stat(join(directory, folder, ...path))).mode & 0o777;
    expect([await mode(), await mode('team/a', upload.id)]).toEqual([0o700, 0o600]);
    expect(await uploads.find(upload.id)).toMatchObject({ id: upload.id, repository: 'team/a', size: 0 });
    await uploads.append(upload, parts('ab', 'cd'), true);
    expect(upload.size).toBe(4);
    expect((await collect(uploads.read(upload, 1))).toString()).toBe('bcd');
    const other = await uploads.begin('b');
    await uploads.drop(upload);
    await uploads.drop(upload);
    expect(await uploads.find(upload.id)).toBeUndefined();
    await expect(uploads.append(upload, parts('x'), true)).rejects.toMatchObject(unknown);
    expect(await filesIn(directory)).toEqual([other.id]);
    await uploads[Symbol.asyncDispose]();
    expect(await readdir(directory)).toEqual([]);
  });

  it('keep what came of a chunk that broke off where its sender counts, and nothing of it where not', async () => {
    await using uploads = makeUploads(directory);
    const upload = await uploads.begin('a');
    await uploads.append(upload, parts('abc'), false);
    const broken = new Error('broken off');
    await expect(uploads.append(upload, parts('de', broken), false)).rejects.toBe(broken);
    expect([upload.size, (await collect(uploads.read(upload, 0))).toString()]).toEqual([3, 'abc']);
    await expect(uploads.append(upload, parts('de', broken), true)).rejects.toBe(broken);
    expect([upload.size, (await collect(uploads.read(upload, 0))).toString()]).toEqual([5, 'abcde']);
  });

  it('take one chunk at a time', async () => {
    await using uploads = makeUploads(directory);
    const upload = await uploads.begin('a');
    const gate = Promise.withResolvers<void>();
    const first = uploads.append(
      upload,
      (async function* () {
        await gate.promise;
        yield Buffer.from('ab');
      })(),
      true,
    );
    await expect(uploads.append(upload, parts('x'), true)).rejects.toMatchObject({
      status: 416,
      code: 'BLOB_UPLOAD_INVALID',
      message: 'another chunk is being written',
    });
    gate.resolve();
    await first;
    await uploads.append(upload, parts('c'), true);
    expect((await collect(uploads.read(upload, 0))).toString()).toBe('abc');
  });

  it('are so many at most: the oldest makes room', async () => {
    await using uploads = makeUploads(directory, { most: 3 });
    const first = await uploads.begin('a');
    const second = await uploads.begin('a');
    const third = await uploads.begin('a');
    expect(await uploads.find(first.id)).toBe(first);
    const fourth = await uploads.begin('a');
    expect([await uploads.find(first.id), await uploads.find(second.id)]).toEqual([undefined, second]);
    expect((await filesIn(directory)).toSorted()).toEqual([second.id, third.id, fourth.id].toSorted());
  });

  it('are not begun where nothing can be written, and are where it can again', async () => {
    const folder = join(directory, 'store');
    await writeFile(folder, '');
    await using uploads = makeUploads(folder);
    await expect(uploads.begin('a')).rejects.toMatchObject({ code: 'EEXIST' });
    await expect(uploads.find(ID)).rejects.toMatchObject({ code: 'ENOTDIR' });
    await rm(folder);
    expect(await uploads.find(ID)).toBeUndefined();
    expect((await uploads.begin('a')).size).toBe(0);
  });

  it('end with a server that is closed while the first begins', async () => {
    const uploads = makeUploads(directory);
    const begun = uploads.begin('a');
    await uploads[Symbol.asyncDispose]();
    await begun;
    expect(await readdir(directory)).toEqual([]);
  });
});

describe('uploads of a server that was killed', () => {
  it('are found with what is on the disk, go on, and end with the server that took them', async () => {
    const file = await left(`team/a/${ID}`);
    const uploads = makeUploads(directory);
    const [upload, again] = await Promise.all([uploads.find(ID), uploads.find(ID)]);
    if (upload === undefined) throw new Error('not found');
    expect(again).toBe(upload);
    expect(upload).toMatchObject({ id: ID, repository: 'team/a', size: 3 });
    await uploads.append(upload, parts('d'), true);
    expect([(await stat(file)).size, upload.size]).toEqual([4, 4]);
    await using other = makeUploads(directory);
    expect(await other.find(ID)).toBeUndefined();
    await uploads[Symbol.asyncDispose]();
    expect(await readdir(directory)).toEqual([]);
  });

  it('are kept for a day after the last byte', async () => {
    const fresh = ID.replace('0a', '0b');
    const [file] = [await left(`a/${fresh}`, { hoursAgo: 23 }), await left(`a/${ID}`, { hoursAgo: 25 })];
    await using uploads = makeUploads(directory);
    expect(await uploads.find(ID)).toBeUndefined();
    expect(await uploads.find(fresh)).toMatchObject({ repository: 'a', size: 3 });
    expect(await filesIn(directory)).toEqual([fresh]);
    expect((await stat(file)).size).toBe(3);
  });

  it('are no others than servers write, in folders of servers that are dead', async () => {
    await left('a/no-id');
    await left(ID);
    await left(`A/${ID}`);
    await left(`a/${ID}`, { folder: '.elsewhere-dead' });
    await left(`a/${ID}`, { folder: '.uploads-alive' });
    await writeFile(join(directory, '.uploads-file'), '');
    using _alive = tryLock(join(directory, '.uploads-alive.lock'));
    await using uploads = makeUploads(directory);
    expect(await uploads.find(ID)).toBeUndefined();
    expect(await uploads.find('no-id')).toBeUndefined();
  });

  it('make room for new ones as others do', async () => {
    await left(`a/${ID}`);
    await using uploads = makeUploads(directory, { most: 1 });
    const { id } = await uploads.begin('a');
    expect(await uploads.find(ID)).toBeUndefined();
    expect(await filesIn(directory)).toEqual([id]);
  });
});

describe('a registry that is killed and started again', () => {
  let world: ServedWorld;
  beforeEach(async () => {
    world = await servedWorld();
  });
  afterEach(() => world[Symbol.asyncDispose]());

  it('goes on with an upload at the byte that is on the disk, and checks the digest of the whole', async () => {
    const child = spawn(process.execPath, [WORKER, world.directory], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const url = String(await once(child.stdout, 'data').then(([said]: unknown[]) => said)).trim();
      const begin = async (): Promise<string> => {
        const path = String((await world.ask(`POST ${url}/v2/a/blobs/uploads/`)).headers.location);
        const sent = { body: 'abc', headers: { 'content-range': '0-2' } };
        expect((await world.ask(`PATCH ${url}${path}`, sent)).headers.range).toBe('0-2');
        return path;
      };
      const [path, other] = [await begin(), await begin()];
      const [folder = ''] = (await readdir(world.directory)).filter((name) => !name.endsWith('.lock'));
      const file = join(world.directory, folder, 'a', path.slice(path.lastIndexOf('/') + 1));
      const socket = connect(Number(new URL(url).port), '127.0.0.1');
      socket.on('error', () => {});
      const head = `PATCH ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Range: 3-102\r\nContent-Length: 100`;
      socket.write(`${head}\r\n\r\nhalf`);
      await expect.poll(async () => (await stat(file)).size, { timeout: 60_000 }).toBe(7);
      child.kill('SIGKILL');
      await once(child, 'exit');
      await world.start({ writable: true });
      expect(await world.ask(`GET ${path}`)).toMatchObject({
        status: 204,
        headers: { location: path, range: '0-6' },
      });
      const more = { body: 'de', headers: { 'content-range': '7-8' } };
      expect(await world.ask(`PATCH ${path}`, more)).toMatchObject({
        status: 202,
        headers: { range: '0-8' },
      });
      const digest = digestOf('abchalfdef');
      expect((await world.ask(`PUT ${path}?digest=${digest}`, { body: 'f' })).status).toBe(201);
      expect((await world.ask(`GET /v2/a/blobs/${digest}`)).body.toString()).toBe('abchalfdef');
      expect(await world.ask(`PUT ${other}?digest=${digestOf('abx')}`)).toMatchObject({
        status: 400,
        code: 'DIGEST_INVALID',
      });
      await world.served.close();
      expect(await readdir(world.directory)).toEqual([]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('is asked about uploads in vain where it only reads, and leaves them for one that writes', async () => {
    await left(`a/${ID}`, { at: world.directory });
    await world.start();
    const path = `/v2/a/blobs/uploads/${ID}`;
    expect(await world.ask(`GET ${path}`)).toMatchObject({ status: 405, code: 'UNSUPPORTED' });
    await world.start({ writable: true });
    expect(await world.ask(`GET ${path.replace('/a/', '/b/')}`)).toMatchObject(unknown);
    expect(await world.ask(`GET ${path}`)).toMatchObject({ status: 204, headers: { range: '0-2' } });
  });
});
