import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pause } from './container.ts';
import { readIfAny } from './follow.ts';
import { recordedAlive, recordedProcess } from './holder.ts';
import { holderFolders, type RunLayout } from './layout.ts';

/**
 * Ends the holders of a run, whose containers have ended: one whose tool is gone goes by itself, for which `patient`
 * waits a while.
 */
export async function endHolders(layout: RunLayout, options: { readonly patient: boolean }): Promise<void> {
  for (const folder of holderFolders(layout)) {
    const file = join(folder, 'holder');
    const group = recordedProcess(file)?.pid;
    if (group === undefined) continue;
    for (let tries = 0; recordedAlive(file) && options.patient && tries < PATIENCE; tries += 1)
      await pause(5);
    // Its shells, timers and slirp4netns are in its process group; containers are not, and have ended.
    for (let tries = 0; groupExists(group) && tries < PATIENCE; tries += 1) {
      if (tries === 0 && recordedAlive(file)) process.kill(-group, 'SIGKILL');
      if (tries === PATIENCE / 2) process.kill(-group, 'SIGKILL');
      await pause(5);
    }
  }
}

/** In steps of 5 ms. */
const PATIENCE = 400;

/** True while a group has members that are more than zombies: not every process 1 reaps at once. */
function groupExists(group: number): boolean {
  try {
    process.kill(-group, 0);
  } catch {
    return false;
  }
  return readdirSync('/proc').some((name) => {
    if (!/^\d+$/.test(name)) return false;
    const line = readIfAny(`/proc/${name}/stat`);
    const [state, , member] = line.slice(line.lastIndexOf(')') + 2).split(' ');
    return Number(member) === group && state !== 'Z' && state !== 'X';
  });
}
