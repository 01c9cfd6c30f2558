import { chmod, link, mkdir, symlink, utimes } from 'node:fs/promises';
import type { ByteString, TarEntry } from './entry.ts';
import { writeBody } from './node-sink.ts';
import type { LayerSink } from './sink.ts';
import { isRoot, pathIn, writeFault } from './write-attributes.ts';

/** The permissions that a file or folder of a layer has for an ordinary user, who keeps access to it. */
export function plainMode({ type, mode }: Pick<TarEntry, 'type' | 'mode'>): number {
  return (mode & 0o777) | (type === 'directory' ? 0o700 : 0o600);
}

/**
 * Writes what an ordinary user can: files, folders and links, all of that user's and never closed to it. Devices,
 * pipes, whiteouts and attributes are left to the model (model.ts).
 */
export class PlainSink implements LayerSink {
  readonly #root: string;
  readonly #made = new Set<ByteString>();

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

  async restamp(): Promise<void> {}
  async finish(): Promise<void> {}
  async abort(): Promise<void> {}

  async #make(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    const path = pathIn(this.#root, entry.path);
    const { type } = entry;
    if (type === 'directory') {
      if (isRoot(entry.path)) return;
      if (!this.#made.has(entry.path)) await mkdir(path);
      await chmod(path, plainMode(entry));
    } else if (type === 'symlink') await symlink(Buffer.from(entry.linkPath, 'latin1'), path);
    else if (type === 'link') {
      // The file of a second name may be a device, which is not there.
      if (!this.#made.has(entry.linkPath)) return;
      await link(pathIn(this.#root, entry.linkPath), path);
    } else if (type === 'file') {
      await writeBody(path, next);
      await chmod(path, plainMode(entry));
      const seconds = Math.max(0, entry.mtime.seconds);
      await utimes(path, seconds, seconds);
    } else return;
    this.#made.add(entry.path);
  }
}
