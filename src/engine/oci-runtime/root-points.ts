import { rmdirSync, unlinkSync } from 'node:fs';
import type { Owner } from '../tree/folder.ts';
import { descendReal, makePointInside } from '../tree/scoped.ts';
import type { Overlay } from './overlays.ts';

/** Something in a container's root that is mounted on. */
export interface RootPoint {
  readonly path: string;
  readonly kind: 'folder' | 'file';
  readonly owner: Owner;
  /** Of folders above it that have to be made. */
  readonly parentOwner: Owner;
}

interface Ahead {
  readonly point: RootPoint;
  /** What was made for it, outermost first. */
  readonly made: readonly (readonly string[])[];
}

/**
 * The mount points of a session's containers. Those below /cnab, which each container has, are made in the next root
 * of an image while the container before it runs: on a disk each costs half a millisecond. What a container turns out
 * not to need is taken away again before it starts.
 */
export class RootPoints {
  readonly #last = new Map<string, readonly RootPoint[]>();
  readonly #ahead = new WeakMap<Overlay, Map<string, Ahead>>();

  /** Nothing may run in the root yet. What cannot be made now is the next container's to meet, with its own error. */
  makeAhead(image: string, overlay: Overlay): void {
    const ahead = new Map<string, Ahead>();
    this.#ahead.set(overlay, ahead);
    for (const point of this.#last.get(image) ?? []) {
      if (!point.path.startsWith('/cnab/')) continue;
      try {
        ahead.set(point.path, { point, made: makePointInside(overlay.reachable, point.path, point) });
      } catch {
        return;
      }
    }
  }

  /** Calls `plan` with what makes its mount points. */
  with<T>(image: string, overlay: Overlay, plan: (make: (point: RootPoint) => void) => T): T {
    const ahead = this.#ahead.get(overlay) ?? new Map<string, Ahead>();
    const used: RootPoint[] = [];
    const result = plan((point) => {
      used.push(point);
      const there = ahead.get(point.path);
      if (there !== undefined) {
        ahead.delete(point.path);
        if (isSame(there.point, point)) return;
        undo(overlay.reachable, there);
      }
      makePointInside(overlay.reachable, point.path, point);
    });
    for (const left of [...ahead.values()].reverse()) undo(overlay.reachable, left);
    this.#ahead.delete(overlay);
    this.#last.set(image, used);
    return result;
  }
}

function isSame(a: RootPoint, b: RootPoint): boolean {
  return a.kind === b.kind && a.owner.uid === b.owner.uid && a.owner.gid === b.owner.gid;
}

function undo(root: string, { made, point }: Ahead): void {
  for (const [at, names] of made.toReversed().entries()) {
    using above = descendReal(root, names.slice(0, -1));
    const path = above.at(names.at(-1) as string);
    if (at === 0 && point.kind === 'file') unlinkSync(path);
    else if (!removedEmpty(path)) return;
  }
}

/** False for a folder that another point lies in. */
function removedEmpty(path: string): boolean {
  try {
    rmdirSync(path);
    return true;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOTEMPTY') return false;
    throw cause;
  }
}
