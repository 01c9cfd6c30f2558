/** A file system in memory: what the fake engine's containers see. No permissions are enforced. */
export type TreeNode = FileNode | DirectoryNode | SymlinkNode | OtherNode;

export interface FileNode {
  readonly kind: 'file';
  content: Uint8Array;
  /** Larger than the content for sparse files. */
  sizeBytes?: number;
  mode: number;
  links: number;
}

export interface DirectoryNode {
  readonly kind: 'directory';
  readonly entries: Map<string, TreeNode>;
  mode: number;
}

export interface SymlinkNode {
  readonly kind: 'symlink';
  readonly target: string;
  readonly mode: number;
}

export interface OtherNode {
  readonly kind: 'fifo' | 'device';
  readonly mode: number;
}

export function directory(mode = 0o755): DirectoryNode {
  return { kind: 'directory', entries: new Map(), mode };
}

export function file(content: Uint8Array | string, mode = 0o644): FileNode {
  return { kind: 'file', content: Buffer.from(content), mode, links: 1 };
}

export interface Mount {
  readonly path: string;
  readonly node: TreeNode;
  readonly readOnly: boolean;
}

export class FakeFileError extends Error {
  readonly code: string;
  constructor(code: string, path: string) {
    super(`${code}: ${path}`);
    this.code = code;
  }
}

/** What one container sees: an image's tree with mounts over it. */
export class View {
  readonly #root: DirectoryNode;
  readonly #mounts = new Map<string, Mount>();

  constructor(root: DirectoryNode, mounts: readonly Mount[]) {
    this.#root = root;
    for (const mount of mounts) this.#mounts.set(mount.path, mount);
  }

  /** The node and whether it may be written; links in between are followed, the last one if `follow`. */
  lookup(path: string, follow = true): { node: TreeNode; readOnly: boolean } | undefined {
    let queue = split(path);
    let at: { node: TreeNode; readOnly: boolean; path: string[] } = {
      node: this.#root,
      readOnly: false,
      path: [],
    };
    const stack = [at];
    for (let hops = 0; queue.length > 0; ) {
      const [name, ...rest] = queue as [string, ...string[]];
      queue = rest;
      if (name === '..') {
        if (stack.length > 1) stack.pop();
        at = stack.at(-1) as typeof at;
        continue;
      }
      const here = [...at.path, name];
      const mount = this.#mounts.get(`/${here.join('/')}`);
      const entry = at.node.kind === 'directory' ? at.node.entries.get(name) : undefined;
      const child = mount?.node ?? entry ?? this.#above(`/${here.join('/')}/`);
      if (child === undefined) return undefined;
      if (child.kind === 'symlink' && (queue.length > 0 || follow)) {
        hops += 1;
        if (hops > 40) return undefined;
        const target = child.target.startsWith('/')
          ? split(child.target)
          : [...at.path, ...split(child.target)];
        queue = [...target, ...queue];
        at = stack[0] as typeof at;
        stack.length = 1;
        continue;
      }
      at = { node: child, readOnly: mount?.readOnly ?? at.readOnly, path: here };
      stack.push(at);
    }
    return { node: at.node, readOnly: at.readOnly };
  }

  /** A folder that is only there because something is mounted below it. */
  #above(prefix: string): DirectoryNode | undefined {
    return [...this.#mounts.keys()].some((mount) => mount.startsWith(prefix)) ? directory() : undefined;
  }

  /** Every mount point below a folder shows as an entry, as in a real mount table. */
  list(path: string): string[] {
    const found = this.lookup(path)?.node;
    if (found?.kind !== 'directory') throw new FakeFileError('ENOTDIR', path);
    const prefix = path === '/' ? '/' : `${path}/`;
    const mounted = [...this.#mounts.keys()]
      .filter((mount) => mount.startsWith(prefix))
      .map((mount) => mount.slice(prefix.length).split('/')[0] as string);
    return [...new Set([...found.entries.keys(), ...mounted])].sort();
  }

  parent(path: string, create: boolean): { entries: Map<string, TreeNode>; name: string } {
    const parts = split(path);
    const name = parts.pop();
    if (name === undefined) throw new FakeFileError('EBUSY', path);
    let folder = '';
    for (const part of parts) {
      folder = `${folder}/${part}`;
      if (this.lookup(folder) === undefined && create) this.mkdir(folder);
    }
    const found = this.lookup(`/${parts.join('/')}`);
    if (found === undefined) throw new FakeFileError('ENOENT', path);
    if (found.node.kind !== 'directory') throw new FakeFileError('ENOTDIR', path);
    if (found.readOnly) throw new FakeFileError('EROFS', path);
    return { entries: found.node.entries, name };
  }

  mkdir(path: string, mode = 0o755): void {
    if (this.lookup(path)?.node.kind === 'directory') return;
    const { entries, name } = this.parent(path, true);
    if (entries.has(name)) throw new FakeFileError('EEXIST', path);
    entries.set(name, directory(mode));
  }

  write(path: string, content: Uint8Array | string, mode?: number): void {
    const found = this.lookup(path);
    if (found !== undefined) {
      if (found.readOnly) throw new FakeFileError('EROFS', path);
      if (found.node.kind !== 'file') throw new FakeFileError('EISDIR', path);
      found.node.content = Buffer.from(content);
      if (mode !== undefined) found.node.mode = mode;
      return;
    }
    const { entries, name } = this.parent(path, false);
    entries.set(name, file(content, mode));
  }

  read(path: string): Buffer {
    const found = this.lookup(path)?.node;
    if (found === undefined) throw new FakeFileError('ENOENT', path);
    if (found.kind !== 'file') throw new FakeFileError('EISDIR', path);
    return Buffer.from(found.content);
  }

  remove(path: string): void {
    if (this.#mounts.has(path)) throw new FakeFileError('EBUSY', path);
    const { entries, name } = this.parent(path, false);
    const node = entries.get(name);
    if (node?.kind === 'file') node.links -= 1;
    entries.delete(name);
  }

  put(path: string, node: TreeNode): void {
    const { entries, name } = this.parent(path, false);
    if (entries.has(name)) throw new FakeFileError('EEXIST', path);
    if (node.kind === 'file' && node.links > 0) entries.set(name, node);
    else entries.set(name, node);
  }
}

export function split(path: string): string[] {
  return path.split('/').filter((part) => part !== '' && part !== '.');
}
