import type { IdMap } from '../port.ts';
import { showPath, type TarEntry } from './entry.ts';
import { unsafe } from './limits.ts';

const CAPABILITY = 'security.capability';
const ACL = 'system.posix_acl_access';
const DEFAULT_ACL = 'system.posix_acl_default';
const ACL_NAMED = new Set([0x02, 0x08]);
const MAX_ID = 0xffff_fffe;

/** @throws OCI_LAYER_UNSAFE for an owner that is not in the map */
export function shiftId(id: number, map: IdMap | undefined, entry: TarEntry): number {
  // chown takes 2^32-1 as "leave alone", and larger ids wrap: both would give the file to someone else.
  if (id < 0 || id > MAX_ID) throw unsafe(`${showPath(entry.path)} belongs to ${id}, which is no user id`);
  if (map === undefined) return id;
  if (id >= map.size)
    throw unsafe(`${showPath(entry.path)} belongs to ${id}, outside the ${map.size} ids of a container`);
  return map.hostBase + id;
}

/**
 * What may stand on disk: `user.*`, access control lists and file capabilities. `trusted.*`, `user.overlay.*` and the rest of `security.*`
 * steer overlayfs and the host's security modules, so they are dropped (docs/security.md).
 */
export function keepXattrs(entry: TarEntry, map: IdMap | undefined): ReadonlyMap<string, Buffer> | undefined {
  if (entry.xattrs === undefined) return undefined;
  let kept: Map<string, Buffer> | undefined;
  for (const [name, value] of entry.xattrs) {
    const shifted = keepXattr(name, value, { entry, map });
    if (shifted === undefined) continue;
    kept ??= new Map();
    kept.set(name, shifted);
  }
  return kept;
}

function keepXattr(
  name: string,
  value: Buffer,
  { entry, map }: { readonly entry: TarEntry; readonly map: IdMap | undefined },
): Buffer | undefined {
  if (name === ACL || name === DEFAULT_ACL) return shiftAcl(value, map, entry);
  if (name === CAPABILITY) return entry.type === 'file' ? shiftCapability(value, map) : undefined;
  if (!name.startsWith('user.') || name.startsWith('user.overlay.')) return undefined;
  // The kernel refuses user.* on everything else.
  if (entry.type !== 'file' && entry.type !== 'directory') return undefined;
  return value;
}

/**
 * linux/capability.h, `vfs_ns_cap_data`: revision 2 means "root of the initial user namespace" and is ignored inside
 * another one, so a shifted layer needs revision 3, which names the root it is for.
 */
export function shiftCapability(value: Buffer, map: IdMap | undefined): Buffer | undefined {
  if (value.length < 20) return undefined;
  const word = value.readUInt32LE(0);
  const revision = word >>> 24;
  if (revision !== 2 && revision !== 3) return undefined;
  if (map === undefined) return value;
  const shifted = Buffer.alloc(24);
  value.copy(shifted, 0, 0, 20);
  shifted.writeUInt32LE(((word & 0x00ff_ffff) | 0x0300_0000) >>> 0, 0);
  const root = revision === 3 && value.length >= 24 ? value.readUInt32LE(20) : 0;
  if (root >= map.size) return undefined;
  shifted.writeUInt32LE(map.hostBase + root, 20);
  return shifted;
}

/** linux/posix_acl_xattr.h: a version and entries of tag, permissions and id; users and groups by name have ids. */
function shiftAcl(value: Buffer, map: IdMap | undefined, entry: TarEntry): Buffer | undefined {
  if (entry.type === 'symlink' || value.length < 4 || (value.length - 4) % 8 !== 0) return undefined;
  if (value.readUInt32LE(0) !== 2) return undefined;
  const shifted = Buffer.from(value);
  for (let at = 4; at < shifted.length; at += 8) {
    if (!ACL_NAMED.has(shifted.readUInt16LE(at))) continue;
    shifted.writeUInt32LE(shiftId(shifted.readUInt32LE(at + 4), map, entry), at + 4);
  }
  return shifted;
}
