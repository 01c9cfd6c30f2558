import {
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { kernelError, type SkycapError } from '../../kernel/index.ts';
import { inPieces, recordingTransfer } from '../../testkit/images/index.ts';
import { ociError } from '../errors.ts';
import { digestOf } from '../names/index.ts';
import type { TransferOptions } from '../port.ts';
import type { Descriptor, Digest } from '../types.ts';
import { ingestBlob, readBlobFile, sizeOf, writeAll } from './ingest.ts';
import { type Layout, openLayout } from './layout.ts';
import { unreadableFile } from './problems.ts';

const MiB = 2 ** 20;
const bytes = Buffer.from('0123456789'.repeat(1000));
const blob = blobOf(bytes);
const long = Buffer.from(Uint8Array.from({ length: 2.5 * MiB }, (_, at) => at * 31 + (at >> 12)));
const AGAIN = 'try again; if it stays, the registry or the network changes the bytes';

let directory: string;
let layout: Layout;
let transfer: ReturnType<typeof recordingTransfer>;
/** From which byte on each source was asked. */
let asked: number[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-ingest-'));
  layout = await openLayout(join(directory, 'store'));
  transfer = recordingTransfer();
  asked = [];
});
afterEach(() => rm(directory, { recursive: true, force: true }));

function blobOf(content: Uint8Array): Descriptor {
  return { mediaType: 'x', digest: digestOf(content), size: content.length };
}

type Source = (offset: number) => AsyncIterable<Uint8Array>;

async function ingest(
  source: Source | Error,
  what: Descriptor = blob,
  options: TransferOptions = transfer,
): Promise<void> {
  const from = async (offset: number): Promise<AsyncIterable<Uint8Array>> => {
    asked.push(offset);
    if (asked.length > 40) throw new Error('asked again and again');
    if (source instanceof Error) throw source;
    return source(offset);
  };
  await ingestBlob(layout, what, { signal: options.signal, emit: options.emit, open: from });
}

const from =
  (content: Uint8Array, size = 1000): Source =>
  (offset) =>
    inPieces(content.subarray(offset), size);

const partial = (): string => layout.partial(blob.digest);
const leave = (content: Uint8Array | string): Promise<void> => writeFile(partial(), content);
const stored = (): Promise<Buffer> => readFile(layout.blob(blob.digest));
const faultOf = (work: Promise<unknown>): Promise<SkycapError> =>
  work.then(
    () => expect.fail('it was done'),
    (error: SkycapError) => error,
  );

async function piecesOf(source: AsyncIterable<Uint8Array>): Promise<readonly string[]> {
  const parts: string[] = [];
  for await (const part of source) parts.push(Buffer.from(part).toString('latin1'));
  return parts;
}

describe('what is there already', () => {
  it('is neither asked for nor waited for', async () => {
    await ingest(from(bytes));
    await ingest(new Error('no'), blob, recordingTransfer(AbortSignal.abort()));
    expect(asked).toEqual([0]);
  });

  it('of another size than announced is the fault of the announcement, and stays', async () => {
    await ingest(from(bytes));
    const fault = await faultOf(ingest(from(bytes), { ...blob, size: 9999 }));
    expect(fault).toMatchObject({
      code: 'OCI_BLOB_CORRUPT',
      message: `${blob.digest} has 10000 bytes, and the image announces 9999`,
      hint: 'the image was built wrongly or is hostile; ask its author',
      details: { digest: blob.digest },
    });
    expect((await stored()).equals(bytes)).toBe(true);
    expect(await readdir(layout.ingest)).toEqual([]);
  });

  it('has a size; what is not there has none; what cannot be looked at is an error', async () => {
    expect(await sizeOf(layout.index)).toBe((await stat(layout.index)).size);
    expect(await sizeOf(join(directory, 'none'))).toBeUndefined();
    await expect(sizeOf(join(layout.index, 'below'))).rejects.toMatchObject({ code: 'ENOTDIR' });
  });

  it('of an empty blob is nothing, which nobody is asked for', async () => {
    const empty = blobOf(Buffer.alloc(0));
    await ingest(from(bytes), empty);
    expect(asked).toEqual([]);
    expect(await sizeOf(layout.blob(empty.digest))).toBe(0);
    expect(transfer.events).toEqual([]);
  });
});

describe('a transfer', () => {
  it('tells how far it is after each MiB, and at its end', async () => {
    await ingest(from(long, MiB / 2), blobOf(long));
    const { digest, size: sizeBytes } = blobOf(long);
    const told = [MiB, 2 * MiB, 2.5 * MiB];
    expect(transfer.events).toEqual(
      told.map((doneBytes) => ({ type: 'blob.progress', digest, doneBytes, sizeBytes })),
    );
    expect((await readFile(layout.blob(digest))).equals(long)).toBe(true);
  });

  it('tells no more often where the pieces do not fit, nor less where they are large', async () => {
    await ingest(from(long, 0.75 * MiB), blobOf(long));
    expect(transfer.events).toMatchObject([{ doneBytes: 1.5 * MiB }, { doneBytes: 2.5 * MiB }]);
  });

  it('may come as one piece, or as more than is written at once', async () => {
    for (const content of [long, long.subarray(0, MiB), long.subarray(0, MiB + 1)]) {
      await ingest(from(content, content.length), blobOf(content));
      expect((await readFile(layout.blob(blobOf(content).digest))).equals(content)).toBe(true);
    }
  });

  it('is written whole though each write takes little', async () => {
    const written = Buffer.alloc(12, '.');
    const write = async (from: Uint8Array, offset: number, length: number, position: number) => {
      expect(offset + length).toBe(from.length);
      const part = from.subarray(offset, offset + Math.min(3, length));
      written.set(part, position);
      return { bytesWritten: part.length, buffer: from };
    };
    await writeAll({ write } as Parameters<typeof writeAll>[0], Buffer.from('abcdefgh'), 2);
    expect(written.toString()).toBe('..abcdefgh..');
  });

  it('that ends early goes on where it ended, and says why', async () => {
    const parts = [bytes.subarray(0, 4000), bytes.subarray(4000, 9000), bytes.subarray(9000)];
    await ingest(() => inPieces(parts.shift() ?? Buffer.alloc(0), 4000));
    expect(asked).toEqual([0, 4000, 9000]);
    const { digest } = blob;
    expect(transfer.events).toEqual([
      { type: 'blob.retry', digest, reason: 'the transfer ended early', offset: 4000 },
      { type: 'blob.retry', digest, reason: 'the transfer ended early', offset: 9000 },
      { type: 'blob.progress', digest, doneBytes: 10_000, sizeBytes: 10_000 },
    ]);
    expect((await stored()).equals(bytes)).toBe(true);
  });

  it('that breaks says what its source said, error or not', async () => {
    const faults: unknown[] = [new Error('reset by peer'), 'just text', 7];
    async function* broken(offset: number): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(offset, offset + 100);
      const fault = faults.shift();
      if (fault !== undefined) throw fault as Error;
      yield bytes.subarray(offset + 100);
    }
    await ingest(broken);
    const retries = transfer.events.filter((event) => event.type === 'blob.retry');
    expect(retries.map(({ reason, offset }) => [reason, offset])).toEqual([
      ['reset by peer', 100],
      ['just text', 200],
      ['7', 300],
    ]);
    expect((await stored()).equals(bytes)).toBe(true);
  });

  it('is given up after five tries in a row that brought nothing, and what came is kept', async () => {
    let sent = 0;
    const fault = await faultOf(
      ingest(() => inPieces(sent++ === 0 ? bytes.subarray(0, 100) : Buffer.alloc(0))),
    );
    expect(fault).toMatchObject({
      code: 'OCI_BLOB_INCOMPLETE',
      message: `${blob.digest}: the transfer ends at byte 100 of 10000 again and again`,
      hint: 'run the same command again; it continues where this one stopped',
    });
    expect(asked).toEqual([0, 100, 100, 100, 100, 100]);
    expect(transfer.events.map((event) => event.type)).toEqual(Array.from({ length: 5 }, () => 'blob.retry'));
    expect((await readFile(partial())).equals(bytes.subarray(0, 100))).toBe(true);
    expect((await stat(partial())).mode & 0o777).toBe(0o600);
  });

  it('is not given up while one of five tries brings something', async () => {
    let tries = 0;
    await ingest((offset) =>
      inPieces(++tries % 5 === 0 ? bytes.subarray(offset, offset + 5000) : Buffer.alloc(0)),
    );
    expect(asked).toEqual([0, 0, 0, 0, 0, 5000, 5000, 5000, 5000, 5000]);
    expect((await stored()).equals(bytes)).toBe(true);
  });

  it('of exactly the announced bytes is right, of one more it is not', async () => {
    const fault = await faultOf(ingest(from(Buffer.concat([bytes, Buffer.from('x')]), 10_001)));
    expect(fault).toMatchObject({
      code: 'OCI_BLOB_CORRUPT',
      message: `${blob.digest}: more than the announced 10000 bytes came`,
      hint: AGAIN,
      details: { digest: blob.digest },
    });
    expect(asked).toEqual([0]);
    expect(await readdir(layout.ingest)).toEqual([]);
    await ingest(from(bytes, 10_000));
  });

  it('of other bytes is refused at once, and nothing of it stays', async () => {
    const fault = await faultOf(ingest(from(Buffer.alloc(10_000))));
    expect(fault).toMatchObject({
      code: 'OCI_BLOB_CORRUPT',
      message: `${blob.digest}: the bytes that came have another digest`,
      hint: AGAIN,
      details: { digest: blob.digest },
    });
    expect(asked).toEqual([0]);
    expect(await readdir(layout.ingest)).toEqual([]);
    expect(await sizeOf(layout.blob(blob.digest))).toBeUndefined();
  });

  it.each<[string, Error, boolean]>([
    ['a full disk', kernelError('DISK_FULL', 'full'), false],
    ['the user', kernelError('CANCELLED', 'stopped'), false],
    ['wrong bytes', ociError('OCI_BLOB_CORRUPT', 'wrong'), false],
    ['a refusal', ociError('REGISTRY_FORBIDDEN', 'no'), true],
    ['a fault of the system', Object.assign(new Error('no'), { code: 'EIO' }), true],
  ])('ended by %s passes that on as it is, and keeps what can be continued', async (_what, error, kept) => {
    let tries = 0;
    async function* once(): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(0, 4000);
    }
    const refused = ingestBlob(layout, blob, {
      ...transfer,
      open: async () => (tries++ === 0 ? once() : Promise.reject(error)),
    });
    expect(await faultOf(refused)).toBe(error);
    expect(await readdir(layout.ingest)).toHaveLength(kept ? 1 : 0);
    expect(tries).toBe(2);
  });

  it('ended by a coded error in the middle is not tried again', async () => {
    const error = ociError('REGISTRY_DIGEST_MISMATCH', 'wrong');
    async function* bad(): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(0, 10);
      throw error;
    }
    expect(await faultOf(ingest(bad))).toBe(error);
    expect(asked).toEqual([0]);
  });

  it('that was stopped says so, whether its source breaks off or goes on', async () => {
    for (const breaks of [true, false]) {
      const stop = new AbortController();
      async function* stopped(): AsyncGenerator<Uint8Array> {
        yield bytes.subarray(0, 10);
        stop.abort();
        if (breaks) throw new Error('aborted');
        yield bytes.subarray(10, 20);
        yield bytes.subarray(20);
      }
      const fault = await faultOf(ingest(stopped, blob, recordingTransfer(stop.signal)));
      expect(fault).toMatchObject({ code: 'CANCELLED', message: 'cancelled while a blob came in' });
      expect(await readdir(layout.ingest)).toEqual([]);
    }
    expect(asked).toEqual([0, 0]);
  });

  it('lets go of its source, whatever that says to it', async () => {
    let returned = 0;
    const source = (more: object): AsyncIterable<Uint8Array> => ({
      [Symbol.asyncIterator]: () => ({
        next: async () => ({ done: false, value: Buffer.alloc(20_000) }),
        ...more,
      }),
    });
    const refuses = async (): Promise<never> => {
      returned++;
      throw new Error('return refused');
    };
    for (const more of [{ return: refuses }, {}])
      expect((await faultOf(ingest(() => source(more)))).message).toContain('more than the announced');
    expect(returned).toBe(1);
  });

  it('that cannot be written says what about the store', async () => {
    await symlink('/dev/null', partial());
    expect(await faultOf(ingest(from(bytes)))).toMatchObject({
      code: 'OCI_STORE_INVALID',
      message: `the store ${layout.directory} cannot be used: a link stands where a file belongs`,
      place: { file: partial() },
    });
    await rm(partial());
    await rm(join(layout.blobs, 'sha256'), { recursive: true });
    await writeFile(join(layout.blobs, 'sha256'), '');
    const fault = await faultOf(ingest(from(bytes)));
    expect(fault).toMatchObject({ code: 'ENOTDIR' });
  });
});

describe('what an earlier try left', () => {
  it.each<[string, () => Promise<void>, readonly number[]]>([
    ['a beginning', () => leave(bytes.subarray(0, 7)), [7]],
    ['all of it', () => leave(bytes), []],
    ['all but a byte', () => leave(bytes.subarray(0, 9999)), [9999]],
    ['more than all', () => leave(Buffer.concat([bytes, Buffer.from('x')])), [0]],
    ['another beginning', () => leave('wrong'), [5, 0]],
    ['as many other bytes', () => leave(Buffer.alloc(10_000)), [0]],
    ['nothing', () => leave(''), [0]],
  ])('is used as far as it is good: %s', async (_what, prepare, offsets) => {
    await prepare();
    await ingest(from(bytes));
    expect(asked).toEqual(offsets);
    expect((await stored()).equals(bytes)).toBe(true);
    expect(await readdir(layout.ingest)).toEqual([]);
  });

  it('may be longer than what is read at once', async () => {
    await writeFile(layout.partial(blobOf(long).digest), long.subarray(0, 2.25 * MiB));
    await ingest(from(long), blobOf(long));
    expect(asked).toEqual([2.25 * MiB]);
    expect((await readFile(layout.blob(blobOf(long).digest))).equals(long)).toBe(true);
  });

  it('was bad, and what comes is bad too: told once, after one new beginning', async () => {
    await leave('wrong');
    expect(await faultOf(ingest(from(Buffer.alloc(10_000))))).toMatchObject({ code: 'OCI_BLOB_CORRUPT' });
    expect(asked).toEqual([5, 0]);
    expect(await readdir(layout.ingest)).toEqual([]);
  });

  it('was bad: progress is told anew from the beginning', async () => {
    await writeFile(layout.partial(blobOf(long).digest), Buffer.alloc(2 * MiB));
    await ingest(from(long, MiB / 2), blobOf(long));
    const told = transfer.events.map((event) => event.type === 'blob.progress' && event.doneBytes);
    expect(told).toEqual([2.5 * MiB, MiB, 2 * MiB, 2.5 * MiB]);
    expect(asked).toEqual([2 * MiB, 0]);
  });
});

describe('a stored blob', () => {
  const read = (digest = blob.digest, offset?: number): Promise<readonly string[]> =>
    piecesOf(readBlobFile(layout.blob(digest), digest, offset));

  it('is read in pieces of 256 KiB, from anywhere, and no piece is empty', async () => {
    const content = long.subarray(0, 600_000);
    const { digest } = blobOf(content);
    await ingest(from(content), blobOf(content));
    const piece = 256 * 1024;
    for (const [offset, sizes] of [
      [undefined, [piece, piece, 600_000 - 2 * piece]],
      [1, [piece - 1, piece, 600_000 - 2 * piece]],
      [piece, [piece, 600_000 - 2 * piece]],
      [piece + 7, [piece - 7, 600_000 - 2 * piece]],
      [599_999, [1]],
      [600_000, []],
    ] as const) {
      const parts = await read(digest, offset);
      expect(parts.map((part) => part.length)).toEqual(sizes);
      expect(parts.join('') === content.subarray(offset ?? 0).toString('latin1')).toBe(true);
    }
  });

  it('is checked to its end, also where only that is asked for', async () => {
    await ingest(from(bytes));
    const handle = await open(layout.blob(blob.digest), 'r+');
    await handle.write('x', 0);
    await handle.close();
    const pieces: string[] = [];
    const fault = await faultOf(
      (async () => {
        for await (const part of readBlobFile(layout.blob(blob.digest), blob.digest, 9990))
          pieces.push(Buffer.from(part).toString());
      })(),
    );
    expect(pieces).toEqual(['0123456789']);
    expect(fault).toMatchObject({
      code: 'OCI_BLOB_CORRUPT',
      message: `the store holds a damaged copy of ${blob.digest}: its bytes have changed`,
      hint: 'run `skycap image fsck --repair` and then the same command again, which brings it anew',
      place: { file: layout.blob(blob.digest) },
    });
    await truncate(layout.blob(blob.digest), 0);
    expect(await faultOf(read())).toMatchObject({ code: 'OCI_BLOB_CORRUPT' });
  });

  it('that is gone, or that nobody can look for, is told apart', async () => {
    expect(await faultOf(read())).toMatchObject({
      code: 'OCI_BLOB_MISSING',
      message: `${blob.digest} is not in the store`,
      hint: 'pull the image again',
    });
    await expect(piecesOf(readBlobFile(join(layout.index, 'x'), blob.digest))).rejects.toMatchObject({
      code: 'ENOTDIR',
    });
  });

  it('that is no file is damage: a folder, a link, a socket', async () => {
    const path = layout.blob(blob.digest);
    const said = async (): Promise<string> => (await faultOf(read())).message.replace(/^.*[^:]{64}: /, '');
    await mkdir(path);
    expect(await said()).toBe('it is no file');
    await rm(path, { recursive: true });
    await symlink(layout.index, path);
    expect(await said()).toBe('it cannot be read (ELOOP)');
    await rm(path);
    const short = await mkdtemp(join(tmpdir(), 's-'));
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(short, 's'), resolve));
    const socket = piecesOf(readBlobFile(join(short, 's'), blob.digest));
    expect((await faultOf(socket)).message).toContain('it cannot be read (ENXIO)');
    await new Promise((resolve) => server.close(resolve));
    await rm(short, { recursive: true });
  });

  it('that the disk does not give is damage', async () => {
    // Its first page is nobody's.
    const fault = await faultOf(piecesOf(readBlobFile('/proc/self/mem', blob.digest)));
    expect(fault).toMatchObject({ code: 'OCI_BLOB_CORRUPT', place: { file: '/proc/self/mem' } });
    expect(fault.message).toContain('it cannot be read (EIO)');
  });

  it.each(['EIO', 'ELOOP', 'ENXIO', 'EACCES', 'EPERM'])('that meets %s is damaged', (code) => {
    const cause = Object.assign(new Error('no'), { code });
    expect(unreadableFile(cause, '/s/b', blob.digest)).toMatchObject({
      code: 'OCI_BLOB_CORRUPT',
      message: `the store holds a damaged copy of ${blob.digest}: it cannot be read (${code})`,
      place: { file: '/s/b' },
    });
  });

  it('that meets another fault is not', () => {
    for (const other of [new Error('x'), Object.assign(new Error('x'), { code: 'EMFILE' })])
      expect(unreadableFile(other, '/s/b', blob.digest as Digest)).toBe(other);
  });
});
