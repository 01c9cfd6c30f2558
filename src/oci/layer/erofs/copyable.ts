import { NotErofs } from './errors.ts';
import type { Xattrs } from './format.ts';

/**
 * Bytes of attributes that a file may have, counted as ext4 does: one block (Linux, fs/ext4/xattr.h) less what
 * overlayfs adds. File systems that hold more are not asked for: the folder way shows what they do.
 */
export const MOST_XATTR_BYTES = 4000;
const HEADER = 36;
const ENTRY = 16;
/** Linux, XATTR_NAME_MAX. */
const MOST_NAME_BYTES = 255;

/**
 * A container that changes a file of a layer has it copied into a folder first, attributes and all, and the change
 * fails where they cannot be written there. From a folder come only attributes that could be written.
 *
 * @throws NotErofs
 */
export function assertCopyable(xattrs: Xattrs | undefined, most: number): void {
  if (xattrs === undefined || xattrs.size === 0) return;
  let bytes = HEADER;
  for (const [name, value] of xattrs) {
    if (name.endsWith('.') && !name.slice(0, -1).includes('.'))
      throw new NotErofs('has an attribute with an empty name');
    if (name.length > MOST_NAME_BYTES)
      throw new NotErofs(`has an attribute whose name is longer than ${MOST_NAME_BYTES} bytes`);
    bytes += ENTRY + pad4(name.length - name.indexOf('.') - 1) + pad4(value.length);
  }
  if (bytes > most) throw new NotErofs('has a file whose attributes would not be copied with it');
}

/** Whether a folder has them too, whatever file system it is on. */
export function isCopyable(xattrs: Xattrs | undefined): boolean {
  try {
    assertCopyable(xattrs, MOST_XATTR_BYTES);
    return true;
  } catch (error) {
    if (error instanceof NotErofs) return false;
    throw error;
  }
}

function pad4(size: number): number {
  return size + ((4 - (size % 4)) % 4);
}
