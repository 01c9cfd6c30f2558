import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { encodeEntry, endOfArchive, padding, type TarEntry } from '../layer/index.ts';
import { writing } from './layout-target.ts';

/** Largest size of a tar header without extensions. */
const MAX_SIZE = 0o77777777777;

/**
 * Writes an archive in one step: what stood at `path` stays until the new one is whole and on disk. The caller has its
 * turn at `path`.
 *
 * @throws OCI_ARCHIVE_WRITE, DISK_FULL, CANCELLED
 */
export async function writeArchive(
  path: string,
  signal: AbortSignal,
  fill: (tar: ArchiveWriter) => Promise<void>,
): Promise<void> {
  // The one that a killed copy has left, as no other is at work.
  const temporary = join(dirname(path), `.${basename(path)}.skycap-copy.part`);
  try {
    await rm(temporary, { force: true });
    const handle = await writing(path, open(temporary, 'wx', 0o644));
    try {
      const tar = new ArchiveWriter(handle, path, signal);
      await fill(tar);
      await tar.end();
      await writing(path, handle.sync());
    } finally {
      await handle.close();
    }
    await writing(path, rename(temporary, path));
  } finally {
    await rm(temporary, { force: true });
  }
}

/** A tar whose entries' sizes are known only when they have been written: the header is filled in afterwards. */
export class ArchiveWriter {
  readonly #handle: FileHandle;
  readonly #path: string;
  readonly #signal: AbortSignal;
  #at = 0;

  constructor(handle: FileHandle, path: string, signal: AbortSignal) {
    this.#handle = handle;
    this.#path = path;
    this.#signal = signal;
  }

  async put(name: string, bytes: Uint8Array): Promise<void> {
    await this.#write(encodeEntry(fileEntry(name, bytes.length)));
    await this.#write(bytes);
    await this.#write(padding(bytes.length));
  }

  /** @returns how many bytes came */
  async stream(name: string, bytes: AsyncIterable<Uint8Array>): Promise<number> {
    const header = this.#at;
    await this.#write(encodeEntry(fileEntry(name, 0)));
    const start = this.#at;
    for await (const chunk of bytes) {
      if (this.#signal.aborted) throw kernelError('CANCELLED', 'cancelled while an archive was written');
      await this.#write(chunk);
    }
    const size = this.#at - start;
    if (size > MAX_SIZE) {
      throw ociError('OCI_CONVERSION_IMPOSSIBLE', `a layer of ${size} bytes is too large for an archive`, {
        hint: 'copy the image to an oci: layout',
      });
    }
    await this.#write(padding(size));
    const filled = encodeEntry(fileEntry(name, size));
    await writing(this.#path, this.#handle.write(filled, 0, filled.length, header));
    return size;
  }

  async #write(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      const write = this.#handle.write(bytes, done, bytes.length - done, this.#at + done);
      done += (await writing(this.#path, write)).bytesWritten;
    }
    this.#at += bytes.length;
  }

  async end(): Promise<void> {
    await this.#write(endOfArchive());
  }
}

function fileEntry(path: string, size: number): TarEntry {
  return {
    path,
    type: 'file',
    mode: 0o644,
    uid: 0,
    gid: 0,
    size,
    mtime: { seconds: 0, nanos: 0 },
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
  };
}
