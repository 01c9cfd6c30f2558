import { closeSync, constants, globSync, openSync } from 'node:fs';

/**
 * The FIFOs of a pattern that somebody opened to read before `ended`. Each reader gets its end of file at once: one
 * that would wait for a writer for ever goes on, and the test that asks says so.
 */
export async function fifosRead(pattern: string, ended: Promise<unknown>): Promise<readonly string[]> {
  const read = new Set<string>();
  const timer = setInterval(() => {
    for (const path of globSync(pattern)) if (hasReader(path)) read.add(path);
  }, 50);
  try {
    await ended;
  } finally {
    clearInterval(timer);
  }
  return [...read];
}

/** Opened to write without waiting, a FIFO is there only for who reads it (fifo(7)). */
function hasReader(path: string): boolean {
  try {
    closeSync(openSync(path, constants.O_WRONLY | constants.O_NONBLOCK));
    return true;
  } catch {
    return false;
  }
}
