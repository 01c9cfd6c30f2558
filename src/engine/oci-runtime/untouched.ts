import { lstatSync, readdirSync } from 'node:fs';

/** A folder with more in it is not looked at: a new one costs less. */
const MOST_ENTRIES = 64;
/** Before Linux 6.13 all changes of one tick, at most 10 ms, have the same time. */
const TICK_MS = 12;

/**
 * Which folders their container has left as they were. Each change of a file or folder gives it a new time of change,
 * which no process can set, and each new entry changes its folder: so one with the same entries with the same times
 * can serve the next container as a new one would.
 */
export class UntouchedFolders {
  readonly #sealed = new Map<string, string>();

  /** Before the container starts, when all is made. What was made just now could be changed within the same tick. */
  seal(path: string): void {
    const found = contentsOf(path);
    if (found !== undefined && Date.now() - found.newestMs >= TICK_MS) this.#sealed.set(path, found.print);
  }

  /** After the container's end, once. */
  open(path: string): boolean {
    const sealed = this.#sealed.get(path);
    this.#sealed.delete(path);
    return sealed !== undefined && contentsOf(path)?.print === sealed;
  }
}

function contentsOf(root: string): { readonly print: string; readonly newestMs: number } | undefined {
  const lines: string[] = [];
  let newest = 0n;
  const left = [''];
  for (let path = left.pop(); path !== undefined; path = left.pop()) {
    const stat = lstatSync(`${root}${path}`, { bigint: true, throwIfNoEntry: false });
    if (stat === undefined) return undefined;
    if (stat.ctimeNs > newest) newest = stat.ctimeNs;
    lines.push(`${path}\0${stat.ino}\0${stat.ctimeNs}`);
    if (lines.length > MOST_ENTRIES) return undefined;
    if (stat.isDirectory()) for (const name of readdirSync(`${root}${path}`)) left.push(`${path}/${name}`);
  }
  return { print: lines.join('\n'), newestMs: Number(newest / 1_000_000n) };
}
