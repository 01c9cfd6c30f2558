import { fstatSync, writeSync } from 'node:fs';
import { kernelError } from '../kernel/index.ts';
import { type Controls, runProgram } from './program.ts';
import { reportOf } from './render/error.ts';
import type { Host, Output } from './types.ts';

type Process = typeof process;

/** Makes the host out of the process, runs the program and leaves with its exit code. */
export async function start(proc: Process): Promise<void> {
  const interrupts = listenForInterrupts(proc);
  const unexpected = (error: unknown): void => {
    const { message, exitCode } = reportOf(error, false);
    proc.stderr.write(`error [INTERNAL] ${message}\n`);
    proc.exit(exitCode);
  };
  proc.on('uncaughtException', unexpected);
  proc.on('unhandledRejection', unexpected);
  const exitCode = await runProgram(hostOf(proc), interrupts);
  proc.exit(exitCode);
}

function hostOf(proc: Process): Host {
  return {
    argv: proc.argv.slice(2),
    env: proc.env,
    // Asked when it is needed: most commands do without.
    get cwd() {
      return workingFolder(proc);
    },
    stdout: outputOf(proc, 'stdout'),
    stderr: outputOf(proc, 'stderr'),
    stdin: {
      get isTerminal() {
        return isTerminalLike(0) && proc.stdin.isTTY === true;
      },
      line: async (options) => await (await import('./prompt.ts')).readLine(proc, options),
      bytes: () => proc.stdin,
    },
    now: () => Date.now(),
    pid: proc.pid,
    uid: proc.geteuid?.() ?? 0,
  };
}

/** @throws FILE_UNREADABLE where somebody has removed it, or a folder above it may not be looked into */
function workingFolder(proc: Process): string {
  try {
    return proc.cwd();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'is not there any more' : `cannot be found: ${code ?? 'unknown reason'}`;
    throw kernelError('FILE_UNREADABLE', `the working folder ${why}`, {
      hint: 'change to a folder that is there and run the command again',
      cause: error,
    });
  }
}

/**
 * A reader that went away (`| head`) ends the writing, not the work. Only a terminal is written through Node's
 * stream: loading that takes longer than most commands run, and files and pipes are written synchronously anyway.
 */
function outputOf(proc: Process, name: 'stdout' | 'stderr'): Output {
  const fd = name === 'stdout' ? 1 : 2;
  return isTerminalLike(fd) ? streamOutput(proc[name]) : fileOutput(fd);
}

/** Major number of `/dev/null`, `/dev/full` and their like (kernel.org, "Linux allocated devices"). */
const MEMORY_DEVICES = 1;

/** Other character devices are terminals, but for few; the stream tells them apart. */
function isTerminalLike(fd: number): boolean {
  try {
    const stat = fstatSync(fd);
    return stat.isCharacterDevice() && stat.rdev >> 8 !== MEMORY_DEVICES;
  } catch {
    return false;
  }
}

/** @throws DISK_FULL by `write` to stdout; events that nobody can take are no reason to end a run */
function fileOutput(fd: 1 | 2): Output {
  const broken = new AbortController();
  return {
    isTerminal: false,
    columns: 80,
    rows: 24,
    write(chunk) {
      if (!broken.signal.aborted && !writeAll(fd, typeof chunk === 'string' ? Buffer.from(chunk) : chunk)) {
        broken.abort();
      }
    },
    flush: () => Promise.resolve(),
    broken: broken.signal,
  };
}

/** False once nobody reads. */
function writeAll(fd: number, bytes: Uint8Array): boolean {
  for (let offset = 0; offset < bytes.byteLength; ) {
    try {
      offset += writeSync(fd, bytes, offset);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EPIPE' || code === 'EBADF' || (fd === 2 && code !== 'EAGAIN')) {
        return false;
      }
      if (code === 'ENOSPC' || code === 'EDQUOT') {
        throw kernelError('DISK_FULL', 'standard output takes no more: no space left where it goes', {
          hint: 'free some space there and run the command again',
          cause: error,
        });
      }
      if (code !== 'EAGAIN') {
        throw error;
      }
      // A pipe that someone else made non-blocking is full: wait for its reader.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
    }
  }
  return true;
}

function streamOutput(stream: Process['stdout'] | Process['stderr']): Output {
  const broken = new AbortController();
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE' && error.code !== 'EIO' && error.code !== 'ERR_STREAM_DESTROYED') {
      throw error;
    }
    broken.abort();
  });
  return {
    isTerminal: stream.isTTY === true,
    get columns() {
      return stream.columns ?? 80;
    },
    get rows() {
      return stream.rows ?? 24;
    },
    write(chunk) {
      if (!broken.signal.aborted) {
        stream.write(chunk);
      }
    },
    flush: () =>
      new Promise((resolve) => {
        if (broken.signal.aborted || stream.writableLength === 0) {
          resolve();
        } else {
          stream.write('', () => resolve());
        }
      }),
    broken: broken.signal,
  };
}

/**
 * The first signal aborts with grace, the second kills, the third leaves at once. Terminals that hang up and
 * supervisors that say TERM count like Ctrl-C.
 */
function listenForInterrupts(proc: Process): Controls {
  const cancel = new AbortController();
  const kill = new AbortController();
  const listeners = new Set<(count: number) => void>();
  let count = 0;
  const tell = (): void => {
    for (const listener of listeners) {
      listener(count);
    }
    const reason = kernelError('CANCELLED', 'cancelled', { hint: 'run the command again to go on' });
    cancel.abort(reason);
    if (count > 1) {
      kill.abort(reason);
    }
  };
  const interrupt = (): void => {
    count++;
    if (count > 2) {
      proc.exit(130);
    }
    tell();
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    proc.on(signal, interrupt);
  }
  // `run cancel --kill`: what the second signal does, however many came before, and nothing more.
  proc.on('SIGQUIT', () => {
    if (count < 2) {
      count = 2;
      tell();
    }
  });
  return {
    signal: cancel.signal,
    kill: kill.signal,
    onInterrupt(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    every(milliseconds, tick) {
      const timer = setInterval(tick, milliseconds);
      timer.unref();
      return () => clearInterval(timer);
    },
  };
}
