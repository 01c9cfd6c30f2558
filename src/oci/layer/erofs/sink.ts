import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isSkycapError } from '../../../kernel/index.ts';
import { diskError } from '../../../kernel/system/index.ts';
import { ociError } from '../../errors.ts';
import { type ByteString, showPath, type TarEntry } from '../entry.ts';
import type { LayerSink } from '../sink.ts';
import { BlockWriter } from './block-writer.ts';
import { assertCopyable, MOST_XATTR_BYTES } from './copyable.ts';
import { NotErofs } from './errors.ts';
import { BLOCK, encodeDevice, encodeFirstBlock, type Kind } from './format.ts';
import { layOut, writeMetadata } from './metadata.ts';
import type { Inode } from './tree.ts';

const CAPABILITY = 'security.capability';

interface Opened {
  readonly handle: FileHandle;
  /** The same file past the page cache, where there is such a thing. */
  readonly direct: FileHandle | undefined;
  readonly xattrBytes: number | undefined;
}

/**
 * Writes a layer as one EROFS file in one pass: bodies as they come, then directories and inodes, the superblock in
 * its reserved place last. Only metadata stays in memory. The same layer with the same ids gives the same bytes.
 *
 * What cannot be one file is taken to its end nevertheless, so that everything else about it is known to be right, and
 * `finish` throws NotErofs.
 */
export class ErofsSink implements LayerSink {
  readonly copies = true;
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #direct: FileHandle | undefined;
  readonly #out: BlockWriter;
  readonly #root: Inode;
  readonly #directories = new Map<ByteString, Inode>();
  readonly #xattrBytes: number;
  #size = 0;
  #unfit: NotErofs | undefined;

  constructor(path: string, { handle, direct, xattrBytes = MOST_XATTR_BYTES }: Opened) {
    this.#xattrBytes = xattrBytes;
    this.#path = path;
    this.#handle = handle;
    this.#direct = direct;
    this.#out = new BlockWriter(handle, BLOCK, direct);
    this.#root = makeInode('directory');
    this.#directories.set('', this.#root);
  }

  /** Bytes of the file. */
  get size(): number {
    return this.#size;
  }

  async put(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    if (!this.#fits(entry)) return;
    try {
      if (entry.type === 'file') await this.#file(entry, next);
      else if (entry.type === 'link') this.#link(entry);
      else if (entry.type === 'directory') this.#directory(entry);
      else this.#add(entry.path, describe(makeInode(entry.type), entry));
    } catch (error) {
      throw this.#explain(error);
    }
  }

  /** As `chown` and the rest would do it on disk: capabilities go, other attributes stay unless they are named. */
  async restamp(entry: TarEntry): Promise<void> {
    if (!this.#fits(entry)) return;
    const { parent, name } = this.#place(entry.path);
    const inode = parent.children?.get(name);
    if (inode === undefined) throw new Error('nothing is there');
    const xattrs = new Map([...(inode.xattrs ?? []), ...(entry.xattrs ?? [])]);
    if (entry.xattrs?.has(CAPABILITY) !== true) xattrs.delete(CAPABILITY);
    if (this.#fits({ xattrs })) stamp(inode, { ...entry, xattrs });
  }

  async finish(): Promise<void> {
    try {
      if (this.#unfit !== undefined) throw this.#unfit;
      await this.#out.keepRest();
      const plan = layOut(this.#root, this.#out.position / BLOCK);
      await writeMetadata(plan, this.#out);
      await this.#out.flush();
      const first = encodeFirstBlock(plan.fields);
      await this.#handle.write(first, 0, first.length, 0);
      this.#size = plan.fields.blocks * BLOCK;
    } catch (error) {
      throw this.#explain(error);
    } finally {
      await this.#close();
    }
  }

  async abort(): Promise<void> {
    await this.#out.flush().catch(() => undefined);
    await this.#close().catch(() => undefined);
  }

  async #close(): Promise<void> {
    await this.#direct?.close();
    await this.#handle.close();
  }

  #fits({ xattrs }: Pick<TarEntry, 'xattrs'>): boolean {
    try {
      if (this.#unfit === undefined) assertCopyable(xattrs, this.#xattrBytes);
    } catch (error) {
      if (!(error instanceof NotErofs)) throw error;
      this.#unfit = error;
    }
    return this.#unfit === undefined;
  }

  async #file(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    const inode = describe(makeInode('file'), entry);
    const from = this.#out.position;
    inode.start = entry.size === 0 ? 0 : from / BLOCK;
    if (entry.size > 0) {
      for (let part = await next(); part !== undefined; part = await next()) {
        const full = this.#out.append(part);
        if (full !== undefined) await full;
      }
    }
    inode.size = this.#out.position - from;
    if (inode.size !== entry.size) throw new Error(`${inode.size} of ${entry.size} bytes came`);
    const full = this.#out.align();
    if (full !== undefined) await full;
    this.#add(entry.path, inode);
  }

  #link(entry: TarEntry): void {
    const { parent, name } = this.#place(entry.linkPath);
    const inode = parent.children?.get(name);
    if (inode === undefined || inode.kind === 'directory') throw new Error('a link to nothing');
    inode.links++;
    this.#add(entry.path, inode);
  }

  /** Told again, an entry replaces what was told of the directory before. */
  #directory(entry: TarEntry): void {
    const path = entry.path === '.' ? '' : entry.path;
    const known = this.#directories.get(path);
    const inode = describe(known ?? makeInode('directory'), entry);
    if (known !== undefined) return;
    this.#directories.set(path, inode);
    this.#add(path, inode);
  }

  #add(path: ByteString, inode: Inode): void {
    const { parent, name } = this.#place(path);
    const children = parent.children as Map<ByteString, Inode>;
    if (children.has(name)) throw new Error('it is there already');
    children.set(name, inode);
    if (inode.kind === 'directory') parent.links++;
  }

  #place(path: ByteString): { readonly parent: Inode; readonly name: ByteString } {
    const slash = path.lastIndexOf('/');
    const parent = this.#directories.get(slash === -1 ? '' : path.slice(0, slash));
    if (parent === undefined) throw new Error(`${showPath(path)} is in no directory`);
    return { parent, name: path.slice(slash + 1) };
  }

  /** What the layer's source throws comes through as it is: a cancelled run is none that could not be written. */
  #explain(error: unknown): unknown {
    if (isSkycapError(error)) return error;
    const full = diskError(error, this.#path);
    if (full !== error || typeof (error as { code?: unknown }).code !== 'string') return full;
    return ociError('OCI_LAYER_WRITE', `a layer could not be written: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/**
 * Makes the file, which must not be there.
 *
 * @param xattrBytes Of one file, at most.
 */
export async function openErofsSink(path: string, xattrBytes?: number): Promise<ErofsSink> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  try {
    const handle = await open(path, flags, 0o600);
    const direct = await open(`/proc/self/fd/${handle.fd}`, constants.O_WRONLY | constants.O_DIRECT).catch(
      () => undefined,
    );
    return new ErofsSink(path, { handle, direct, xattrBytes });
  } catch (error) {
    throw diskError(error, path);
  }
}

function makeInode(kind: Kind): Inode {
  return {
    kind,
    mode: 0o755,
    uid: 0,
    gid: 0,
    seconds: 0,
    nanos: 0,
    xattrs: undefined,
    size: 0,
    start: 0,
    links: kind === 'directory' ? 2 : 1,
    target: '',
    children: kind === 'directory' ? new Map() : undefined,
    at: -1,
    inline: false,
    ino: 0,
  };
}

function stamp(inode: Inode, entry: TarEntry): void {
  inode.mode = entry.mode;
  inode.uid = entry.uid;
  inode.gid = entry.gid;
  inode.seconds = entry.mtime.seconds;
  inode.nanos = entry.mtime.nanos;
  inode.xattrs = entry.xattrs?.size === 0 ? undefined : entry.xattrs;
}

function describe(inode: Inode, entry: TarEntry): Inode {
  stamp(inode, entry);
  if (inode.kind === 'symlink') {
    inode.target = entry.linkPath;
    inode.size = entry.linkPath.length;
  } else if (inode.kind === 'char' || inode.kind === 'block')
    inode.start = encodeDevice(entry.devMajor, entry.devMinor);
  return inode;
}
