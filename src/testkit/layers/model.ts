import { createHash } from 'node:crypto';
import type { LayerSink, LowerFile, TarEntry } from '../../oci/layer/index.ts';
import { bytesOf, type OracleEntry } from './oracle.ts';

const OPAQUE = 'trusted.overlay.opaque';

/** A file with all its names; bodies up to a megabyte are kept, so that it can be linked from a layer above. */
interface Inode {
  readonly entry: TarEntry;
  readonly sha256: string;
  readonly body: Buffer | undefined;
}

/** Keeps a layer as it would stand on disk: whiteouts in overlayfs form, a hard link as a second name. */
export class ModelSink implements LayerSink {
  readonly inodes = new Map<string, Inode>();
  #asked = 0;

  async put(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void> {
    if (entry.type === 'link') {
      const target = this.inodes.get(entry.linkPath);
      if (target === undefined) throw new Error(`a link to ${entry.linkPath}, which is not written`);
      this.inodes.set(entry.path, target);
      return;
    }
    const hash = createHash('sha256');
    const parts: Buffer[] = [];
    if (entry.size > 0) {
      for (let part = await next(); part !== undefined; part = await next()) {
        hash.update(part);
        if (entry.size < 1 << 20) parts.push(Buffer.from(part));
      }
    }
    const body = parts.length > 0 || entry.size === 0 ? Buffer.concat(parts) : undefined;
    this.#keep(entry, { sha256: hash.digest('hex'), body });
  }

  /** Has no room for each fourth: both ways are gone. */
  putNow(entry: TarEntry, body: Buffer): boolean {
    this.#asked++;
    if (entry.type === 'link' || this.#asked % 4 === 0) return false;
    const sha256 = createHash('sha256').update(body).digest('hex');
    this.#keep(entry, { sha256, body: entry.size < 1 << 20 ? Buffer.from(body) : undefined });
    return true;
  }

  #keep(entry: TarEntry, rest: Omit<Inode, 'entry'>): void {
    this.inodes.set(entry.path === '.' ? '' : entry.path, { entry, ...rest });
  }

  async restamp(entry: TarEntry): Promise<void> {
    const before = this.inodes.get(entry.path) as Inode;
    const { type, mode, uid, gid, mtime, xattrs } = entry;
    const after = {
      ...before.entry,
      type,
      mode,
      uid,
      gid,
      mtime,
      ...(xattrs === undefined ? {} : { xattrs }),
    };
    const inode = { ...before, entry: after };
    for (const [path, one] of this.inodes) if (one === before) this.inodes.set(path, inode);
  }

  async finish(): Promise<void> {}
  async abort(): Promise<void> {}
}

/** What overlayfs makes of layers, lowest first. The root is the empty string. */
export class MergedTree {
  readonly #inodes = new Map<string, Inode>();
  /** The layer that was added last, by itself. */
  last: ModelSink | undefined;

  add(layer: ModelSink): void {
    this.last = layer;
    // Parents before children: "/" sorts before everything that a name may go on with but control characters.
    const paths = sortedBy([...layer.inodes.keys()], (path) => path.replaceAll('/', '\0'));
    for (const path of paths) {
      const inode = layer.inodes.get(path) as Inode;
      const { entry } = inode;
      const gone = entry.type === 'char' && entry.devMajor === 0 && entry.devMinor === 0;
      const before = this.#inodes.get(path);
      const merged =
        entry.type === 'directory' && before?.entry.type === 'directory' && !entry.xattrs?.has(OPAQUE);
      if (before !== undefined && !merged) this.#remove(path);
      if (!gone) this.#inodes.set(path, inode);
    }
  }

  #remove(path: string): void {
    for (const name of [...this.#inodes.keys()]) {
      if (name === path || path === '' || name.startsWith(`${path}/`)) this.#inodes.delete(name);
    }
  }

  get root(): TarEntry | undefined {
    return this.#inodes.get('')?.entry;
  }

  /** Looks a hard link's target up, through symlinks of the merged tree. */
  async lower(path: string): Promise<LowerFile | undefined> {
    let rest = path.split('/');
    let done: string[] = [];
    for (let steps = 0; rest.length > 0 && steps < 200; steps++) {
      const [part, ...after] = rest as [string, ...string[]];
      rest = after;
      if (part === '' || part === '.') continue;
      if (part === '..') {
        done.pop();
        continue;
      }
      const here = [...done, part].join('/');
      const inode = this.#inodes.get(here);
      if (inode === undefined) return undefined;
      const { entry, body } = inode;
      if (rest.length === 0) {
        return { path: here, entry: { ...entry, path: here }, body: () => once(body ?? Buffer.alloc(0)) };
      }
      if (entry.type === 'symlink') {
        if (entry.linkPath.startsWith('/')) done = [];
        rest = [...entry.linkPath.split('/'), ...rest];
      } else if (entry.type === 'directory') done.push(part);
      else return undefined;
    }
    return undefined;
  }

  /** In the form of the recorded trees, hard links by the names that share a file. */
  entries(): readonly OracleEntry[] {
    const groups = new Map<Inode, number>();
    const counts = new Map<Inode, number>();
    for (const inode of this.#inodes.values()) counts.set(inode, (counts.get(inode) ?? 0) + 1);
    const out: OracleEntry[] = [];
    for (const [path, inode] of this.#inodes) {
      if (path === '') continue;
      if ((counts.get(inode) as number) > 1 && !groups.has(inode)) groups.set(inode, groups.size + 1);
      out.push(recorded(path, inode, groups.get(inode)));
    }
    return out;
  }
}

const TYPES: Readonly<Record<TarEntry['type'], string>> = {
  file: 'file',
  directory: 'dir',
  symlink: 'symlink',
  link: 'link',
  char: 'char',
  block: 'block',
  fifo: 'fifo',
};

function recorded(path: string, { entry, sha256 }: Inode, hardlink: number | undefined): OracleEntry {
  const xattrs = [...(entry.xattrs ?? [])].filter(([name]) => name !== OPAQUE);
  return {
    path: '',
    path_b64: Buffer.from(path, 'latin1').toString('base64'),
    type: TYPES[entry.type],
    mode: entry.mode.toString(8).padStart(4, '0'),
    uid: entry.uid,
    gid: entry.gid,
    mtime: String(BigInt(entry.mtime.seconds) * 1_000_000_000n + BigInt(entry.mtime.nanos)),
    ...(entry.type === 'file' ? { size: entry.size, sha256 } : {}),
    ...(entry.type === 'symlink'
      ? { target: '', target_b64: Buffer.from(entry.linkPath, 'latin1').toString('base64') }
      : {}),
    ...(entry.type === 'char' || entry.type === 'block'
      ? { dev: `${entry.devMajor}:${entry.devMinor}` }
      : {}),
    ...(hardlink === undefined ? {} : { hardlink }),
    ...(xattrs.length === 0
      ? {}
      : { xattrs: Object.fromEntries(xattrs.map(([name, value]) => [name, value.toString('base64')])) }),
  };
}

/**
 * One line a name, so that two trees can be compared by eye. Where the recorded time is that of the extraction, ours
 * is whatever it is.
 */
export function linesOf(entries: readonly OracleEntry[], times?: readonly OracleEntry[]): readonly string[] {
  const now = new Set(times?.filter((entry) => entry.mtime === 'now').map(bytesOf));
  const names = new Map<number, string[]>();
  for (const entry of entries) {
    if (entry.hardlink === undefined) continue;
    names.set(entry.hardlink, [...(names.get(entry.hardlink) ?? []), bytesOf(entry)]);
  }
  const lines = entries.map((entry) => {
    const path = bytesOf(entry);
    const target = entry.target_b64 ?? (entry.target === undefined ? undefined : b64(entry.target));
    const xattrs = Object.entries(entry.xattrs ?? {}).sort();
    const linked = entry.hardlink === undefined ? undefined : names.get(entry.hardlink)?.toSorted();
    return JSON.stringify([
      path,
      entry.type,
      entry.mode,
      `${entry.uid}:${entry.gid}`,
      now.has(path) || entry.mtime === 'now' ? 'now' : entry.mtime,
      ...(entry.type === 'file' ? [entry.size, entry.sha256] : []),
      ...(target === undefined ? [] : [`-> ${Buffer.from(target, 'base64').toString('latin1')}`]),
      ...(entry.dev === undefined ? [] : [entry.dev]),
      ...(linked === undefined || linked.length < 2 ? [] : [`= ${linked.join(' ')}`]),
      ...(xattrs.length === 0 ? [] : [xattrs]),
    ]);
  });
  return lines.sort();
}

/**
 * The digest that stands for very large trees: sorted by path bytes, JSON with sorted keys. Directories without an
 * entry of their own have the time of extraction there.
 */
export function treeDigest(entries: readonly OracleEntry[], implied: ReadonlySet<string>): string {
  const items = sortedBy(entries, bytesOf).map((entry) => {
    const path = bytesOf(entry);
    const now = implied.has(path);
    const { mode, uid, gid, type, size, sha256 } = entry;
    const fields: Readonly<Record<string, unknown>> = { gid, mode, mtime: 0, path, sha256, size, type, uid };
    const pairs = Object.entries(fields).filter(([, value]) => value !== undefined);
    const shown = ([key, value]: readonly [string, unknown]): string =>
      `"${key}":${key === 'mtime' ? (now ? '"now"' : entry.mtime) : JSON.stringify(value)}`;
    return `{${pairs.map(shown).join(',')}}`;
  });
  return createHash('sha256')
    .update(`[${items.join(',')}]`)
    .digest('hex');
}

function sortedBy<T>(items: readonly T[], key: (item: T) => string): readonly T[] {
  const keyed = items.map((item) => [key(item), item] as const);
  return keyed.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, item]) => item);
}

function b64(text: string): string {
  return Buffer.from(text).toString('base64');
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}
