import type { IdMap } from '../port.ts';
import { ACCESS_LIST, DEFAULT_LIST, keepAcl, withIds } from './acl.ts';
import { showPath, type TarEntry } from './entry.ts';
import { unsafe } from './limits.ts';

const CAPABILITY = 'security.capability';
const IDS = 2 ** 32;

/**
 * Without a map, ids are what the kernel makes of them, as with Docker: 32 bits are taken, and 2^32-1, "leave alone",
 * stays the writer's, root's.
 *
 * @throws OCI_LAYER_UNSAFE for an owner that is not in the map
 */
export function shiftId(id: number, map: IdMap | undefined, entry: TarEntry): number {
  if (map === undefined) {
    const kept = ((id % IDS) + IDS) % IDS;
    return kept === IDS - 1 ? 0 : kept;
  }
  if (id < 0 || id >= map.size)
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
  if (name === ACCESS_LIST || name === DEFAULT_LIST)
    return keepAcl(name, value, { entry, shift: (id) => shiftId(id, map, entry) });
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

/** Back to what the image has: what `keepXattrs` made of it under this map. */
export function unshiftXattrs(
  xattrs: ReadonlyMap<string, Buffer>,
  map: IdMap | undefined,
): ReadonlyMap<string, Buffer> {
  if (map === undefined) return xattrs;
  const out = new Map(xattrs);
  const capability = out.get(CAPABILITY);
  if (capability !== undefined && capability.length >= 24 && capability.readUInt32LE(0) >>> 24 === 3) {
    const plain = Buffer.from(capability);
    plain.writeUInt32LE(Math.max(0, plain.readUInt32LE(20) - map.hostBase), 20);
    out.set(CAPABILITY, plain);
  }
  for (const name of [ACCESS_LIST, DEFAULT_LIST]) {
    const acl = out.get(name);
    if (acl !== undefined)
      out.set(
        name,
        withIds(acl, (id) => Math.max(0, id - map.hostBase)),
      );
  }
  return out;
}
