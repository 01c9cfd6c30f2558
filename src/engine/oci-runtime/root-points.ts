import { rmdirSync, unlinkSync } from 'node:fs';
import type { Owner } from '../tree/folder.ts';
import { descendReal, type MadePoint, makePointInside } from '../tree/scoped.ts';
import type { Overlay } from './overlays.ts';

/** Something in a container's root that is mounted on, or has to be there. */
export interface RootPoint {
  readonly path: string;
  readonly kind: 'folder' | 'file';
  readonly owner: Owner;
  /** Of folders above it that have to be made. */
  readonly parentOwner: Owner;
}

/** What of a root was made by us. */
class Made {
  readonly points = new Map<string, { readonly point: RootPoint; readonly real: readonly string[] }>();
  readonly #entries = new Map<
    string,
    { readonly names: readonly string[]; readonly kind: RootPoint['kind'] }
  >();

  add(point: RootPoint, { real, made }: MadePoint): void {
    this.points.set(point.path, { point, real });
    for (const names of made)
      this.#entries.set(names.join('/'), {
        names,
        kind: names.length === real.length ? point.kind : 'folder',
      });
  }

  /** Takes away what no point of `used` is or lies in. */
  reduce(root: string, used: ReadonlySet<string>): void {
    for (const path of [...this.points.keys()]) if (!used.has(path)) this.points.delete(path);
    const needed = new Set<string>();
    for (const { real } of this.points.values())
      for (const at of real.keys()) needed.add(real.slice(0, at + 1).join('/'));
    const deepestFirst = [...this.#entries].sort(([, a], [, b]) => b.names.length - a.names.length);
    for (const [key, { names, kind }] of deepestFirst) {
      if (needed.has(key)) continue;
      using above = descendReal(root, names.slice(0, -1));
      const path = above.at(names.at(-1) as string);
      if (kind === 'file') unlinkSync(path);
      else rmdirSync(path);
      this.#entries.delete(key);
    }
  }
}

/**
 * The mount points of a session's containers. Those of an image's last container are made in its next root while that
 * one runs: on a disk each costs half a millisecond. A root that serves again has those of the container before. What
 * a container turns out not to need is taken away before it starts.
 */
export class RootPoints {
  readonly #last = new Map<string, readonly RootPoint[]>();
  readonly #made = new WeakMap<Overlay, Made>();

  /** Nothing may run in the root yet. What cannot be made now is the next container's to meet, with its own error. */
  makeAhead(image: string, overlay: Overlay): void {
    const made = new Made();
    this.#made.set(overlay, made);
    for (const point of this.#last.get(image) ?? []) {
      try {
        made.add(point, makePointInside(overlay.reachable, point.path, point));
      } catch {
        return;
      }
    }
  }

  /** Calls `plan` with what makes its mount points. */
  with<T>(image: string, overlay: Overlay, plan: (make: (point: RootPoint) => void) => T): T {
    const made = this.#made.get(overlay) ?? new Made();
    this.#made.set(overlay, made);
    const used = new Map<string, RootPoint>();
    const result = plan((point) => {
      used.set(point.path, point);
      const there = made.points.get(point.path);
      if (there !== undefined) {
        if (isSame(there.point, point)) return;
        made.reduce(
          overlay.reachable,
          new Set([...made.points.keys()].filter((path) => path !== point.path)),
        );
      }
      made.add(point, makePointInside(overlay.reachable, point.path, point));
    });
    made.reduce(overlay.reachable, new Set(used.keys()));
    this.#last.set(image, [...used.values()]);
    return result;
  }
}

function isSame(a: RootPoint, b: RootPoint): boolean {
  return a.kind === b.kind && a.owner.uid === b.owner.uid && a.owner.gid === b.owner.gid;
}
