import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { ContainerRun, Workspace } from '../port.ts';
import { isBelow } from '../run-check.ts';
import { giveTo, packFrom, removeFrom, snapshotOf, unpackInto, type WalkedEntry } from '../tree/contents.ts';
import { descend, type Owner, parts } from '../tree/folder.ts';
import { readJson } from './container.ts';
import type { RunLayout } from './layout.ts';
import type { MountPlan, PlannedMount } from './mount-plan.ts';

/**
 * What the containers of a run share on disk: workspace, home, volumes. One owner on this host owns it all, and
 * containers see it as their own user's (config.ts, `ownedBind`).
 */
export class SharedFolders {
  readonly workspace: Workspace;
  readonly #layout: RunLayout;
  readonly #owner: Owner;
  readonly #volumes: string;
  /** Mount points that we made in the workspace, relative to it. */
  readonly #placeholders: Set<string>;
  /** Whether there may be entries of other ids: of an earlier process's steps nothing is known. */
  #foreign = true;

  /** @param volumes folder of the installation's volumes */
  constructor(layout: RunLayout, owner: Owner, volumes: string) {
    this.#layout = layout;
    this.#owner = owner;
    this.#volumes = volumes;
    this.#placeholders = new Set(readJson<string[]>(layout.placeholders) ?? []);
    const root = layout.workspace;
    const hidden = (entry: WalkedEntry): boolean => this.#isPlaceholder(entry);
    this.workspace = {
      put: (archive) => unpackInto(root, archive, owner),
      get: async (paths) => packFrom(root, paths, hidden),
      snapshot: async () => snapshotOf(root, hidden),
      remove: async (paths) => removeFrom(root, paths),
    };
  }

  /** A root step can leave files of other ids behind, which a later step's user could not open. */
  readyFor(user: Owner, run: ContainerRun): void {
    if (user.uid !== 0 && this.#foreign) {
      const { workspace, home, tmp, disk } = this.#layout;
      for (const folder of [workspace, home, tmp, `${disk}/volumes`, this.#volumes]) {
        if (existsSync(folder)) giveTo(folder, this.#owner);
      }
      this.#foreign = false;
    }
    if (user.uid === 0 && (run.workspace === 'rw' || run.home === 'shared' || run.volumes.length > 0)) {
      this.#foreign = true;
    }
  }

  note(plan: MountPlan): void {
    const fresh = plan.placeholders.filter((path) => !this.#placeholders.has(path));
    if (fresh.length === 0) return;
    for (const path of fresh) this.#placeholders.add(path);
    writeFileSync(this.#layout.placeholders, JSON.stringify([...this.#placeholders]), { mode: 0o600 });
  }

  /**
   * After a container: the mount points that were made for its files go, so that a later step does not find an empty
   * file in place of what it may not see. One that another container is mounted over stays: it would lose its mount.
   */
  free(gone: readonly PlannedMount[], others: readonly PlannedMount[]): void {
    const covers = (mounts: readonly PlannedMount[], path: string): boolean =>
      mounts.some((mount) => mount.kind === 'file' && isBelow(mount.path, `/cnab/app/${path}`));
    const mine = [...this.#placeholders].filter((path) => covers(gone, path) && !covers(others, path));
    for (const path of mine.sort((a, b) => b.length - a.length)) {
      removeIfEmpty(this.#layout.workspace, path);
      this.#placeholders.delete(path);
    }
  }

  /** At the session's end, when something of it stays. */
  tidy(keepWorkspace: boolean): void {
    giveTo(this.#layout.workspace, this.#owner);
    const deepestFirst = [...this.#placeholders].sort((a, b) => b.length - a.length);
    for (const path of deepestFirst) removeIfEmpty(this.#layout.workspace, path);
    const { home, tmp, uppers, output, outputs } = this.#layout;
    // A kept container's shell mounts what the container had.
    const kept = existsSync(this.#layout.kept);
    for (const folder of kept ? [uppers, output] : [home, tmp, uppers, output, outputs]) {
      rmSync(folder, { recursive: true, force: true });
    }
    rmSync(this.#layout.placeholders, { force: true });
    if (!keepWorkspace && !kept) rmSync(this.#layout.workspace, { recursive: true, force: true });
  }

  /** A mount point that nobody has put anything into is not the bundle's. */
  #isPlaceholder(entry: WalkedEntry): boolean {
    if (!this.#placeholders.has(entry.path)) return false;
    const stat = entry.folder.stat(entry.name);
    return stat === undefined || stat.isDirectory() || (stat.isFile() && stat.size === 0);
  }
}

function removeIfEmpty(root: string, path: string): void {
  const name = parts(path).at(-1) as string;
  using folder = descend(root, parts(dirname(path)));
  const stat = folder?.stat(name);
  if (folder === undefined || stat === undefined) return;
  if (stat.isFile() && stat.size === 0) folder.remove(name);
  if (!stat.isDirectory()) return;
  using inner = folder.child(name);
  if (inner.names().length === 0) folder.remove(name);
}
