import { isBelow } from '../run-check.ts';
import type { DockerApi } from './api.ts';
import { containersOf } from './names.ts';
import { WORKSPACE_PATH } from './placement.ts';

/**
 * Mount points that were made below the workspace. One goes with the last container that is mounted over it: before,
 * the daemon would make it again for whatever is asked of that container, and removing it takes the mount away from
 * a container that runs.
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
   * After a container was removed.
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
      ...containers.flatMap(({ Mounts = [] }) => Mounts.map((mount) => mount.Destination)),
    ];
    const free = [...this.#made].filter(
      (path) => !mounted.some((other) => isBelow(other, `${WORKSPACE_PATH}/${path}`)),
    );
    for (const path of free) this.#made.delete(path);
    return free;
  }
}
