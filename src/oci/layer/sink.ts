import type { TarEntry } from './entry.ts';

/** Writes checked entries into a folder. Gets them in an order in which each can be written at once. */
export interface LayerSink {
  /** Nothing of a part is needed any more when the next one is asked for. */
  readonly copies?: true;
  /** `next` gives the parts of the body until undefined; only files have one. */
  put(entry: TarEntry, next: () => Promise<Buffer | undefined>): Promise<void>;
  /**
   * The same with a whole body, good until this returns, and without waiting: whether there was room for it. What
   * waits for each of many small files takes twice as long.
   */
  putNow?(entry: TarEntry, body: Buffer): boolean;
  /** Gives the file at this path, which was put before, other attributes. */
  restamp?(entry: TarEntry): Promise<void>;
  /** Resolves when everything is in the folder. */
  finish(): Promise<void>;
  /** Stops at once; what was written stays for the caller to remove. */
  abort(): Promise<void>;
}
