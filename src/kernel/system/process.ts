import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { kernelError } from '../errors.ts';

export interface ProcessOptions {
  /** Given to the program's standard input, which is closed after it; none if absent. */
  readonly input?: string | Uint8Array;
  /** The whole environment; `helperEnvironment()` if absent. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Kills the program when aborted. */
  readonly signal?: AbortSignal;
  /** After this it is killed; a program that it has left behind, with its output open, is not waited for. */
  readonly timeoutMs?: number;
}

export interface ProcessResult {
  /** 128 + n where signal n ended it. */
  readonly exitCode: number;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
}

/**
 * Runs a short-lived program to its end, whatever its exit code.
 *
 * @throws PROGRAM_MISSING if it is not installed; the abort reason if `signal` was aborted
 */
export function runProcess(
  command: string,
  args: readonly string[],
  options: ProcessOptions = {},
): Promise<ProcessResult> {
  options.signal?.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<ProcessResult>();
  const child = spawn(command, args, {
    stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    env: { ...(options.env ?? helperEnvironment()) },
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout?.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => err.push(chunk));
  const stop = (): void => {
    child.kill('SIGKILL');
    // Whoever it has started may have these open for long.
    child.stdout?.destroy();
    child.stderr?.destroy();
  };
  const timer = options.timeoutMs === undefined ? undefined : setTimeout(stop, options.timeoutMs);
  options.signal?.addEventListener('abort', stop, { once: true });
  const over = (): void => {
    clearTimeout(timer);
    options.signal?.removeEventListener('abort', stop);
  };
  child.on('error', (cause: NodeJS.ErrnoException) => {
    over();
    reject(spawnError(command, cause));
  });
  child.on('close', (code, signal) => {
    over();
    if (options.signal?.aborted === true) {
      reject(options.signal.reason);
      return;
    }
    const exitCode = code ?? 128 + signalNumber(signal);
    resolve({ exitCode, stdout: Buffer.concat(out), stderr: Buffer.concat(err) });
  });
  if (options.input !== undefined) {
    // A program that ends without reading its input has a reason of its own; EPIPE adds nothing to it.
    child.stdin?.on('error', () => {});
    child.stdin?.end(options.input);
  }
  return promise;
}

/**
 * What programs that do our work need of the user's environment. Not all of it: `--credential x=env:VAR` makes a
 * variable of ours a secret, which any process that inherits it would show in /proc.
 */
export function helperEnvironment(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    ['PATH', 'LANG', 'LC_ALL', 'TMPDIR'].flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** What a failed start means to a user. */
export function spawnError(command: string, cause: NodeJS.ErrnoException): Error {
  if (cause.code !== 'ENOENT' && cause.code !== 'EACCES') return cause;
  return kernelError('PROGRAM_MISSING', `the program ${command} is not installed or cannot be executed`, {
    hint: `install ${command}, and see that it is in PATH`,
    cause,
  });
}

/** Waits for the end of a child without keeping its output. */
export function exited(child: ChildProcess): Promise<number> {
  if (child.exitCode !== null) return Promise.resolve(child.exitCode);
  if (child.signalCode !== null) return Promise.resolve(128 + signalNumber(child.signalCode));
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve(code ?? 128 + signalNumber(signal)));
    child.once('error', () => resolve(127));
  });
}

/** A process told apart from a later one with the same id: by its start time (proc(5), stat, field 22). */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startTime: string;
}

/** From a line of /proc/PID/stat; undefined if it is none. */
export function processIdentity(statLine: string): ProcessIdentity | undefined {
  const pid = Number.parseInt(statLine, 10);
  const startTime = statLine.slice(statLine.lastIndexOf(')') + 2).split(' ')[19];
  return Number.isSafeInteger(pid) && pid > 0 && startTime !== undefined ? { pid, startTime } : undefined;
}

/** True while that very process exists and is no zombie. Linux only. */
export function isAlive(identity: ProcessIdentity): boolean {
  let line: string;
  try {
    line = readFileSync(`/proc/${identity.pid}/stat`, 'latin1');
  } catch {
    return false;
  }
  const state = line.slice(line.lastIndexOf(')') + 2)[0];
  return state !== 'Z' && state !== 'X' && processIdentity(line)?.startTime === identity.startTime;
}

/** Signals that very process; false if it is gone. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false;
  try {
    return process.kill(identity.pid, signal);
  } catch {
    return false;
  }
}

function signalNumber(signal: NodeJS.Signals | null): number {
  const numbers: Partial<Record<NodeJS.Signals, number>> = {
    SIGHUP: 1,
    SIGINT: 2,
    SIGQUIT: 3,
    SIGABRT: 6,
    SIGKILL: 9,
    SIGSEGV: 11,
    SIGPIPE: 13,
    SIGTERM: 15,
  };
  return signal === null ? 0 : (numbers[signal] ?? 0);
}
