import { constants } from 'node:fs';
import { link, mkdir, open, symlink } from 'node:fs/promises';
import type { ByteString, TarEntry } from './entry.ts';
import type { LayerSink } from './sink.ts';
import { isRoot, pathIn, runOn, writeAttributes, writeFault } from './write-attributes.ts';

/**
 * Writes a layer by Node's own calls, for hosts without GNU tar. Slower for small files. Node can neither make
 * devices nor set extended attributes, so `mknod` and `setfattr` do that, and are asked for by name where missing.
 */
export class NodeSink implements LayerSink {
  readonly #root: string;
  readonly #directories = new Map<ByteString, TarEntry>();

  constructor(root: string) {
    this.#root = root;
  }

  async put(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    try {
      await this.#make(entry, next);
    } catch (error) {
      throw writeFault(error, this.#root, entry);
    }
  }

  async restamp(entry: TarEntry): Promise<void> {
    await writeAttributes(this.#root, entry);
  }

  async finish(): Promise<void> {
    // Deepest first: setting what is in a folder changes the folder's time.
    const byDepth = [...this.#directories.values()].toReversed();
    for (const entry of byDepth) await writeAttributes(this.#root, entry);
  }

  async abort(): Promise<void> {}

  async #make(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    const path = pathIn(this.#root, entry.path);
    if (entry.type === 'directory') {
      if (!this.#directories.has(entry.path) && !isRoot(entry.path)) await mkdir(path, 0o700);
      this.#directories.set(entry.path, entry);
      return;
    }
    if (entry.type === 'link') return await link(pathIn(this.#root, entry.linkPath), path);
    if (entry.type === 'symlink') await symlink(Buffer.from(entry.linkPath, 'latin1'), path);
    else if (entry.type === 'file') await writeBody(path, next);
    else await runOn('mknod', [path, ...nodeArguments(entry)]);
    await writeAttributes(this.#root, entry);
  }
}

export async function writeBody(path: Buffer, next: () => Promise<Buffer | undefined>): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const handle = await open(path, flags, 0o600);
  try {
    for (let part = await next(); part !== undefined; part = await next()) {
      for (let at = 0; at < part.length; ) at += (await handle.write(part, at)).bytesWritten;
    }
  } finally {
    await handle.close();
  }
}

function nodeArguments(entry: TarEntry): readonly string[] {
  if (entry.type === 'fifo') return ['p'];
  return [entry.type === 'char' ? 'c' : 'b', String(entry.devMajor), String(entry.devMinor)];
}
