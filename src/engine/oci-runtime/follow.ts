import {
  closeSync,
  existsSync,
  type FSWatcher,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  readSync,
  watch,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { runProcess } from '../../kernel/system/index.ts';

/** How much raw output of a sensitive container may lie on the tmpfs before it moves to a private file on disk. */
const SPILL_BYTES = 32 << 20;
/** Most looks find nothing new: a buffer of its own for each would be the most that the collector has to collect. */
const scratch = Buffer.allocUnsafeSlow(1 << 16);
/** File events are what wakes us; this is for the case that one is lost, and for processes that died silently. */
const TICK_MS = 200;

export interface FollowedFiles {
  /** Folder of the container: status, exec, pid, supervisor. */
  readonly control: string;
  /** Folder of stdout and stderr; the same one for sensitive containers. */
  readonly output: string;
  /** Folder for what does not fit on the tmpfs; undefined where `output` is on disk already. */
  readonly spill: string | undefined;
}

export interface ContainerStatus {
  readonly exitCode: number;
  readonly cause: 'exited' | 'cancelled' | 'timeout';
}

/** Reads what a supervisor writes: output as it grows, and the status at the end. */
export class Follower implements Disposable {
  readonly #files: FollowedFiles;
  readonly #watchers: FSWatcher[] = [];
  readonly #streams: readonly OutputFile[];
  readonly #onSpill: () => void;
  #wake = Promise.withResolvers<false>();
  /** Names of files that events told of since the last `change`, and what they had told of by then: null is any. */
  #heard: Set<string | null> = new Set();
  #fresh: ReadonlySet<string | null> = new Set([null]);
  /** At everything. */
  #lookedAt = performance.now();

  constructor(files: FollowedFiles, onSpill: () => void) {
    this.#files = files;
    this.#onSpill = onSpill;
    this.#streams = (['stdout', 'stderr'] as const).map((name) => new OutputFile(name, files));
    for (const folder of new Set([files.control, files.output])) {
      const watcher = watch(folder, (_, name) => {
        this.#heard.add(name);
        this.wake();
      });
      // The folder may be removed under us by a sweep; the tick notices.
      watcher.on('error', () => {});
      this.#watchers.push(watcher);
    }
  }

  [Symbol.dispose](): void {
    for (const watcher of this.#watchers) watcher.close();
    for (const stream of this.#streams) stream[Symbol.dispose]();
  }

  wake(): void {
    this.#wake.resolve(false);
  }

  /** Resolves at the next change, or after a while without one: with true. */
  async change(): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, TICK_MS, true);
    const quiet = await Promise.race([this.#wake.promise, promise]);
    clearTimeout(timer);
    this.#wake = Promise.withResolvers<false>();
    const now = performance.now();
    const due = quiet || now - this.#lookedAt >= TICK_MS;
    if (due) this.#lookedAt = now;
    // However busy it is: where many events come, the kernel drops some without a word.
    this.#fresh = due ? new Set([null]) : this.#heard;
    this.#heard = new Set();
    return quiet;
  }

  /** Whether it is worth a look: a file that is not there yet costs more than one that is. */
  hasChanged(...names: readonly string[]): boolean {
    return this.#fresh.has(null) || names.some((name) => this.#fresh.has(name));
  }

  status(): ContainerStatus | undefined {
    return readStatus(this.#files.control);
  }

  /** What the init of the container reported: undefined before it ran, 0 if the command was executed. */
  execErrno(): number | undefined {
    const text = readIfAny(join(this.#files.control, 'exec'));
    return text.startsWith('s') ? Number(text.slice(1)) : undefined;
  }

  async drain(onOutput: (stream: 'stdout' | 'stderr', chunk: Uint8Array) => void): Promise<void> {
    for (let more = true; more; ) {
      more = false;
      for (const stream of this.#streams) {
        const chunk = stream.next();
        if (chunk === undefined) continue;
        more = true;
        onOutput(stream.name, chunk);
      }
      if (more) await new Promise(setImmediate);
    }
    for (const stream of this.#streams) if (await stream.spill()) this.#onSpill();
  }
}

export function readStatus(control: string): ContainerStatus | undefined {
  const text = readIfAny(join(control, 'status'));
  // One write of a short line: without its end it is not there yet.
  const match = /^(\d+) (exited|cancelled|timeout)\n$/.exec(text);
  return match === null
    ? undefined
    : { exitCode: Number(match[1]), cause: match[2] as ContainerStatus['cause'] };
}

export function readIfAny(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/**
 * One stream. On a tmpfs its beginning is moved to disk when it has grown: appended there, synced, then punched out
 * of the file, whose offsets stay the same under the container's feet.
 */
class OutputFile implements Disposable {
  readonly name: 'stdout' | 'stderr';
  readonly #path: string;
  readonly #spillPath: string | undefined;
  readonly #fd: number;
  #spillFd: number | undefined;
  #spilled = 0;
  #position = 0;

  constructor(name: 'stdout' | 'stderr', files: FollowedFiles) {
    this.name = name;
    this.#path = join(files.output, name);
    this.#fd = openSync(this.#path, 'r');
    this.#spillPath = files.spill === undefined ? undefined : join(files.spill, name);
    if (this.#spillPath !== undefined && existsSync(this.#spillPath)) {
      this.#spillFd = openSync(this.#spillPath, 'a+', 0o600);
      this.#spilled = fstatSync(this.#spillFd).size;
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#fd);
    if (this.#spillFd !== undefined) closeSync(this.#spillFd);
  }

  next(): Uint8Array | undefined {
    const old = this.#spillFd !== undefined && this.#position < this.#spilled;
    const length = old ? Math.min(scratch.length, this.#spilled - this.#position) : scratch.length;
    const read = readSync(old ? (this.#spillFd as number) : this.#fd, scratch, 0, length, this.#position);
    if (read === 0) return undefined;
    this.#position += read;
    return Buffer.from(scratch.subarray(0, read));
  }

  async spill(): Promise<boolean> {
    if (this.#spillPath === undefined || this.#position - this.#spilled < SPILL_BYTES) return false;
    const first = this.#spillFd === undefined;
    this.#spillFd ??= openSync(this.#spillPath, 'a+', 0o600);
    const buffer = Buffer.allocUnsafe(1 << 20);
    while (this.#spilled < this.#position) {
      const length = Math.min(buffer.length, this.#position - this.#spilled);
      const read = readSync(this.#fd, buffer, 0, length, this.#spilled);
      for (let done = 0; done < read; ) done += writeSync(this.#spillFd, buffer, done, read - done);
      this.#spilled += read;
    }
    fsyncSync(this.#spillFd);
    await runProcess('fallocate', [
      '--punch-hole',
      '--offset',
      '0',
      '--length',
      String(this.#spilled),
      this.#path,
    ]);
    return first;
  }
}
