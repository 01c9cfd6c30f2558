import type { IdMap } from '../port.ts';
import { keepXattrs, shiftId } from './attributes.ts';
import { type ByteString, showPath, type TarEntry, type Time } from './entry.ts';
import { type LayerLimits, overLimit, unsafe } from './limits.ts';
import { cleanPath, LayerTree, type Node } from './tree.ts';

const WHITEOUT = '.wh.';
const META = '.wh..wh.';
const OPAQUE = '.wh..wh..opq';
const EPOCH: Time = { seconds: 0, nanos: 0 };
const OVERLAY_OPAQUE = 'trusted.overlay.opaque';

/** A file of the layers below, as it has to be written again into this layer. */
export interface LowerFile {
  readonly path: ByteString;
  /** Owner and xattrs as in the image, not shifted. */
  readonly entry: TarEntry;
  readonly body: () => AsyncIterable<Buffer>;
}

export interface CheckOptions {
  readonly map: IdMap | undefined;
  readonly limits: LayerLimits;
  /** Looks a hard link's target up in the layers below. Without it such a layer ends in `NeedsParents`. */
  readonly lower?: ((path: ByteString) => Promise<LowerFile | undefined>) | undefined;
}

/** The layer links into its parents, so it cannot be unpacked on its own. Never reaches a user. */
export class NeedsParents extends Error {
  constructor(path: ByteString) {
    super(`hard link to ${showPath(path)} of a lower layer`);
    this.name = 'NeedsParents';
  }
}

/** One thing to write: `body` says whose bytes follow. */
export interface CheckedEntry {
  readonly entry: TarEntry;
  readonly body?: () => AsyncIterable<Buffer>;
  /** Nothing new: the file at this path gets these attributes, whatever other names it has. */
  readonly restamp?: true;
}

/** A file of the layers below that was written again under the name that links to it. */
interface Borrowed {
  readonly name: ByteString;
  /** Directories that its own name lies in, as they are below. */
  readonly parents: readonly TarEntry[];
}

/**
 * Checks the entries of an untrusted layer one by one and gives them back as they may be written, in order:
 * every path is below the root and made of real directories of this layer, every hard link leads to a file written
 * before, ids are shifted, and whiteouts have the form that overlayfs understands (image-spec, layer.md,
 * "Representing Changes"). What is ambiguous is refused.
 *
 * Memory: one map entry for each path.
 */
export class LayerChecker {
  readonly #tree = new LayerTree();
  readonly #whiteouts = new Map<ByteString, ByteString>();
  readonly #opaque = new Set<ByteString>();
  readonly #borrowed = new Map<ByteString, Borrowed>();
  readonly #options: CheckOptions;
  #count = 0;
  #implied = 0;

  constructor(options: CheckOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#count;
  }

  /**
   * At once but for hard links, which may lead to the layers below.
   *
   * @throws OCI_LAYER_UNSAFE, OCI_LAYER_LIMIT, NeedsParents
   */
  take(entry: TarEntry): readonly CheckedEntry[] | Promise<readonly CheckedEntry[]> {
    const { limits } = this.#options;
    this.#count++;
    this.#checkCount();
    const clean = cleanPath(entry.path, limits);
    if (clean === '') return this.#root(entry);
    if (clean.slice(clean.lastIndexOf('/') + 1).startsWith(WHITEOUT) && this.#tree.isBelowLeaf(clean))
      return [];
    const path = this.#tree.resolveParent(clean);
    const name = path.slice(path.lastIndexOf('/') + 1);
    if (name.startsWith(WHITEOUT)) return this.#whiteout(path, name);
    return this.#ordinary(path, entry);
  }

  /** What can be written only now: whiteouts, directories that hide what is below them, names of borrowed files. */
  finish(): readonly CheckedEntry[] {
    const out: CheckedEntry[] = [];
    const gone = new Set<ByteString>();
    for (const path of [...this.#whiteouts.keys()].sort()) {
      const node = this.#tree.get(path);
      // A whiteout hides lower layers only: what this layer itself has stays.
      if (node?.kind === 'directory') this.#opaque.add(path);
      else if (node === undefined && !within(path, gone) && !this.#tree.isBelowLeaf(path)) {
        gone.add(path);
        out.push(...this.#writeWhiteout(path, this.#whiteouts.get(path) as ByteString));
      }
    }
    for (const path of this.#opaque) if (!within(path, gone)) out.push(...this.#writeOpaque(path));
    for (const [path, borrowed] of this.#borrowed) {
      if (!gone.has(path) && !within(path, gone) && !within(path, this.#opaque))
        out.push(...this.#giveBack(path, borrowed));
    }
    const root = this.#tree.get('') as Node & { kind: 'directory' };
    if (root.entry === undefined && !this.#opaque.has('')) {
      out.push({ entry: this.#attributes(impliedDirectory('.'), '.') });
    }
    return out;
  }

  /** Directories that hide the layers below, once `finish` has run; the root is the empty string. */
  get opaque(): readonly ByteString[] {
    return [...this.#opaque];
  }

  #root(entry: TarEntry): readonly CheckedEntry[] {
    if (entry.type !== 'directory') throw unsafe(`the root of the layer is a ${entry.type}`);
    const root = this.#tree.get('') as Node & { kind: 'directory' };
    if (root.entry !== undefined) throw unsafe('the root is there twice');
    root.entry = this.#attributes(entry, '.');
    return [{ entry: root.entry }];
  }

  #whiteout(path: ByteString, name: string): readonly CheckedEntry[] {
    const slash = path.lastIndexOf('/');
    const parent = slash === -1 ? '' : path.slice(0, slash);
    if (name === OPAQUE) {
      if (this.#opaque.has(parent)) throw unsafe(`${showPath(path)} is there twice`);
      this.#opaque.add(parent);
      return [];
    }
    // Leftovers of AUFS, such as .wh..wh.plnk.
    if (name.startsWith(META)) return [];
    const target = name.slice(WHITEOUT.length);
    if (target === '' || target === '.' || target === '..')
      throw unsafe(`${showPath(path)} is no whiteout of anything`);
    const hidden = parent === '' ? target : `${parent}/${target}`;
    if (this.#whiteouts.has(hidden)) throw unsafe(`${showPath(path)} is there twice`);
    this.#whiteouts.set(hidden, path);
    return [];
  }

  #ordinary(path: ByteString, entry: TarEntry): readonly CheckedEntry[] | Promise<readonly CheckedEntry[]> {
    const before = this.#parents(path);
    const existing = this.#tree.get(path);
    if (existing !== undefined && !isImplied(existing, entry))
      throw unsafe(`${showPath(path)} is there twice`);
    if (entry.type === 'link') return this.#link(path, entry).then((linked) => [...before, ...linked]);
    if (entry.type === 'char' && entry.devMajor === 0 && entry.devMinor === 0) {
      throw unsafe(`${showPath(path)} is the character device 0:0, which overlayfs takes for a deletion`);
    }
    const checked = this.#attributes(entry, path);
    this.#remember(path, checked, existing);
    return before.length === 0 ? [{ entry: checked }] : [...before, { entry: checked }];
  }

  #remember(path: ByteString, entry: TarEntry, existing: Node | undefined): void {
    if (entry.type === 'symlink') {
      const { limits } = this.#options;
      if (entry.linkPath === '' || entry.linkPath.includes('\0'))
        throw unsafe(`${showPath(path)} is a link to nothing`);
      if (entry.linkPath.length > limits.maxPathBytes)
        throw overLimit(`a link target of ${entry.linkPath.length} bytes`);
      this.#tree.set(path, { kind: 'symlink', target: entry.linkPath, stamp: stampOf(entry) });
    } else if (entry.type === 'directory') {
      if (existing?.kind === 'directory') {
        this.#implied--;
        existing.entry = entry;
      } else this.#tree.set(path, { kind: 'directory', entry });
    } else this.#tree.set(path, this.#tree.leaf(entry.type, stampOf(entry)));
  }

  async #link(path: ByteString, entry: TarEntry): Promise<readonly CheckedEntry[]> {
    const target = this.#tree.resolveParent(cleanPath(entry.linkPath, this.#options.limits));
    if (target === path) throw unsafe(`${showPath(path)} is a hard link to itself`);
    const node = this.#tree.get(target);
    if (node?.kind === 'directory') throw unsafe(`${showPath(path)} is a hard link to a directory`);
    if (node === undefined) return await this.#linkBelow(path, { entry, target });
    return this.#linkHere(path, { entry, target });
  }

  /** A second name. What its entry says of mode, owner, time and attributes counts for the file, as with Docker. */
  #linkHere(
    path: ByteString,
    { entry, target }: { readonly entry: TarEntry; readonly target: ByteString },
  ): readonly CheckedEntry[] {
    const node = this.#tree.share(target);
    this.#tree.set(path, node);
    const link = linkTo(target, path);
    const own = { ...entry, type: node.kind === 'symlink' ? ('symlink' as const) : node.type };
    const checked = this.#attributes(own, path);
    const stamp = stampOf(checked);
    if (stamp === node.stamp && checked.xattrs === undefined) return [{ entry: link }];
    node.stamp = stamp;
    return [{ entry: link }, { entry: { ...checked, size: 0 }, restamp: true }];
  }

  /**
   * A hard link cannot cross layers, so its target is written again into this one, under the new name. Whether the old
   * name is to lead there too is known at the end: this layer may delete or replace it.
   */
  async #linkBelow(
    path: ByteString,
    { entry, target }: { readonly entry: TarEntry; readonly target: ByteString },
  ): Promise<readonly CheckedEntry[]> {
    const { lower } = this.#options;
    if (lower === undefined) throw new NeedsParents(target);
    const found = this.#whiteouts.has(target) ? undefined : await lower(target);
    if (found === undefined)
      throw unsafe(`${showPath(path)} is a hard link to ${showPath(target)}, which is not there`);
    if (found.entry.type === 'directory') throw unsafe(`${showPath(path)} is a hard link to a directory`);
    const here = this.#tree.get(found.path) === undefined ? this.#borrowed.get(found.path)?.name : found.path;
    if (here !== undefined) return this.#linkHere(path, { entry, target: here });
    const checked = this.#attributes(found.entry, path);
    this.#remember(path, checked, undefined);
    this.#borrowed.set(found.path, { name: path, parents: await this.#parentsBelow(found.path, lower) });
    return [{ entry: checked, body: found.body }];
  }

  async #parentsBelow(
    path: ByteString,
    lower: NonNullable<CheckOptions['lower']>,
  ): Promise<readonly TarEntry[]> {
    const out: TarEntry[] = [];
    for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1)) {
      const parent = path.slice(0, slash);
      const found = await lower(parent);
      out.push(
        found?.entry.type === 'directory' ? { ...found.entry, path: parent } : impliedDirectory(parent),
      );
    }
    return out;
  }

  /** Both names are one file: the old one too, unless this layer has something else there. */
  #giveBack(path: ByteString, { name, parents }: Borrowed): readonly CheckedEntry[] {
    if (this.#tree.get(path) !== undefined) return [];
    const out: CheckedEntry[] = [];
    for (const entry of parents) {
      const node = this.#tree.get(entry.path);
      if (node !== undefined && node.kind !== 'directory') return [];
      if (node !== undefined) continue;
      const checked = this.#attributes(entry, entry.path);
      this.#tree.set(entry.path, { kind: 'directory', entry: checked });
      out.push({ entry: checked });
    }
    this.#tree.set(path, this.#tree.share(name));
    return [...out, { entry: linkTo(name, path) }];
  }

  /** Directories on the way that no entry has named so far: 0755, owned by the container's root. */
  #parents(path: ByteString): readonly CheckedEntry[] {
    const slash = path.lastIndexOf('/');
    if (slash === -1) return [];
    const parent = path.slice(0, slash);
    const node = this.#tree.get(parent);
    if (node?.kind === 'directory') return [];
    if (node !== undefined)
      throw unsafe(`${showPath(path)} lies below ${showPath(parent)}, which is not a directory`);
    const above = this.#parents(parent);
    this.#implied++;
    this.#checkCount();
    const entry = this.#attributes(impliedDirectory(parent), parent);
    this.#tree.set(parent, { kind: 'directory', entry: undefined });
    return [...above, { entry }];
  }

  /** A deep name can ask for a thousand directories. */
  #checkCount(): void {
    const { maxEntries } = this.#options.limits;
    if (this.#count + this.#implied > maxEntries)
      throw overLimit(`more than ${maxEntries} entries and directories that none names`);
  }

  #attributes(entry: TarEntry, path: ByteString): TarEntry {
    const { map } = this.#options;
    const xattrs = keepXattrs(entry, map);
    const device = entry.type === 'char' || entry.type === 'block';
    return {
      path,
      type: entry.type,
      mode: entry.type === 'symlink' ? 0o777 : entry.mode,
      uid: shiftId(entry.uid, map, entry),
      gid: shiftId(entry.gid, map, entry),
      size: entry.size,
      mtime: entry.mtime,
      linkPath: entry.linkPath,
      devMajor: device ? entry.devMajor : 0,
      devMinor: device ? entry.devMinor : 0,
      ...(xattrs === undefined ? {} : { xattrs }),
    };
  }

  #writeWhiteout(path: ByteString, shown: ByteString): readonly CheckedEntry[] {
    const before = this.#parents(path);
    const device: TarEntry = { ...impliedDirectory(path), type: 'char', mode: 0 };
    if (path.length > this.#options.limits.maxPathBytes) throw overLimit(`a name of ${shown.length} bytes`);
    return [...before, { entry: this.#attributes(device, path) }];
  }

  #writeOpaque(path: ByteString): readonly CheckedEntry[] {
    const node = this.#tree.get(path);
    if (node !== undefined && node.kind !== 'directory')
      throw unsafe(`${showPath(path)} is opaque, and not a directory`);
    const before = node === undefined ? this.#parents(`${path}/x`) : [];
    const known = node?.entry ?? this.#attributes(impliedDirectory(path), path === '' ? '.' : path);
    const xattrs = new Map([...(known.xattrs ?? []), [OVERLAY_OPAQUE, Buffer.from('y')] as const]);
    return [...before.slice(0, -1), { entry: { ...known, xattrs } }];
  }
}

function impliedDirectory(path: ByteString): TarEntry {
  return {
    path,
    type: 'directory',
    mode: 0o755,
    uid: 0,
    gid: 0,
    size: 0,
    mtime: EPOCH,
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
  };
}

/** A directory may be named by an entry of its own after the files in it were. */
function isImplied(node: Node, entry: TarEntry): boolean {
  return node.kind === 'directory' && node.entry === undefined && entry.type === 'directory';
}

function linkTo(target: ByteString, path: ByteString): TarEntry {
  return { ...impliedDirectory(path), type: 'link', linkPath: target, mode: 0o644 };
}

/** What a hard link's entry may state differently from its file's. */
function stampOf(entry: TarEntry): string {
  return `${entry.mode} ${entry.uid} ${entry.gid} ${entry.mtime.seconds} ${entry.mtime.nanos}`;
}

/** Is some directory above the path in the set? */
function within(path: ByteString, set: ReadonlySet<ByteString>): boolean {
  if (set.has('')) return true;
  for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1)) {
    if (set.has(path.slice(0, slash))) return true;
  }
  return false;
}
