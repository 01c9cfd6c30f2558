import { mkdirSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** As many steps rarely run side by side. */
const MOST_FREE = 8;
const NAMES = ['stdout', 'stderr'];

/**
 * The folders that containers' output goes to. Those of ended ones serve again: in a place where files were just
 * deleted, ext4 takes up to half a millisecond for a new one.
 */
export class OutputFolders {
  readonly #free: string[] = [];

  /** Makes a folder with the two files, empty and for their owner alone, so that whoever writes finds the right mode. */
  make(path: string): void {
    const free = this.#free.pop();
    if (free !== undefined && taken(free, path)) return;
    mkdirSync(path, { recursive: true, mode: 0o700 });
    for (const name of NAMES) writeFileSync(join(path, name), '', { mode: 0o600 });
  }

  /** Of a container that has ended, and whose output was read. */
  giveBack(path: string): void {
    if (this.#free.length < MOST_FREE) this.#free.push(path);
    else rmSync(path, { recursive: true, force: true });
  }
}

function taken(free: string, path: string): boolean {
  try {
    renameSync(free, path);
    for (const name of NAMES) truncateSync(join(path, name));
    return true;
  } catch {
    // A sweep may have been here. What is in the way of a new one, the new one meets.
    return false;
  }
}
