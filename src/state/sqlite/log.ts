import { constants, watch } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { LogWriter } from '../port.ts';
import { asFileError, fileErrorCode } from './files.ts';

const NEWLINE = 0x0a;
// Ends a line that a killed process left half written. JSON text never holds this character raw.
const TORN = '\u0018';
const BUFFER_BYTES = 64 * 1024;
const BLOCK_BYTES = 256 * 1024;
// inotify wakes the reader; this is for file systems on which it does not.
const POLL_MS = 250;

export function isFileName(runId: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$/.test(runId);
}

export function logPath(logs: string, runId: string): string {
  if (!isFileName(runId)) throw new Error(`not a run id: ${JSON.stringify(runId)}`);
  return join(logs, `${runId}.ndjson`);
}

/** @throws DISK_FULL from `flush` and on closing; what could not be written is kept and tried again */
export async function openLogFile(path: string): Promise<LogWriter> {
  const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;
  const file = await open(path, flags, 0o600).catch((error: unknown) => {
    throw asFileError(error, path);
  });
  const { size } = await file.stat();
  const last = Buffer.alloc(1);
  if (size > 0) await file.read(last, 0, 1, size - 1);
  const writer = new FileLog(file, path);
  if (size > 0 && last[0] !== NEWLINE) writer.write(TORN);
  return writer;
}

class FileLog implements LogWriter {
  readonly #file: FileHandle;
  readonly #path: string;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #working: Promise<void> | undefined;
  #closed = false;

  constructor(file: FileHandle, path: string) {
    this.#file = file;
    this.#path = path;
  }

  write(line: string): void {
    if (this.#closed) throw new Error('the log is closed');
    if (line.includes('\n')) throw new Error('a log line is one line');
    const bytes = Buffer.from(`${line}\n`);
    this.#pending.push(bytes);
    this.#pendingBytes += bytes.length;
    // Readers see lines soon; errors wait for flush.
    if (this.#pendingBytes > BUFFER_BYTES) this.#drain().catch(() => undefined);
    else setImmediate(() => void this.#drain().catch(() => undefined));
  }

  /** Resolves when every line is on the disk. */
  async flush(): Promise<void> {
    await this.#drain();
    await this.#file.datasync().catch((error: unknown) => {
      throw asFileError(error, this.#path);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    try {
      await this.flush();
    } finally {
      await this.#file.close();
    }
  }

  async #drain(): Promise<void> {
    while (this.#working !== undefined || this.#pendingBytes > 0) {
      this.#working ??= this.#writePending().finally(() => {
        this.#working = undefined;
      });
      await this.#working;
    }
  }

  async #writePending(): Promise<void> {
    const block = Buffer.concat(this.#pending);
    this.#pending = [block];
    let written = 0;
    try {
      while (written < block.length) {
        written += (await this.#file.write(block, written, block.length - written)).bytesWritten;
      }
    } catch (error) {
      throw asFileError(error, this.#path);
    } finally {
      // Lines that came meanwhile stand behind the block.
      this.#pending[0] = block.subarray(written);
      this.#pendingBytes -= written;
    }
  }
}

export interface TailOptions {
  readonly follow: boolean;
  readonly signal: AbortSignal;
  /** True once nothing more will be written. */
  ended(): Promise<boolean>;
}

/** Whole lines, oldest first; with `follow` until `ended` or the signal. A file that is not there yet is awaited. */
export async function* readLogFile(
  path: string,
  options: TailOptions,
): AsyncGenerator<string, void, undefined> {
  const { signal, follow } = options;
  let file: FileHandle | undefined;
  let rest = Buffer.alloc(0);
  let position = 0;
  using changes = follow ? watchFile(path) : undefined;
  try {
    while (!signal.aborted) {
      // Asked before reading: what was written before the end is then read after it.
      const ended = !follow || (await options.ended());
      file ??= await openIfThere(path);
      for (let more = file !== undefined; more && file !== undefined && !signal.aborted; ) {
        const block = Buffer.alloc(BLOCK_BYTES);
        const { bytesRead } = await file.read(block, 0, block.length, position);
        position += bytesRead;
        more = bytesRead > 0;
        const [lines, tail] = splitLines(Buffer.concat([rest, block.subarray(0, bytesRead)]));
        rest = tail;
        for (const line of lines) {
          if (!line.endsWith(TORN)) yield line;
        }
      }
      if (ended) return;
      await changes?.next(signal);
    }
  } finally {
    await file?.close();
  }
}

function splitLines(bytes: Buffer<ArrayBuffer>): [string[], Buffer<ArrayBuffer>] {
  const lines: string[] = [];
  let start = 0;
  for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, start)) {
    lines.push(bytes.toString('utf8', start, end));
    start = end + 1;
  }
  return [lines, bytes.subarray(start)];
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function watchFile(path: string): Disposable & { next(signal: AbortSignal): Promise<void> } {
  let wake: () => void = () => undefined;
  let changed = false;
  const notice = (): void => {
    changed = true;
    wake();
  };
  let watcher: { close(): void } | undefined;
  try {
    const name = basename(path);
    const started = watch(dirname(path), { persistent: false }, (_, file) => {
      if (file === null || file === name) notice();
    });
    started.on('error', () => started.close());
    watcher = started;
  } catch {
    // No inotify to be had (its limits are small on some hosts): the timer does.
  }
  return {
    async next(signal) {
      if (!changed) {
        const timer = new AbortController();
        const woken = new Promise<void>((resolve) => {
          wake = resolve;
        });
        const limit = sleep(POLL_MS, undefined, { signal: AbortSignal.any([signal, timer.signal]) }).catch(
          () => undefined,
        );
        await Promise.race([woken, limit]);
        timer.abort();
      }
      changed = false;
    },
    [Symbol.dispose]() {
      watcher?.close();
    },
  };
}
