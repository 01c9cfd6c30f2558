import type { IdMap } from '../../oci/index.ts';
import type { Owner } from '../tree/folder.ts';

/**
 * The one map of every container of the embedded engine: fixed, so that unpacked layers can be shared, and outside of
 * every range that useradd hands out in /etc/subuid (docs/security.md, "Confinement").
 */
export const embeddedIdMap: IdMap = { hostBase: 2 ** 30, size: 2 ** 30 };

export function hostOwner(inside: Owner): Owner {
  return { uid: embeddedIdMap.hostBase + inside.uid, gid: embeddedIdMap.hostBase + inside.gid };
}

export const containerRoot: Owner = hostOwner({ uid: 0, gid: 0 });
