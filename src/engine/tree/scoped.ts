import { closeSync, fstatSync, readSync } from 'node:fs';
import { Folder, type Owner, parts } from './folder.ts';

/** As many links as the kernel follows (path_resolution(7)). */
const MAX_LINKS = 40;

/**
 * Where a path of a container leads, links resolved as a process inside would see them: never out of `root`.
 * The names that exist are a chain of folders without links; `missing` are the names after it.
 * The tree must not change meanwhile.
 */
export interface Resolved {
  /** Names without links, from the root. */
  readonly real: readonly string[];
  /** What does not exist below the folder `real`; empty if all does. */
  readonly missing: readonly string[];
}

export function resolveInside(root: string, path: string): Resolved {
  using walk = Walk.to(root, path);
  return { real: walk.real, missing: walk.missing };
}

/** A path followed as far as it exists, with the last folder of it open: what is missing can be made right there. */
class Walk implements Disposable, Resolved {
  readonly #base: Folder;
  readonly #stack: { readonly folder: Folder; readonly name: string }[] = [];
  /** What exists in the way of the rest, or as the end of the path, and is no folder. */
  #file: string | undefined;
  missing: readonly string[] = [];

  private constructor(root: string) {
    this.#base = Folder.open(root);
  }

  static to(root: string, path: string): Walk {
    const walk = new Walk(root);
    try {
      walk.#follow(path);
      return walk;
    } catch (cause) {
      walk[Symbol.dispose]();
      throw cause;
    }
  }

  get real(): readonly string[] {
    const names = this.#stack.map((step) => step.name);
    return this.#file === undefined ? names : [...names, this.#file];
  }

  /** The last folder that exists; the walk goes on owning it. */
  get folder(): Folder {
    return this.#stack.at(-1)?.folder ?? this.#base;
  }

  /** Makes folders below, each owned by `owner` and open afterwards. @throws ENOTDIR where a file is in the way */
  make(names: readonly string[], owner: Owner): void {
    if (this.#file !== undefined)
      throw Object.assign(new Error(`/${this.real.join('/')} is not a folder`), { code: 'ENOTDIR' });
    for (const name of names) this.#stack.push({ folder: this.folder.makeChild(name, 0o755, owner), name });
  }

  [Symbol.dispose](): void {
    for (const step of this.#stack) step.folder[Symbol.dispose]();
    this.#base[Symbol.dispose]();
  }

  #follow(path: string): void {
    let queue = parts(path);
    let links = 0;
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
      if (name === '..') {
        this.#stack.pop()?.folder[Symbol.dispose]();
        continue;
      }
      const found = this.folder.stat(name);
      if (found === undefined) {
        this.missing = [name, ...queue];
        return;
      }
      if (found.isSymbolicLink()) {
        links += 1;
        if (links > MAX_LINKS) throw Object.assign(new Error(`too many links: ${path}`), { code: 'ELOOP' });
        const target = this.folder.readLink(name);
        if (target.startsWith('/'))
          while (this.#stack.length > 0) this.#stack.pop()?.folder[Symbol.dispose]();
        queue = [...parts(target), ...queue];
      } else if (found.isDirectory()) {
        this.#stack.push({ folder: this.folder.child(name), name });
      } else {
        this.#file = name;
        this.missing = queue;
        return;
      }
    }
  }
}

/** A regular file of an image, at most `maxBytes` of it; undefined where there is none. */
export function readInside(root: string, path: string, maxBytes = 4 << 20): Buffer | undefined {
  const { real, missing } = resolveInside(root, path);
  const name = real.at(-1);
  if (missing.length > 0 || name === undefined) return undefined;
  using folder = descendReal(root, real.slice(0, -1));
  if (folder.stat(name)?.isFile() !== true) return undefined;
  const fd = folder.openFile(name);
  try {
    return readStart(fd, maxBytes);
  } finally {
    closeSync(fd);
  }
}

/** No more is read than wanted: an image's file may be larger than memory. */
function readStart(fd: number, maxBytes: number): Buffer {
  const bytes = Buffer.allocUnsafe(Math.min(fstatSync(fd).size, maxBytes));
  let length = 0;
  while (length < bytes.length) {
    const count = readSync(fd, bytes, length, bytes.length - length, length);
    if (count === 0) break;
    length += count;
  }
  return bytes.subarray(0, length);
}

const KERNEL_FOLDERS: ReadonlySet<string | undefined> = new Set([undefined, 'proc', 'sys', 'dev']);

/** An image's links must not lead what is mounted to where the kernel's files are, or over the whole root. */
function refuseKernelFolder(path: string, { real, missing }: Resolved): void {
  const names = [...real, ...missing];
  if (!KERNEL_FOLDERS.has(names[0]) || names[0] === parts(path)[0]) return;
  const message = `${path} is at /${names.join('/')}, where the image's links lead`;
  throw Object.assign(new Error(message), { code: 'ELOOP' });
}

export interface MadePoint {
  /** Where it is: names without links, from the root. */
  readonly real: readonly string[];
  /** What was made for it, outermost first, each as such names. */
  readonly made: readonly (readonly string[])[];
}

/**
 * Makes what something is to be mounted on: a folder, or an empty file; what exists stays as it is.
 *
 * @throws ENOTDIR where a file is in the way, or in the place of a folder
 */
export function makePointInside(
  root: string,
  path: string,
  point: { readonly kind: 'folder' | 'file'; readonly owner: Owner; readonly parentOwner: Owner },
): MadePoint {
  using walk = Walk.to(root, path);
  refuseKernelFolder(path, walk);
  const name = walk.missing.at(-1);
  if (name === undefined) {
    if (point.kind === 'folder') walk.make([], point.owner);
    return { real: walk.real, made: [] };
  }
  const { real, missing } = { real: walk.real, missing: walk.missing };
  walk.make(walk.missing.slice(0, -1), point.parentOwner);
  if (point.kind === 'folder') walk.make([name], point.owner);
  else walk.folder.writeNew(name, new Uint8Array(), { ...point.owner, mode: 0o600 });
  const made = missing.map((_, at) => [...real, ...missing.slice(0, at + 1)]);
  return { real: [...real, ...missing], made };
}

/** Writes a file into a tree, replacing what is there; links on the way are followed inside, at the end replaced. */
export function writeInside(
  root: string,
  path: string,
  file: {
    readonly content: Uint8Array;
    readonly mode: number;
    readonly owner: Owner;
    readonly parentOwner: Owner;
  },
): void {
  const names = parts(path);
  const name = names.pop() as string;
  const folder = `/${names.join('/')}`;
  using walk = Walk.to(root, folder);
  refuseKernelFolder(folder, walk);
  walk.make(walk.missing, file.parentOwner);
  walk.folder.remove(name);
  walk.folder.writeNew(name, file.content, { ...file.owner, mode: file.mode });
}

export function descendReal(root: string, real: readonly string[]): Folder {
  let folder = Folder.open(root);
  for (const name of real) {
    using above = folder;
    folder = above.child(name);
  }
  return folder;
}
