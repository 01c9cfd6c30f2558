import type { ByteString } from '../entry.ts';
import type { Kind, Xattrs } from './format.ts';

/** One inode of the image, whatever names it has. */
export interface Inode {
  kind: Kind;
  mode: number;
  uid: number;
  gid: number;
  seconds: number;
  nanos: number;
  xattrs: Xattrs | undefined;
  size: number;
  /** First block of the body, or the device number. */
  start: number;
  links: number;
  /** Of a symlink. */
  target: ByteString;
  /** Of a directory. */
  children: Map<ByteString, Inode> | undefined;
  /** Where it lies behind the first metadata block, in bytes; -1 before it has a place. */
  at: number;
  inline: boolean;
  ino: number;
}

/** Names in byte order (byte strings compare by their bytes), with the two that every directory has. */
export function sortedNames(directory: Inode, parent: Inode): (readonly [ByteString, Inode])[] {
  const names: (readonly [ByteString, Inode])[] = [
    ['.', directory],
    ['..', parent],
    ...(directory.children as Map<ByteString, Inode>),
  ];
  return names.sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Each inode once, a directory before what is in it; siblings follow one another. */
export function* inodesInOrder(
  root: Inode,
): Generator<{ readonly inode: Inode; readonly parent: Inode }, void> {
  const seen = new Set<Inode>();
  const waiting: { inode: Inode; parent: Inode }[] = [{ inode: root, parent: root }];
  yield { inode: root, parent: root };
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { inode: parent } = next;
    const below: { inode: Inode; parent: Inode }[] = [];
    for (const [name, inode] of sortedNames(parent, parent)) {
      if (name === '.' || name === '..') continue;
      if (inode.kind === 'directory') below.push({ inode, parent });
      else if (inode.links > 1) {
        if (seen.has(inode)) continue;
        seen.add(inode);
      }
      yield { inode, parent };
    }
    waiting.push(...below.reverse());
  }
}
