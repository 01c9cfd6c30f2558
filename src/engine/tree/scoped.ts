import { closeSync, readFileSync } from 'node:fs';
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
  const stack: { folder: Folder; name: string }[] = [];
  let queue = parts(path);
  let links = 0;
  using base = Folder.open(root);
  try {
    while (queue.length > 0) {
      const [name, ...rest] = queue as [string, ...string[]];
      queue = rest;
      if (name === '..') {
        stack.pop()?.folder[Symbol.dispose]();
        continue;
      }
      const here = stack.at(-1)?.folder ?? base;
      const found = here.stat(name);
      const real = stack.map((step) => step.name);
      if (found === undefined) return { real, missing: [name, ...queue] };
      if (found.isSymbolicLink()) {
        links += 1;
        if (links > MAX_LINKS) throw Object.assign(new Error(`too many links: ${path}`), { code: 'ELOOP' });
        const target = here.readLink(name);
        if (target.startsWith('/')) while (stack.length > 0) stack.pop()?.folder[Symbol.dispose]();
        queue = [...parts(target), ...queue];
        continue;
      }
      if (!found.isDirectory()) {
        return queue.length === 0
          ? { real: [...real, name], missing: [] }
          : { real: [...real, name], missing: queue };
      }
      stack.push({ folder: here.child(name), name });
    }
    return { real: stack.map((step) => step.name), missing: [] };
  } finally {
    for (const step of stack) step.folder[Symbol.dispose]();
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
    return readFileSync(fd).subarray(0, maxBytes);
  } finally {
    closeSync(fd);
  }
}

/** Makes a folder and those above it, links followed inside; existing ones stay as they are. */
export function makeFolderInside(root: string, path: string, owner: Owner): readonly string[] {
  const { real, missing } = resolveInside(root, path);
  let folder = descendReal(root, real);
  for (const name of missing) {
    using above = folder;
    folder = above.makeChild(name, 0o755, owner);
  }
  folder[Symbol.dispose]();
  return [...real, ...missing];
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
  const above = makeFolderInside(root, `/${names.join('/')}`, file.parentOwner);
  using folder = descendReal(root, above);
  folder.remove(name);
  folder.writeNew(name, file.content, { ...file.owner, mode: file.mode });
}

export function descendReal(root: string, real: readonly string[]): Folder {
  let folder = Folder.open(root);
  for (const name of real) {
    using above = folder;
    folder = above.child(name);
  }
  return folder;
}
