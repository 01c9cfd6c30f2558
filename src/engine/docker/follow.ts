import { watch } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { exitOf, supervisorLives } from './supervised.ts';
import type { SupervisedExit } from './supervisor.ts';

export interface OutputPlace {
  /** Folder of `output` and `exit.json`. */
  readonly directory: string;
  /** Where the output goes on once `output` has `overflowAfterBytes`. */
  readonly overflowFile?: string;
  readonly overflowAfterBytes?: number;
}

/** Only a supervisor that died without a word leaves no event; looked for so often. */
const LOOK_MS = 1000;

/**
 * Hands on what the supervisor writes, from the first byte, until it has recorded the end. Undefined if it died
 * before: then the rest of the output is lost.
 */
export async function followOutput(
  place: OutputPlace,
  onBytes: (bytes: Buffer) => void,
): Promise<SupervisedExit | undefined> {
  const wake = new Wake(place.directory);
  const file = new GrowingFile(place);
  try {
    for (;;) {
      const turn = wake.turn();
      // The end is looked for before the last read: what was written before it is then read for sure.
      const alive = supervisorLives(place.directory);
      const exit = await exitOf(place.directory);
      await file.read(onBytes);
      if (exit !== undefined) return exit;
      if (!alive) {
        const late = await exitOf(place.directory);
        await file.read(onBytes);
        return late;
      }
      await turn;
    }
  } finally {
    wake.close();
    await file.close();
  }
}

/** Wakes at each change of a folder, and now and then anyway. */
class Wake {
  readonly #watcher: ReturnType<typeof watch> | undefined;
  #next = Promise.withResolvers<void>();
  #changed = false;

  constructor(directory: string) {
    try {
      this.#watcher = watch(directory, () => {
        this.#changed = true;
        this.#next.resolve();
      });
      this.#watcher.on('error', () => {});
    } catch {
      // No inotify left: the timer alone does it, more slowly.
    }
  }

  async turn(): Promise<void> {
    if (this.#changed) this.#next = Promise.withResolvers<void>();
    this.#changed = false;
    let timer: NodeJS.Timeout | undefined;
    const pause = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#watcher === undefined ? 50 : LOOK_MS);
    });
    await Promise.race([this.#next.promise, pause]);
    clearTimeout(timer);
  }

  close(): void {
    this.#watcher?.close();
    // A turn that nobody waits for any more must not keep the process by its timer.
    this.#next.resolve();
  }
}

class GrowingFile {
  readonly #place: OutputPlace;
  readonly #buffer = Buffer.alloc(256 * 1024);
  #handle: FileHandle | undefined;
  #offset = 0;
  #inOverflow = false;

  constructor(place: OutputPlace) {
    this.#place = place;
  }

  async read(onBytes: (bytes: Buffer) => void): Promise<void> {
    for (;;) {
      this.#handle ??= await this.#open();
      if (this.#handle === undefined) return;
      const { bytesRead } = await this.#handle.read(this.#buffer, 0, this.#buffer.length, this.#offset);
      this.#offset += bytesRead;
      // A copy: whoever takes it may keep it.
      if (bytesRead > 0) onBytes(Buffer.from(this.#buffer.subarray(0, bytesRead)));
      else if (!(await this.#moveOn())) return;
    }
  }

  async close(): Promise<void> {
    await this.#handle?.close();
  }

  async #open(): Promise<FileHandle | undefined> {
    const file = this.#inOverflow
      ? (this.#place.overflowFile as string)
      : join(this.#place.directory, 'output');
    return await open(file, 'r').catch(() => undefined);
  }

  async #moveOn(): Promise<boolean> {
    const { overflowFile, overflowAfterBytes } = this.#place;
    if (this.#inOverflow || overflowFile === undefined || this.#offset !== overflowAfterBytes) return false;
    await this.#handle?.close();
    this.#handle = undefined;
    this.#inOverflow = true;
    this.#offset = 0;
    return true;
  }
}
