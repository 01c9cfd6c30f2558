import { createHash } from 'node:crypto';
import type { LayerSink, TarEntry } from '../../../src/oci/layer/index.ts';

interface File {
  entry: TarEntry;
  sha: string;
}

/** What a writer was told of one name. */
export interface Told {
  readonly entry: TarEntry;
  readonly sha: string;
  /** The first, in byte order, of the names that its file has. */
  readonly first: string;
}

/** Hands on to a writer what it is told, and remembers what that means. */
export class Recorder implements LayerSink {
  readonly #inner: LayerSink;
  readonly #files = new Map<string, File>();

  constructor(inner: LayerSink) {
    this.#inner = inner;
  }

  get told(): readonly Told[] {
    const first = new Map<File, string>();
    return [...this.#files]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([path, file]) => {
        if (!first.has(file)) first.set(file, path);
        return { entry: { ...file.entry, path }, sha: file.sha, first: first.get(file) as string };
      });
  }

  async put(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    const hash = createHash('sha1');
    await this.#inner.put(entry, async () => {
      const part = await next();
      if (part !== undefined) hash.update(part);
      return part;
    });
    const path = entry.path === '.' ? '' : entry.path;
    const known = entry.type === 'link' ? this.#files.get(entry.linkPath) : this.#files.get(path);
    if (entry.type === 'link') this.#files.set(path, known as File);
    else if (known !== undefined) known.entry = entry;
    else this.#files.set(path, { entry, sha: hash.digest('hex') });
  }

  async restamp(entry: TarEntry): Promise<void> {
    await this.#inner.restamp?.(entry);
    const file = this.#files.get(entry.path) as File;
    const xattrs = new Map([...(file.entry.xattrs ?? []), ...(entry.xattrs ?? [])]);
    if (entry.xattrs?.has('security.capability') !== true) xattrs.delete('security.capability');
    const { mode, uid, gid, mtime } = entry;
    file.entry = { ...file.entry, mode, uid, gid, mtime, xattrs };
  }

  async finish(): Promise<void> {
    await this.#inner.finish();
  }

  async abort(): Promise<void> {
    await this.#inner.abort();
  }
}
