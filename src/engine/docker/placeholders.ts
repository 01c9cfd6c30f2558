import { isBelow } from '../run-check.ts';
import type { DockerApi } from './api.ts';
import { containersOf } from './names.ts';
import { WORKSPACE_PATH } from './placement.ts';

const ENDED = new Set(['exited', 'dead', 'removing']);

/**
 * Mount points that were made below the workspace. One goes with the last container that runs with a mount over it:
 * removed before, it takes the mount along.
 */
export class Placeholders {
  readonly #api: DockerApi;
  readonly #runId: string;
  readonly #made = new Set<string>();
  /** Absolute paths by container: the daemon does not know of one that is being prepared. */
  readonly #begun = new Map<string, readonly string[]>();

  constructor(api: DockerApi, runId: string) {
    this.#api = api;
    this.#runId = runId;
  }

  /** @param paths everything that will be mounted into the container, absolute */
  begin(containerId: string, paths: readonly string[]): void {
    this.#begun.set(containerId, paths);
  }

  /**
   * After a container ended, and again once it is removed: the daemon makes its mount points anew for whatever is
   * read of it in between.
   *
   * @param made mount points made for it, relative to the workspace
   * @returns the mount points that may go now
   */
  async end(containerId: string, made: readonly string[]): Promise<readonly string[]> {
    this.#begun.delete(containerId);
    for (const path of made) this.#made.add(path);
    if (this.#made.size === 0) return [];
    const containers = await containersOf(this.#api, this.#runId);
    const mounted = [
      ...[...this.#begun.values()].flat(),
      ...containers
        .filter((container) => !ENDED.has(container.State))
        .flatMap(({ Mounts = [] }) => Mounts.map((mount) => mount.Destination)),
    ];
    const free = [...this.#made].filter(
      (path) => !mounted.some((other) => isBelow(other, `${WORKSPACE_PATH}/${path}`)),
    );
    for (const path of free) this.#made.delete(path);
    return free;
  }
}
