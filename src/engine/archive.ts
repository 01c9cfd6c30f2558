import { engineError } from './errors.ts';

/** One entry of a tar stream; `content` must be read or left before the next entry is asked for. */
export interface ArchiveEntry {
  /** Relative, without leading `./` and trailing `/`; the root itself is the empty string. */
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'hardlink' | 'fifo' | 'device';
  readonly mode: number;
  readonly sizeBytes: number;
  /** Seconds since 1970. */
  readonly mtime: number;
  readonly linkTarget: string;
  readonly content: AsyncIterable<Uint8Array>;
}

/** What `packArchive` needs of an entry; `content` of files must hold `sizeBytes` bytes. */
export type PackEntry = Pick<ArchiveEntry, 'path' | 'type'> & Partial<Omit<ArchiveEntry, 'path' | 'type'>>;

const BLOCK = 512;
const TYPES = new Map<string, ArchiveEntry['type']>([
  ['0', 'file'],
  ['\0', 'file'],
  ['7', 'file'],
  ['5', 'directory'],
  ['2', 'symlink'],
  ['1', 'hardlink'],
  ['6', 'fifo'],
  ['3', 'device'],
  ['4', 'device'],
]);
const FLAGS: Readonly<Record<ArchiveEntry['type'], string>> = {
  file: '0',
  directory: '5',
  symlink: '2',
  hardlink: '1',
  fifo: '6',
  device: '3',
};

/** Hands out exact amounts of a chunked stream without joining more than was asked for. */
class Feed {
  readonly #source: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  async some(max: number): Promise<Uint8Array | undefined> {
    while (this.#rest.length === 0) {
      const next = await this.#source.next();
      if (next.done === true) return undefined;
      this.#rest = next.value;
    }
    const part = this.#rest.subarray(0, max);
    this.#rest = this.#rest.subarray(part.length);
    return part;
  }

  async exactly(size: number): Promise<Buffer | undefined> {
    const parts: Uint8Array[] = [];
    let missing = size;
    while (missing > 0) {
      const part = await this.some(missing);
      if (part === undefined) {
        if (parts.length === 0) return undefined;
        throw engineError('ENGINE_ARCHIVE_INVALID', 'the archive ends in the middle of an entry');
      }
      parts.push(part);
      missing -= part.length;
    }
    return Buffer.concat(parts);
  }
}

/**
 * Reads ustar, PAX and GNU long names (POSIX.1-2017 pax, "ustar Interchange Format" and "pax Header Block").
 *
 * @throws ENGINE_ARCHIVE_INVALID for damaged headers and for paths that are absolute or leave the root
 */
export async function* readArchive(source: AsyncIterable<Uint8Array>): AsyncIterable<ArchiveEntry> {
  const feed = new Feed(source);
  let pax = new Map<string, string>();
  let longName: string | undefined;
  let longLink: string | undefined;
  for (;;) {
    const block = await feed.exactly(BLOCK);
    if (block === undefined || block.every((byte) => byte === 0)) break;
    checkSum(block);
    const flag = block.toString('latin1', 156, 157);
    const size = pax.has('size') ? Number(pax.get('size')) : numberField(block, 124, 12);
    if (!Number.isSafeInteger(size) || size < 0)
      throw engineError('ENGINE_ARCHIVE_INVALID', 'an entry has no valid size');
    if (flag === 'x' || flag === 'g' || flag === 'L' || flag === 'K') {
      if (size > 1 << 20)
        throw engineError('ENGINE_ARCHIVE_INVALID', 'an extended header is larger than 1 MiB');
      const body = (await feed.exactly(size)) ?? Buffer.alloc(0);
      await feed.exactly(padding(size));
      if (flag === 'x') pax = paxRecords(body);
      if (flag === 'L') longName = cString(body, 0, body.length);
      if (flag === 'K') longLink = cString(body, 0, body.length);
      continue;
    }
    const type = TYPES.get(flag);
    if (type === undefined)
      throw engineError('ENGINE_ARCHIVE_INVALID', `entry type ${JSON.stringify(flag)} is unknown`);
    const prefix = block.toString('latin1', 257, 262) === 'ustar' ? cString(block, 345, 155) : '';
    const name = cString(block, 0, 100);
    let left = type === 'file' ? size : 0;
    const content = (async function* () {
      while (left > 0) {
        const part = await feed.some(left);
        if (part === undefined)
          throw engineError('ENGINE_ARCHIVE_INVALID', 'the archive ends in the middle of a file');
        left -= part.length;
        yield part;
      }
    })();
    yield {
      path: cleanPath(pax.get('path') ?? longName ?? (prefix === '' ? name : `${prefix}/${name}`)),
      type,
      mode: numberField(block, 100, 8) & 0o7777,
      sizeBytes: type === 'file' ? size : 0,
      mtime: pax.has('mtime') ? Number(pax.get('mtime')) : numberField(block, 136, 12),
      linkTarget: pax.get('linkpath') ?? longLink ?? cString(block, 157, 100),
      content,
    };
    for await (const _ of content); // what the consumer left
    while (left > 0) left -= (await feed.some(left))?.length ?? left;
    await feed.exactly(padding(size));
    pax = new Map();
    longName = undefined;
    longLink = undefined;
  }
}

/** Writes entries as ustar with PAX records where a name, link or size does not fit. */
export async function* packArchive(
  entries: AsyncIterable<PackEntry> | Iterable<PackEntry>,
): AsyncIterable<Uint8Array> {
  for await (const entry of entries) {
    const size = entry.type === 'file' ? (entry.sizeBytes ?? 0) : 0;
    const records: string[] = [];
    const path = entry.type === 'directory' ? `${entry.path}/` : entry.path;
    if (Buffer.byteLength(path) > 100 || /[^\x20-\x7e]/.test(path)) records.push(paxRecord('path', path));
    const link = entry.linkTarget ?? '';
    if (Buffer.byteLength(link) > 100 || /[^\x20-\x7e]/.test(link)) records.push(paxRecord('linkpath', link));
    if (size >= 8 ** 11) records.push(paxRecord('size', String(size)));
    if (records.length > 0) {
      const body = Buffer.from(records.join(''));
      yield header({ path: 'PaxHeader', flag: 'x', mode: 0o644, size: body.length, mtime: 0, link: '' });
      yield body;
      yield Buffer.alloc(padding(body.length));
    }
    yield header({
      path,
      flag: FLAGS[entry.type],
      mode: entry.mode ?? (entry.type === 'directory' ? 0o755 : 0o644),
      size: size >= 8 ** 11 ? 0 : size,
      mtime: Math.max(0, Math.floor(entry.mtime ?? 0)),
      link,
    });
    let written = 0;
    if (size > 0 && entry.content !== undefined) {
      for await (const chunk of entry.content) {
        // A file that grows or shrinks while it is read must not shift what follows.
        const part = chunk.subarray(0, size - written);
        written += part.length;
        if (part.length > 0) yield part;
      }
    }
    while (written < size) {
      const fill = Buffer.alloc(Math.min(size - written, 1 << 16));
      written += fill.length;
      yield fill;
    }
    yield Buffer.alloc(padding(size));
  }
  yield Buffer.alloc(2 * BLOCK);
}

/** An archive of files given by name: for tests, generated files and the like. */
export function packFiles(
  files: Readonly<
    Record<string, string | Uint8Array | { readonly content: string | Uint8Array; readonly mode: number }>
  >,
): AsyncIterable<Uint8Array> {
  return packArchive(
    Object.entries(files).map(([path, value]): PackEntry => {
      const plain = typeof value === 'string' || value instanceof Uint8Array;
      const content = Buffer.from(plain ? value : value.content);
      return {
        path,
        type: 'file',
        mode: plain ? 0o644 : value.mode,
        sizeBytes: content.length,
        content: oneChunk(content),
      };
    }),
  );
}

/** Everything of a byte stream; for small ones. */
export async function readAll(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts);
}

export async function* oneChunk(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

function cleanPath(raw: string): string {
  const parts = raw.split('/').filter((part) => part !== '' && part !== '.');
  if (raw.startsWith('/') || parts.includes('..') || raw.includes('\0')) {
    throw engineError('ENGINE_ARCHIVE_INVALID', `the entry ${JSON.stringify(raw)} leaves the archive's root`);
  }
  return parts.join('/');
}

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

function cString(block: Buffer, start: number, length: number): string {
  const end = block.indexOf(0, start);
  return block.toString('utf8', start, end === -1 || end > start + length ? start + length : end);
}

function numberField(block: Buffer, start: number, length: number): number {
  if ((block[start] as number) & 0x80) {
    let value = BigInt((block[start] as number) & 0x7f);
    for (let at = start + 1; at < start + length; at += 1)
      value = (value << 8n) | BigInt(block[at] as number);
    return Number(value);
  }
  const text = block
    .toString('latin1', start, start + length)
    .replace(/[\0 ]+$/g, '')
    .trim();
  return text === '' ? 0 : Number.parseInt(text, 8);
}

function checkSum(block: Buffer): void {
  let sum = 8 * 0x20;
  for (let at = 0; at < BLOCK; at += 1) if (at < 148 || at >= 156) sum += block[at] as number;
  if (sum !== numberField(block, 148, 8))
    throw engineError('ENGINE_ARCHIVE_INVALID', 'a header has the wrong checksum');
}

function paxRecords(body: Buffer): Map<string, string> {
  const records = new Map<string, string>();
  let at = 0;
  while (at < body.length) {
    const space = body.indexOf(0x20, at);
    const length = space === -1 ? Number.NaN : Number(body.toString('latin1', at, space));
    if (!Number.isSafeInteger(length) || length <= space - at || at + length > body.length) {
      throw engineError('ENGINE_ARCHIVE_INVALID', 'a PAX record has no valid length');
    }
    const record = body.toString('utf8', space + 1, at + length - 1);
    const equals = record.indexOf('=');
    records.set(record.slice(0, equals), record.slice(equals + 1));
    at += length;
  }
  return records;
}

function paxRecord(key: string, value: string): string {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + String(rest).length;
  if (String(length).length !== String(rest).length) length = rest + String(length).length;
  return `${length} ${key}=${value}\n`;
}

interface HeaderFields {
  readonly path: string;
  readonly flag: string;
  readonly mode: number;
  readonly size: number;
  readonly mtime: number;
  readonly link: string;
}

function header(fields: HeaderFields): Buffer {
  const block = Buffer.alloc(BLOCK);
  block.write(fields.path, 0, 100, 'utf8');
  block.write(`${(fields.mode & 0o7777).toString(8).padStart(7, '0')}\0`, 100, 'latin1');
  block.write('0000000\0', 108, 'latin1');
  block.write('0000000\0', 116, 'latin1');
  block.write(`${fields.size.toString(8).padStart(11, '0')}\0`, 124, 'latin1');
  block.write(`${fields.mtime.toString(8).padStart(11, '0')}\0`, 136, 'latin1');
  block.write('        ', 148, 'latin1');
  block.write(fields.flag, 156, 'latin1');
  block.write(fields.link, 157, 100, 'utf8');
  block.write('ustar\x0000', 257, 'latin1');
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return block;
}
