import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { World } from './world.ts';

/** Process ids of the supervisors that the embedded engine noted in its folder on the tmpfs, of one run or of all. */
export function supervisorsOf(world: World, runId = ''): readonly number[] {
  const folder = world.env.XDG_RUNTIME_DIR as string;
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.name === 'supervisor' && entry.parentPath.includes(runId))
    .map((entry) => Number(readFileSync(join(entry.parentPath, entry.name), 'utf8').split(' ')[0]));
}
