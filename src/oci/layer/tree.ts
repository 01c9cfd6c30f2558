import { type ByteString, showPath, type TarEntry } from './entry.ts';
import { type LayerLimits, overLimit, unsafe } from './limits.ts';

/** What the layer made at a path so far. A symlink keeps its target; directories keep their last entry. */
export type Node =
  | { readonly kind: 'leaf'; readonly type: TarEntry['type'] }
  | { readonly kind: 'symlink'; readonly target: ByteString }
  | { readonly kind: 'directory'; entry: TarEntry | undefined; opaque: boolean };

const MAX_LINKS = 40;
const LEAVES = new Map<string, Node>();

export function leaf(type: TarEntry['type']): Node {
  let node = LEAVES.get(type);
  if (node === undefined) {
    node = { kind: 'leaf', type };
    LEAVES.set(type, node);
  }
  return node;
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
  return parts.join('/');
}

/** The names that one layer made, so that no entry ever goes through a link on disk. */
export class LayerTree {
  readonly nodes = new Map<ByteString, Node>([['', { kind: 'directory', entry: undefined, opaque: false }]]);
  #lastParent = '';
  #lastResolved = '';

  get(path: ByteString): Node | undefined {
    return this.nodes.get(path);
  }

  set(path: ByteString, node: Node): void {
    if (node.kind !== 'leaf') this.#lastParent = '\0';
    this.nodes.set(path, node);
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
    let rest = path.split('/');
    let done: string[] = [];
    let links = 0;
    while (rest.length > 0) {
      const [part, ...after] = rest as [string, ...string[]];
      rest = after;
      if (part === '' || part === '.') continue;
      if (part === '..') {
        done.pop();
        continue;
      }
      const here = done.length === 0 ? part : `${done.join('/')}/${part}`;
      const node = this.nodes.get(here);
      if (node === undefined && links > 0) {
        throw unsafe(
          `${showPath(forMessage)} goes through a link to ${showPath(here)}, which the layer does not have`,
        );
      }
      if (node?.kind === 'leaf')
        throw unsafe(`${showPath(forMessage)} lies below ${showPath(here)}, which is not a directory`);
      if (node?.kind !== 'symlink') {
        done.push(part);
        continue;
      }
      if (++links > MAX_LINKS) throw unsafe(`${showPath(forMessage)} goes through too many links`);
      if (node.target.startsWith('/')) done = [];
      rest = [...node.target.split('/'), ...rest];
    }
    return done.join('/');
  }
}
