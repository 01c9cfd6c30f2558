import { type ByteString, showPath, type TarEntry } from './entry.ts';
import { type LayerLimits, overLimit, unsafe } from './limits.ts';

/** A name that is no directory; `stamp` is what attributes its file has, and the names of one file share the node. */
export type FileNode =
  | { readonly kind: 'leaf'; readonly type: TarEntry['type']; stamp: string }
  | { readonly kind: 'symlink'; readonly target: ByteString; stamp: string };

/** What the layer made at a path so far. A symlink keeps its target; directories keep their last entry. */
export type Node = FileNode | { readonly kind: 'directory'; entry: TarEntry | undefined };

const MAX_LINKS = 40;

/** How far a name is resolved: the directory so far, and through how many links. */
interface Walk {
  done: ByteString;
  links: number;
}

/**
 * Below the root, `..` clamped there (as chroot does), no empty or `.` components. The root is the empty string.
 * The mark of a whiteout does not count: it never becomes a name on disk.
 */
export function cleanPath(path: ByteString, limits: LayerLimits): ByteString {
  if (path.includes('\0')) throw unsafe('a name holds a NUL');
  if (path.length > limits.maxPathBytes) throw overLimit(`a name of ${path.length} bytes`);
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') parts.pop();
    else if (part.length > limits.maxNameBytes + (part.startsWith('.wh.') ? 4 : 0))
      throw overLimit(`a name of ${part.length} bytes in ${showPath(path)}`);
    else parts.push(part);
  }
  // The name itself is no folder.
  if (parts.length > limits.maxDepth + 1) throw overLimit(`a name below ${parts.length - 1} directories`);
  return parts.join('/');
}

/** The names that one layer made, so that no entry ever goes through a link on disk. */
export class LayerTree {
  readonly nodes = new Map<ByteString, Node>([['', { kind: 'directory', entry: undefined }]]);
  readonly #leaves = new Map<string, FileNode>();
  /** Where links led that were followed: neither they nor what they went through change any more. */
  readonly #followed = new Map<ByteString, Walk>();
  #lastParent = '';
  #lastResolved = '';

  get(path: ByteString): Node | undefined {
    return this.nodes.get(path);
  }

  /** One node for all files of equal attributes, to save memory, until one of them gets a second name. */
  leaf(type: TarEntry['type'], stamp: string): FileNode {
    const key = `${type} ${stamp}`;
    let node = this.#leaves.get(key);
    if (node === undefined) {
      node = { kind: 'leaf', type, stamp };
      this.#leaves.set(key, node);
    }
    return node;
  }

  /** The node of a file that gets a further name: one that only its names share from now on. */
  share(path: ByteString): FileNode {
    const node = this.nodes.get(path) as FileNode;
    if (node.kind === 'symlink' || this.#leaves.get(`${node.type} ${node.stamp}`) !== node) return node;
    const own: FileNode = { ...node };
    this.nodes.set(path, own);
    return own;
  }

  set(path: ByteString, node: Node): void {
    if (node.kind !== 'leaf') this.#lastParent = '\0';
    this.nodes.set(path, node);
  }

  /** Is something that is neither directory nor link above the path? Then layers below show nothing there anyway. */
  isBelowLeaf(path: ByteString): boolean {
    for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1)) {
      if (this.nodes.get(path.slice(0, slash))?.kind === 'leaf') return true;
    }
    return false;
  }

  /**
   * Follows the layer's own symlinks in all components but the last, inside the root. Where the layer has nothing,
   * the name stands for itself: lower layers are another file system for it.
   */
  resolveParent(path: ByteString): ByteString {
    const slash = path.lastIndexOf('/');
    if (slash === -1) return path;
    const parent = path.slice(0, slash);
    if (parent !== this.#lastParent) {
      this.#lastResolved = this.#resolveDirectory(parent, path);
      this.#lastParent = parent;
    }
    const name = path.slice(slash + 1);
    return this.#lastResolved === '' ? name : `${this.#lastResolved}/${name}`;
  }

  #resolveDirectory(path: ByteString, forMessage: ByteString): ByteString {
    // A name that is a directory here was resolved when it was made, and stays one: a deep tree is not walked anew
    // for each name in it.
    let known = path;
    while (known !== '' && this.nodes.get(known)?.kind !== 'directory') known = above(known);
    const walk = { done: known, links: 0 };
    this.#walk(path.slice(known.length), walk, forMessage);
    return walk.done;
  }

  #walk(path: ByteString, walk: Walk, forMessage: ByteString): void {
    for (const part of path.split('/')) {
      if (part === '' || part === '.') continue;
      if (part === '..') {
        walk.done = above(walk.done);
        continue;
      }
      const here = walk.done === '' ? part : `${walk.done}/${part}`;
      const node = this.nodes.get(here);
      if (node === undefined && walk.links > 0) {
        throw unsafe(
          `${showPath(forMessage)} goes through a link to ${showPath(here)}, which the layer does not have`,
        );
      }
      if (node?.kind === 'leaf')
        throw unsafe(`${showPath(forMessage)} lies below ${showPath(here)}, which is not a directory`);
      if (node?.kind === 'symlink') this.#follow({ path: here, target: node.target }, walk, forMessage);
      else walk.done = here;
    }
  }

  #follow(
    link: { readonly path: ByteString; readonly target: ByteString },
    walk: Walk,
    forMessage: ByteString,
  ): void {
    const known = this.#followed.get(link.path);
    const before = walk.links;
    walk.links += known?.links ?? 1;
    if (walk.links > MAX_LINKS) throw unsafe(`${showPath(forMessage)} goes through too many links`);
    if (known !== undefined) {
      walk.done = known.done;
      return;
    }
    if (link.target.startsWith('/')) walk.done = '';
    this.#walk(link.target, walk, forMessage);
    this.#followed.set(link.path, { done: walk.done, links: walk.links - before });
  }
}

function above(path: ByteString): ByteString {
  return path.slice(0, Math.max(path.lastIndexOf('/'), 0));
}
