import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Where the engine keeps things. Ids of runs, installations and containers are checked before they come here. */
export interface Directories {
  /** On disk, for root alone: workspaces, volumes, changes of containers, output. */
  readonly state: string;
  /** On a tmpfs: control files, secret files, sensitive output. Gone after a restart, as the containers are. */
  readonly runtime: string;
}

export interface RunLayout {
  readonly runId: string;
  /** Folder of the run on disk; its workspace, home and volumes are in it. */
  readonly disk: string;
  /** Folder of the run on the tmpfs. */
  readonly control: string;
  readonly workspace: string;
  readonly home: string;
  readonly tmp: string;
  /** Writable layers of the overlays. */
  readonly uppers: string;
  /** Output of containers that is not sensitive, and what spilled of the rest. */
  readonly output: string;
  readonly outputs: string;
  readonly kept: string;
  readonly session: string;
  readonly placeholders: string;
}

export function runLayout(directories: Directories, runId: string): RunLayout {
  const disk = join(directories.state, 'runs', runId);
  return {
    runId,
    disk,
    control: join(directories.runtime, runId),
    workspace: join(disk, 'workspace'),
    home: join(disk, 'home'),
    tmp: join(disk, 'tmp'),
    uppers: join(disk, 'u'),
    output: join(disk, 'output'),
    outputs: join(disk, 'outputs'),
    kept: join(disk, 'kept'),
    session: join(disk, 'session.json'),
    placeholders: join(disk, 'placeholders.json'),
  };
}

export function installationVolumes(directories: Directories, installationId: string): string {
  return join(directories.state, 'volumes', installationId);
}

export function containerFolder(layout: RunLayout, containerId: string): string {
  return join(layout.control, 'c', containerId);
}

/** The writable layer of an overlay. */
export function upperFolder(layout: RunLayout, overlay: string): string {
  return join(layout.uppers, overlay, 'upper');
}

/** What is mounted as `/cnab/app/outputs` in the container whose root is this overlay. */
export function outputsFolder(layout: RunLayout, overlay: string): string {
  return join(layout.outputs, overlay);
}

export function containerIds(layout: RunLayout): readonly string[] {
  const folder = join(layout.control, 'c');
  return existsSync(folder) ? readdirSync(folder) : [];
}

export function holderFolders(layout: RunLayout): readonly string[] {
  if (!existsSync(layout.control)) return [];
  return readdirSync(layout.control)
    .filter((name) => /^h\d+$/.test(name))
    .map((name) => join(layout.control, name));
}

/** Ids become folder names: nothing but these characters, and no name that means something else. */
export function isSafeId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(id);
}
