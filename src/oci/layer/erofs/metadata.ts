import type { BlockWriter } from './block-writer.ts';
import {
  BLOCK,
  type Dirent,
  encodeDirents,
  encodeInode,
  encodeXattrs,
  INLINE,
  INODE,
  layDirents,
  PLAIN,
  SLOT,
  type SuperFields,
  XATTR_HEADER,
  xattrsSize,
} from './format.ts';
import { type Inode, inodesInOrder, sortedNames } from './tree.ts';

/** Inode 0 means "none" to readers, so the root comes a little behind the start. */
const ROOT_AT = INODE;

interface Placed {
  readonly inode: Inode;
  readonly parent: Inode;
}

export interface Plan {
  readonly inodes: readonly Placed[];
  readonly fields: SuperFields;
  /**
   * Bytes of the inodes with what lies in them, and room for the attributes of one more: `fsck.erofs` looks for a
   * header of attributes behind the last inode too, and where the file ended there it called the image damaged.
   */
  readonly metaBytes: number;
}

/**
 * Gives every inode its place. Behind the bodies come the blocks of directories and long links, then the inodes, the
 * root first, as the superblock has 16 bits for it. What fits into one block with its inode lies right behind it.
 */
export function layOut(root: Inode, firstBlock: number): Plan {
  const inodes = [...inodesInOrder(root)];
  let block = firstBlock;
  let at = ROOT_AT;
  for (const [index, { inode, parent }] of inodes.entries()) {
    inode.ino = index + 1;
    if (inode.kind === 'directory') inode.size = layDirents(dirents(sortedNames(inode, parent))).size;
    const head = INODE + xattrsSize(inode.xattrs);
    const tail = inode.kind === 'directory' || inode.kind === 'symlink' ? inode.size % BLOCK : 0;
    inode.inline = tail > 0 && head + tail <= BLOCK;
    at = placeFor(at, inode.inline ? head + tail : INODE);
    inode.at = at;
    at += head + (inode.inline ? tail : 0);
    if (inode.kind !== 'directory' && inode.kind !== 'symlink') continue;
    inode.start = block;
    block += inode.inline ? Math.floor(inode.size / BLOCK) : Math.ceil(inode.size / BLOCK);
  }
  const metaBytes = at + XATTR_HEADER;
  const fields = {
    rootNid: root.at / SLOT,
    inodes: inodes.length,
    metaBlock: block,
    blocks: block + Math.ceil(metaBytes / BLOCK),
  };
  return { inodes, fields, metaBytes };
}

/** `together` bytes do not cross a block: readers map one block for an inode and what lies in it. */
function placeFor(at: number, together: number): number {
  const slot = Math.ceil(at / SLOT) * SLOT;
  return (slot % BLOCK) + together > BLOCK ? Math.ceil(slot / BLOCK) * BLOCK : slot;
}

export async function writeMetadata(plan: Plan, out: BlockWriter): Promise<void> {
  for (const { inode, parent } of plan.inodes) {
    const blocks = body(inode, parent);
    const whole = inode.inline ? blocks.slice(0, Math.floor(inode.size / BLOCK)) : blocks;
    for (const block of whole) await out.append(block);
  }
  const start = out.position;
  for (const { inode, parent } of plan.inodes) {
    const gap = start + inode.at - out.position;
    if (gap > 0) await out.append(Buffer.alloc(gap));
    await out.append(encode(inode));
    if (inode.inline)
      await out.append((body(inode, parent).at(-1) as Buffer).subarray(0, inode.size % BLOCK));
  }
  await out.append(Buffer.alloc(start + plan.metaBytes - out.position));
  await out.align();
}

function encode(inode: Inode): Buffer {
  const xattrs = xattrsSize(inode.xattrs);
  const bytes = Buffer.alloc(INODE + xattrs);
  encodeInode(bytes, 0, { ...inode, layout: inode.inline ? INLINE : PLAIN, xattrs });
  if (inode.xattrs !== undefined) encodeXattrs(inode.xattrs, bytes, INODE);
  return bytes;
}

function dirents(names: readonly (readonly [string, Inode])[]): (Dirent & { readonly nid: number })[] {
  return names.map(([name, inode]) => ({ name, kind: inode.kind, nid: inode.at / SLOT }));
}

/** What a directory or a link says, in blocks. */
function body(inode: Inode, parent: Inode): readonly Buffer[] {
  if (inode.kind === 'symlink') {
    const block = Buffer.alloc(BLOCK);
    block.write(inode.target, 'latin1');
    return [block];
  }
  if (inode.kind !== 'directory') return [];
  const entries = dirents(sortedNames(inode, parent));
  let from = 0;
  return layDirents(entries).perBlock.map((count) => {
    const block = Buffer.alloc(BLOCK);
    encodeDirents(block, 0, entries.slice(from, from + count));
    from += count;
    return block;
  });
}
