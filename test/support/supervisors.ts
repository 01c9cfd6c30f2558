import { type Dirent, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { World } from './world.ts';

/** Process ids of the supervisors that the embedded engine noted in its folder on the tmpfs, of one run or of all. */
export function supervisorsOf(world: World, runId = ''): readonly number[] {
  return filesNamed('supervisor', world.env.XDG_RUNTIME_DIR as string)
    .filter((file) => file.includes(runId))
    .map((file) => Number(readFileSync(file, 'utf8').split(' ')[0]));
}

/** The runtime makes and removes folders meanwhile. */
function filesNamed(name: string, folder: string): readonly string[] {
  let entries: readonly Dirent[];
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
  return entries.flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesNamed(name, path);
    return entry.name === name ? [path] : [];
  });
}
