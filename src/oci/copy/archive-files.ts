import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isSkycapError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { BLOCK, decodeHeader, isZeroBlock, type RawHeader } from '../layer/header.ts';
import { decodePax, parsePaxNumber } from '../layer/pax.ts';
import { pad } from '../layer/reader.ts';
import { type FileSet, readRange, readWhole } from './files.ts';

/** An image has a file a layer, and at most a few thousand layers. */
const MAX_ENTRIES = 100_000;
const MAX_META = 1 << 20;
const MAX_LINKS = 8;

interface Found {
  readonly start: number;
  readonly size: number;
  /** Name that a link leads to. */
  readonly link?: string;
}

/**
 * The files of a tar, to be read from any place on without unpacking: only the headers are read to find them. Links
 * inside the archive are followed, as `docker save` has made some.
 *
 * @param path An uncompressed tar.
 * @throws OCI_ARCHIVE_INVALID
 */
export async function openArchive(path: string): Promise<FileSet> {
  const handle = await openFile(path);
  try {
    const files = await scan(handle, path);
    return fileSet(path, handle, files);
  } catch (error) {
    await handle.close();
    if (isSkycapError(error, 'OCI_LAYER_INVALID')) throw malformed(path, error.message.replace(/^.*?: /, ''));
    throw error;
  }
}

export async function openFile(path: string): Promise<FileHandle> {
  try {
    // O_NONBLOCK: opening a FIFO would wait for a writer, and nothing could cancel it.
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    if ((await handle.stat()).isFile()) return handle;
    await handle.close();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code})`;
    throw ociError('OCI_ARCHIVE_INVALID', `${path}: ${why}`, { hint: 'check the path', cause: error });
  }
  throw ociError('OCI_ARCHIVE_INVALID', `${path} is not a file`, {
    hint: 'for a folder with an image layout write oci:FOLDER',
  });
}

function malformed(path: string, why: string): Error {
  return ociError('OCI_ARCHIVE_INVALID', `${path} is not an archive of images: ${why}`, {
    hint: 'make it again with docker save or skycap image copy',
  });
}

async function scan(handle: FileHandle, path: string): Promise<ReadonlyMap<string, Found>> {
  const files = new Map<string, Found>();
  const { size: end } = await handle.stat();
  let long: string | undefined;
  let pax: ReadonlyMap<string, Buffer> | undefined;
  let count = 0;
  for (let at = 0; ; ) {
    const block = await exactly(handle, at, BLOCK);
    if (block.length < BLOCK || isZeroBlock(block)) break;
    if (++count > MAX_ENTRIES) throw malformed(path, `it has more than ${MAX_ENTRIES} entries`);
    const header = decodeHeader(block);
    const start = at + BLOCK;
    if ('xgLK'.includes(header.typeFlag)) {
      if (header.size > MAX_META || header.size < 0) throw malformed(path, 'a metadata record is too long');
      const body = await exactly(handle, start, header.size);
      if (header.typeFlag === 'x') pax = decodePax(body);
      if (header.typeFlag === 'L') long = body.toString('latin1').replace(/\0.*$/s, '');
      at = start + header.size + pad(header.size);
      continue;
    }
    const stated = pax?.get('size')?.toString('latin1');
    const size =
      header.typeFlag === '0' || header.typeFlag === '\0'
        ? stated === undefined
          ? header.size
          : parsePaxNumber(stated, 'size')
        : 0;
    if (size < 0 || start + size > end) throw malformed(path, 'it ends inside a file');
    const name = cleanName(pax?.get('path')?.toString('latin1') ?? long ?? header.name);
    const found = entryOf(header, { name, start, size, link: pax?.get('linkpath')?.toString('latin1') });
    if (found !== undefined) {
      if (files.has(name)) throw malformed(path, `it has two files ${JSON.stringify(name)}`);
      files.set(name, found);
    }
    long = undefined;
    pax = undefined;
    at = start + size + pad(size);
  }
  return files;
}

function entryOf(
  header: RawHeader,
  given: {
    readonly name: string;
    readonly start: number;
    readonly size: number;
    readonly link: string | undefined;
  },
): Found | undefined {
  const { name, start, size } = given;
  if (header.typeFlag === '0' || header.typeFlag === '\0') return { start, size };
  const target = given.link ?? header.linkName;
  if (header.typeFlag === '1') return { start, size: 0, link: cleanName(target) };
  if (header.typeFlag !== '2') return undefined;
  const folder = name.slice(0, name.lastIndexOf('/') + 1);
  return { start, size: 0, link: cleanName(target.startsWith('/') ? target : folder + target) };
}

/** `./a/../b` as `b`; what would lead out of the archive stays inside. */
function cleanName(name: string): string {
  const parts: string[] = [];
  for (const part of name.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return parts.join('/');
}

async function exactly(handle: FileHandle, at: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  const { bytesRead } = await handle.read(buffer, 0, length, at);
  return buffer.subarray(0, bytesRead);
}

function fileSet(path: string, handle: FileHandle, files: ReadonlyMap<string, Found>): FileSet {
  const find = (name: string): Found | undefined => {
    let found = files.get(cleanName(name));
    for (let links = 0; found?.link !== undefined && links < MAX_LINKS; links += 1)
      found = files.get(found.link);
    return found?.link === undefined ? found : undefined;
  };
  return {
    path,
    size: async (name) => find(name)?.size,
    read: async (name, limit) => {
      const found = find(name);
      return found === undefined
        ? undefined
        : await readWhole(handle, { ...found, limit, name: `${name} in ${path}` });
    },
    open: (name, offset) => {
      const found = find(name) ?? { start: 0, size: 0 };
      return readRange(handle, found.start + offset, found.start + found.size);
    },
    [Symbol.asyncDispose]: () => handle.close(),
  };
}
