import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DaemonPaths } from './daemon.ts';
import type { OutputPlace } from './follow.ts';

/** Raw output of a step that sees secrets stays in memory up to here, and goes on on disk. */
const SENSITIVE_BYTES = 64 * 1024 * 1024;

export interface ContainerPlaces extends OutputPlace {
  /** Secret and generated files that are mounted into the container. */
  readonly files: string;
  /** Everything that must go with the container. */
  readonly all: readonly string[];
}

/** Folders of one container: what may hold secrets on the tmpfs, the rest on disk. */
export function placesOf(
  paths: DaemonPaths,
  of: { readonly runId: string; readonly containerId: string; readonly sensitive: boolean },
): ContainerPlaces {
  const memory = join(runPlace(paths.runtimeDirectory, of.runId), of.containerId);
  const disk = join(runPlace(paths.workDirectory, of.runId), of.containerId);
  const common = { files: join(memory, 'files'), all: [memory, disk] };
  if (!of.sensitive) return { ...common, directory: join(disk, 'plain') };
  return {
    ...common,
    directory: join(memory, 'sensitive'),
    overflowFile: join(disk, 'sensitive-overflow'),
    overflowAfterBytes: SENSITIVE_BYTES,
  };
}

export async function makePlaces(places: ContainerPlaces): Promise<void> {
  for (const folder of [...places.all, places.directory, places.files])
    await mkdir(folder, { recursive: true, mode: 0o700 });
}

export async function removePlaces(places: ContainerPlaces): Promise<void> {
  for (const folder of places.all) await rm(folder, { recursive: true, force: true });
}

export async function removeRunPlaces(paths: DaemonPaths, runId: string): Promise<void> {
  for (const folder of [paths.runtimeDirectory, paths.workDirectory]) {
    await rm(runPlace(folder, runId), { recursive: true, force: true });
  }
}

function runPlace(folder: string, runId: string): string {
  // Run ids come from our own records; a slash in one must still not lead elsewhere.
  return join(folder, `run-${encodeURIComponent(runId).replaceAll('.', '%2E')}`);
}
