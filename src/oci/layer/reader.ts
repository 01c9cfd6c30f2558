import { ByteSource } from './bytes.ts';
import type { EntryType, TarEntry } from './entry.ts';
import { BLOCK, decodeHeader, isZeroBlock, type RawHeader } from './header.ts';
import { DEFAULT_LIMITS, invalid, type LayerLimits, overLimit } from './limits.ts';
import { decodePax, type PaxRecords, parsePaxNumber, parsePaxTime } from './pax.ts';
import { dataMapBytes, readSparse, type SparseMap, sparseVersion } from './sparse.ts';

const TYPES: Readonly<Record<string, EntryType>> = {
  '0': 'file',
  '\0': 'file',
  '1': 'link',
  '2': 'symlink',
  '3': 'char',
  '4': 'block',
  '5': 'directory',
  '6': 'fifo',
};
const XATTR = 'SCHILY.xattr.';
/** Of a header: its type, from `0` for a file to `6` for a FIFO. */
const TYPE_FLAG = 156;
const FILE_FLAG = 48;
const LAST_FLAG = 54;

interface Meta {
  pax: PaxRecords | undefined;
  longName: string | undefined;
  longLink: string | undefined;
}

const NO_META: Meta = { pax: undefined, longName: undefined, longLink: undefined };

export interface StoredBody {
  /** Offset of its first byte. */
  readonly start: number;
  readonly length: number;
  /** Bytes up to the next header. */
  readonly padding: number;
  /** Which bytes of the file they are; the holes of a sparse file are left out. */
  readonly pieces: readonly { readonly offset: number; readonly length: number }[];
}

/**
 * Reads one tar archive as a stream: `next()` gives the next entry, `body()` its bytes. An unread body is skipped.
 * Understands V7, ustar, GNU (long names, base-256) and PAX (every key that matters, binary xattrs, sparse); refuses
 * what it does not know. Memory: one chunk and one metadata record.
 */
export class TarReader {
  readonly #source: ByteSource;
  readonly #limits: LayerLimits;
  #bodyLeft = 0;
  #padding = 0;
  #sparse: SparseMap | undefined;
  #ended = false;

  constructor(source: AsyncIterable<Uint8Array>, limits: LayerLimits = DEFAULT_LIMITS) {
    this.#source = new ByteSource(source);
    this.#limits = limits;
  }

  /**
   * The next entry where all of what leads to it is at hand, and it is an ordinary one; else undefined, and `next` has
   * it. To wait for each of many small files would take as long as to read them.
   *
   * @throws OCI_LAYER_INVALID, OCI_LAYER_LIMIT
   */
  nextNow(): TarEntry | undefined {
    if (this.#ended) return undefined;
    const ahead = this.#bodyLeft + this.#padding;
    const block = this.#source.peek(ahead, BLOCK);
    if (block === undefined || !isPlainEntry(block)) return undefined;
    this.#source.pass(ahead + BLOCK);
    this.#sparse = undefined;
    return this.#plainEntry(decodeHeader(block), NO_META);
  }

  /** @throws OCI_LAYER_INVALID, OCI_LAYER_LIMIT */
  async next(): Promise<TarEntry | undefined> {
    if (this.#ended) return undefined;
    await this.#skipBody();
    const meta: Meta = { pax: undefined, longName: undefined, longLink: undefined };
    for (;;) {
      const block = await this.#header();
      if (block === undefined) {
        if (meta.pax !== undefined || meta.longName !== undefined)
          throw invalid('it ends after a metadata record');
        return undefined;
      }
      const raw = decodeHeader(block);
      if (await this.#takeMeta(raw, meta)) continue;
      return await this.#entry(raw, meta);
    }
  }

  /** The bytes of the entry that `next()` gave last; holes of sparse files as zeros. */
  async *body(): AsyncGenerator<Buffer> {
    const sparse = this.#sparse;
    if (sparse !== undefined) {
      this.#sparse = undefined;
      yield* readSparse(sparse, (max) => this.#some(max));
      return;
    }
    for (;;) {
      const part = await this.#some(this.#bodyLeft);
      if (part === undefined) return;
      yield part;
    }
  }

  /** Next part of the body, good until the next call; undefined at its end. The fast way around `body()`. */
  async some(): Promise<Buffer | undefined> {
    return await this.#some(this.#bodyLeft);
  }

  /** All that is left of the body, not taken; undefined where it is not at hand. */
  peekBody(): Buffer | undefined {
    return this.#sparse === undefined ? this.#source.peek(0, this.#bodyLeft) : undefined;
  }

  get isSparse(): boolean {
    return this.#sparse !== undefined;
  }

  /** Where in the archive the body of the entry stands, as long as nothing of it was read. */
  get stored(): StoredBody {
    const pieces = this.#sparse?.segments ?? [{ offset: 0, length: this.#bodyLeft }];
    return { start: this.#source.position, length: this.#bodyLeft, padding: this.#padding, pieces };
  }

  /** What follows the end of the archive, so that a digest over the whole stream can be taken. */
  async drain(): Promise<void> {
    while ((await this.#source.some(1 << 20)) !== undefined);
  }

  async close(): Promise<void> {
    await this.#source.close();
  }

  async #some(max: number): Promise<Buffer | undefined> {
    if (this.#bodyLeft === 0) return undefined;
    const part = await this.#source.some(Math.min(max, this.#bodyLeft));
    if (part === undefined) throw invalid('it ends inside a file');
    this.#bodyLeft -= part.length;
    return part;
  }

  async #skipBody(): Promise<void> {
    this.#sparse = undefined;
    if (this.#bodyLeft > 0 && (await this.#source.skip(this.#bodyLeft)) < this.#bodyLeft) {
      throw invalid('it ends inside a file');
    }
    this.#bodyLeft = 0;
    // The padding of the very last entry may be missing: every reader in use accepts that.
    if (this.#padding > 0) await this.#source.skip(this.#padding);
    this.#padding = 0;
  }

  /** undefined at the end: two zero blocks, one zero block and nothing more, or nothing more. */
  async #header(): Promise<Buffer | undefined> {
    const block = await this.#source.exactly(BLOCK);
    if (block.length === 0) return this.#end();
    if (block.length < BLOCK) throw invalid('it ends inside a header');
    if (!isZeroBlock(block)) return block;
    const second = await this.#source.exactly(BLOCK);
    if (second.length === 0 || (second.length === BLOCK && isZeroBlock(second))) return this.#end();
    throw invalid('a lone zero block stands between entries');
  }

  #end(): undefined {
    this.#ended = true;
    return undefined;
  }

  async #takeMeta(raw: RawHeader, meta: Meta): Promise<boolean> {
    if (raw.typeFlag === 'g') {
      // Global records change every later entry; image tools ignore them, so anything else would be ambiguous.
      // Docker then forgets what stood before them for the next entry, GNU tar does not.
      if (meta.pax !== undefined || meta.longName !== undefined || meta.longLink !== undefined)
        throw invalid('a record for all later entries parts an entry from its own');
      decodePax(await this.#metaBody(raw.size));
      return true;
    }
    if (raw.typeFlag === 'x') {
      meta.pax = decodePax(await this.#metaBody(raw.size));
      return true;
    }
    if (raw.typeFlag !== 'L' && raw.typeFlag !== 'K') return false;
    const body = await this.#metaBody(raw.size);
    const end = body.indexOf(0);
    const name = body.toString('latin1', 0, end === -1 ? body.length : end);
    if (raw.typeFlag === 'L') meta.longName = name;
    else meta.longLink = name;
    return true;
  }

  async #metaBody(size: number): Promise<Buffer> {
    if (size < 0) throw invalid('a size is negative');
    if (size > this.#limits.maxMetaBytes) throw overLimit(`a metadata record of ${size} bytes`);
    const body = Buffer.from(await this.#source.exactly(size));
    if (body.length < size) throw invalid('it ends inside a metadata record');
    await this.#source.skip(pad(size));
    return body;
  }

  async #entry(raw: RawHeader, meta: Meta): Promise<TarEntry> {
    const entry = this.#plainEntry(raw, meta);
    const sparse = await this.#sparseMap(meta.pax, entry.type);
    if (sparse === undefined) return entry;
    this.#sparse = sparse;
    return { ...entry, path: sparse.name ?? entry.path, size: sparse.size };
  }

  /** With its body as it is stored. */
  #plainEntry(raw: RawHeader, meta: Meta): TarEntry {
    const pax = meta.pax;
    const name = stated(paxText(pax, 'path'), meta.longName) ?? raw.name;
    const type = entryType(raw.typeFlag, name);
    const stored = type === 'file' ? (paxNumber(pax, 'size') ?? raw.size) : 0;
    // As Docker, whatever a record says, and in a directory of the oldest form too.
    if (raw.size < 0 && TYPES[raw.typeFlag] === 'file') throw invalid('a size is negative');
    if (stored > this.#limits.maxBytes) throw overLimit(`a file of ${stored} bytes`);
    this.#bodyLeft = stored;
    this.#padding = pad(stored);
    const mtime = paxText(pax, 'mtime');
    const xattrs = collectXattrs(pax);
    return {
      path: name,
      type,
      mode: raw.mode & 0o7777,
      uid: paxNumber(pax, 'uid') ?? raw.uid,
      gid: paxNumber(pax, 'gid') ?? raw.gid,
      size: stored,
      mtime: mtime === undefined ? raw.mtime : parsePaxTime(mtime),
      linkPath:
        type === 'symlink' || type === 'link'
          ? (stated(paxText(pax, 'linkpath'), meta.longLink) ?? raw.linkName)
          : '',
      devMajor: raw.devMajor,
      devMinor: raw.devMinor,
      ...(xattrs === undefined ? {} : { xattrs }),
    };
  }

  async #sparseMap(pax: PaxRecords | undefined, type: EntryType): Promise<SparseMap | undefined> {
    const version = sparseVersion(pax);
    if (version === undefined) return undefined;
    // GNU tar takes another name from such records for links and directories too.
    if (type !== 'file') throw invalid('a sparse map belongs to what is no file');
    return await dataMapBytes(version, {
      pax: pax as PaxRecords,
      stored: () => this.#bodyLeft,
      maxBytes: this.#limits.maxBytes,
      block: async () => {
        const block = this.#bodyLeft < BLOCK ? Buffer.alloc(0) : await this.#source.exactly(BLOCK);
        if (block.length < BLOCK) throw invalid('a sparse map is cut short');
        this.#bodyLeft -= BLOCK;
        return block;
      },
    });
  }
}

/** Neither a metadata record nor the end. */
function isPlainEntry(block: Buffer): boolean {
  const flag = block[TYPE_FLAG] as number;
  return block[0] !== 0 && flag >= FILE_FLAG && flag <= LAST_FLAG;
}

export function pad(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

function entryType(flag: string, name: string): EntryType {
  const type = TYPES[flag];
  if (type === undefined) {
    throw invalid(`entry type ${JSON.stringify(flag)} is not one that layers may hold`);
  }
  // V7 archives have no directories but names that end in a slash.
  return flag === '\0' && name.endsWith('/') ? 'directory' : type;
}

function paxText(pax: PaxRecords | undefined, key: string): string | undefined {
  const value = pax?.get(key);
  if (value === undefined || value.length === 0) return undefined;
  const text = value.toString('latin1');
  if (text.includes('\0')) throw invalid(`the PAX ${key} holds a NUL`);
  return text;
}

/** Docker takes the long name where there are two, GNU tar that of the PAX record. */
function stated(record: string | undefined, long: string | undefined): string | undefined {
  // As Docker: an empty one counts for nothing.
  const name = long === '' ? undefined : long;
  if (record !== undefined && name !== undefined && record !== name)
    throw invalid('an entry has a long name and another one in a PAX record');
  return record ?? name;
}

function paxNumber(pax: PaxRecords | undefined, key: string): number | undefined {
  const text = paxText(pax, key);
  return text === undefined ? undefined : parsePaxNumber(text, key);
}

function collectXattrs(pax: PaxRecords | undefined): ReadonlyMap<string, Buffer> | undefined {
  if (pax === undefined) return undefined;
  let found: Map<string, Buffer> | undefined;
  for (const [key, value] of pax) {
    if (!key.startsWith(XATTR)) continue;
    found ??= new Map();
    found.set(key.slice(XATTR.length), value);
  }
  return found;
}

/** All entries in order. The body of an entry must be read before the next is asked for; unread it is skipped. */
export async function* readTar(
  source: AsyncIterable<Uint8Array>,
  limits: LayerLimits = DEFAULT_LIMITS,
): AsyncGenerator<{ readonly entry: TarEntry; readonly body: AsyncIterable<Buffer> }> {
  const reader = new TarReader(source, limits);
  try {
    for (;;) {
      const entry = reader.nextNow() ?? (await reader.next());
      if (entry === undefined) return;
      yield { entry, body: reader.body() };
    }
  } finally {
    await reader.close();
  }
}
