import { type FileHandle, open } from 'node:fs/promises';
import type { ByteString, TarEntry } from '../entry.ts';
import { damaged } from './errors.ts';
import {
  BLOCK,
  decodeDevice,
  decodeDirents,
  decodeFirstBlock,
  decodeInode,
  decodeXattrs,
  type FoundDirent,
  INLINE,
  INODE,
  type InodeFields,
  SLOT,
  type SuperFields,
} from './format.ts';

const PART = 1 << 20;

export interface FoundInode extends InodeFields {
  readonly nid: number;
}

/**
 * Reads images that `ErofsSink` wrote: a layer that links into its parents finds its targets so, without a mount.
 * What does not hold together is refused, and nothing is read outside the file.
 */
export class ErofsReader implements AsyncDisposable {
  readonly #handle: FileHandle;
  readonly #super: SuperFields;

  private constructor(handle: FileHandle, fields: SuperFields) {
    this.#handle = handle;
    this.#super = fields;
  }

  /** @throws OCI_STORE_INVALID */
  static async open(path: string): Promise<ErofsReader> {
    const handle = await open(path, 'r');
    try {
      const first = Buffer.alloc(BLOCK);
      const { bytesRead } = await handle.read(first, 0, BLOCK, 0);
      return new ErofsReader(handle, decodeFirstBlock(first.subarray(0, bytesRead)));
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  get root(): Promise<FoundInode> {
    return this.#inode(this.#super.rootNid);
  }

  /** Links are not followed; undefined where there is nothing. */
  async find(path: ByteString): Promise<FoundInode | undefined> {
    let inode = await this.root;
    for (const name of path.split('/')) {
      if (name === '' || name === '.') continue;
      if (inode.kind !== 'directory') return undefined;
      const entry = (await this.names(inode)).find((one) => one.name === name);
      if (entry === undefined) return undefined;
      inode = await this.#inode(entry.nid);
    }
    return inode;
  }

  /** In byte order, without `.` and `..`. */
  async names(directory: FoundInode): Promise<readonly FoundDirent[]> {
    const found: FoundDirent[] = [];
    for await (const block of this.#blocks(directory, BLOCK)) found.push(...decodeDirents(block));
    return found.filter(({ name }) => name !== '.' && name !== '..');
  }

  async child(entry: FoundDirent): Promise<FoundInode> {
    return await this.#inode(entry.nid);
  }

  async target(link: FoundInode): Promise<ByteString> {
    let text = '';
    for await (const part of this.body(link)) text += part.toString('latin1');
    return text;
  }

  /** As it would stand in a tar; a hard link is a file of its own here. */
  async entry(inode: FoundInode, path: ByteString): Promise<TarEntry> {
    const device = inode.kind === 'char' || inode.kind === 'block' ? decodeDevice(inode.start) : [0, 0];
    const xattrs =
      inode.xattrs === 0
        ? undefined
        : decodeXattrs(await this.#read(this.#at(inode.nid) + INODE, inode.xattrs));
    return {
      path,
      type: inode.kind,
      mode: inode.mode,
      uid: inode.uid,
      gid: inode.gid,
      size: inode.kind === 'file' ? inode.size : 0,
      mtime: { seconds: inode.seconds, nanos: inode.nanos },
      linkPath: inode.kind === 'symlink' ? await this.target(inode) : '',
      devMajor: device[0] as number,
      devMinor: device[1] as number,
      ...(xattrs === undefined ? {} : { xattrs }),
    };
  }

  body(inode: FoundInode): AsyncIterable<Buffer> {
    return this.#blocks(inode, PART);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }

  async *#blocks(inode: FoundInode, step: number): AsyncGenerator<Buffer> {
    const whole = inode.layout === INLINE ? inode.size - (inode.size % BLOCK) : inode.size;
    for (let at = 0; at < whole; at += step)
      yield await this.#read(inode.start * BLOCK + at, Math.min(step, whole - at));
    if (whole < inode.size)
      yield await this.#read(this.#at(inode.nid) + INODE + inode.xattrs, inode.size - whole);
  }

  #at(nid: number): number {
    return this.#super.metaBlock * BLOCK + nid * SLOT;
  }

  async #inode(nid: number): Promise<FoundInode> {
    return { ...decodeInode(await this.#read(this.#at(nid), INODE)), nid };
  }

  async #read(at: number, length: number): Promise<Buffer> {
    // An entry of a directory has 64 bits for where it leads to.
    if (!Number.isSafeInteger(at + length)) throw damaged('it leads outside of itself');
    const bytes = Buffer.allocUnsafe(length);
    for (let done = 0; done < length; ) {
      const { bytesRead } = await this.#handle.read(bytes, done, length - done, at + done);
      if (bytesRead === 0) throw damaged('it is cut short');
      done += bytesRead;
    }
    return bytes;
  }
}
