import { isBelow } from '../run-check.ts';
import { type Collector, namesOf } from '../tree/collect.ts';
import type { ContainerRecord } from './container.ts';
import { type RunLayout, upperFolder } from './layout.ts';

/** Hands over where an ended container's paths lie on this host: in its writable layer, or in what was mounted there. */
export function collectPaths(
  layout: RunLayout,
  record: ContainerRecord,
  to: { readonly collector: Collector; readonly paths: readonly string[] },
): void {
  const { collector } = to;
  const mountPoints = new Set(record.mounts.map((mount) => mount.path));
  for (const path of to.paths) {
    const covering = record.mounts
      .filter((mount) => isBelow(path, mount.path))
      .sort((a, b) => b.path.length - a.path.length)[0];
    if (covering === undefined) {
      const upper = upperFolder(layout, record.overlay);
      collector.take({ root: upper, names: record.real[path] ?? namesOf(path), shown: path, mountPoints });
    } else collector.take(sourceIn(covering, path, mountPoints));
    for (const mount of record.mounts) {
      if (mount.path !== path && isBelow(mount.path, path) && mount.kind !== 'socket') {
        collector.take(sourceIn(mount, mount.path, mountPoints));
      }
    }
  }
}

function sourceIn(mount: ContainerRecord['mounts'][number], path: string, mountPoints: ReadonlySet<string>) {
  if (mount.kind === 'file') {
    const names = mount.host.split('/').filter((part) => part !== '');
    return { root: `/${names.slice(0, -1).join('/')}`, names: names.slice(-1), shown: path, mountPoints };
  }
  return { root: mount.host, names: namesOf(path.slice(mount.path.length)), shown: path, mountPoints };
}
