import { constants } from 'node:fs';
import { type FileHandle, stat } from 'node:fs/promises';
import { openBeneath } from '../../kernel/system/index.ts';
import { ociError } from '../errors.ts';

const CHUNK = 1 << 20;

/** Named bytes to be read from any place on: the files of a folder, or of an archive that lies on disk. */
export interface FileSet extends AsyncDisposable {
  /** For messages: the folder or the archive. */
  readonly path: string;
  size(name: string): Promise<number | undefined>;
  /** Whole, at most `limit` bytes; undefined where nothing has that name. */
  read(name: string, limit: number): Promise<Uint8Array | undefined>;
  open(name: string, offset: number): AsyncIterable<Uint8Array>;
}

export async function* readRange(handle: FileHandle, start: number, end: number): AsyncGenerator<Uint8Array> {
  for (let at = start; at < end; ) {
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK, end - at));
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield chunk.subarray(0, bytesRead);
  }
}

/**
 * The files of a folder that anyone may have made: no link is followed in it, and only regular files are read.
 *
 * @throws OCI_LAYOUT_INVALID where there is no such folder
 */
export async function openFolder(path: string): Promise<FileSet> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory() !== true) {
    throw ociError('OCI_LAYOUT_INVALID', `there is no folder ${path}`, { hint: 'check the path' });
  }
  const file = async (name: string): Promise<{ handle: FileHandle; size: number } | undefined> => {
    try {
      const handle = await openBeneath(path, name, constants.O_RDONLY);
      const status = await handle.stat();
      if (status.isFile()) return { handle, size: status.size };
      await handle.close();
    } catch (error) {
      const code = (error as { code?: string }).code;
      if (code === 'ENOENT') return undefined;
      if (code !== 'ELOOP' && code !== 'ENOTDIR' && code !== 'ENXIO') throw error;
    }
    throw ociError('OCI_LAYOUT_INVALID', `${name} in ${path} is not a regular file`, {
      hint: 'layouts hold no links; copy the image again with a tool that makes none',
    });
  };
  return {
    path,
    async size(name) {
      const opened = await file(name);
      await opened?.handle.close();
      return opened?.size;
    },
    async read(name, limit) {
      const opened = await file(name);
      if (opened === undefined) return undefined;
      await using handle = opened.handle;
      return await readWhole(handle, { start: 0, size: opened.size, limit, name: `${name} in ${path}` });
    },
    async *open(name, offset) {
      const opened = await file(name);
      if (opened === undefined) return;
      await using handle = opened.handle;
      yield* readRange(handle, offset, opened.size);
    },
    async [Symbol.asyncDispose]() {},
  };
}

export async function readWhole(
  handle: FileHandle,
  given: { readonly start: number; readonly size: number; readonly limit: number; readonly name: string },
): Promise<Uint8Array> {
  const { start, size, limit, name } = given;
  if (size > limit) {
    throw ociError('OCI_LAYOUT_INVALID', `${name} has ${size} bytes, more than the ${limit} allowed`, {
      hint: 'the image was written wrongly or is hostile',
    });
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of readRange(handle, start, start + size)) chunks.push(chunk);
  return Buffer.concat(chunks);
}
