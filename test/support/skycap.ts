import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const root = join(import.meta.dirname, '../..');
export const program = join(root, 'bin/skycap');

export interface Ran {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A home of its own: no test sees the configuration, state or images of another one or of this machine's user. */
export interface Home extends AsyncDisposable {
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  run(args: readonly string[], options?: RunOptions): Promise<Ran>;
  start(args: readonly string[], options?: RunOptions): ChildProcess;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly program?: string;
}

export async function makeHome(): Promise<Home> {
  const folder = await mkdtemp(join(tmpdir(), 'skycap-e2e-'));
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: folder,
    XDG_CONFIG_HOME: join(folder, 'config'),
    XDG_DATA_HOME: join(folder, 'data'),
    XDG_CACHE_HOME: join(folder, 'cache'),
  };
  const started: ChildProcess[] = [];
  const start = (args: readonly string[], options: RunOptions = {}): ChildProcess => {
    const child = spawn(options.program ?? program, args, {
      cwd: options.cwd ?? folder,
      env: { ...env, ...options.env },
    });
    started.push(child);
    return child;
  };
  return {
    folder,
    env,
    start,
    run: (args, options = {}) => collect(start(args, options), options.input ?? ''),
    async [Symbol.asyncDispose]() {
      // Those of a test that failed half-way.
      for (const child of started) {
        child.kill('SIGKILL');
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export function collect(child: ChildProcess, input = ''): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout?.on('data', (chunk: Buffer) => stdout.push(chunk));
    child.stderr?.on('data', (chunk: Buffer) => stderr.push(chunk));
    child.on('error', reject);
    child.on('close', (exitCode, signal) => {
      resolve({
        exitCode,
        signal,
        stdout: Buffer.concat(stdout).toString(),
        stderr: Buffer.concat(stderr).toString(),
      });
    });
    // A program that ends without reading its input is none of ours to complain about.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}

/** Resolves with the first line of a stream. */
export function firstLine(child: ChildProcess, stream: 'stdout' | 'stderr' = 'stdout'): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    child[stream]?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const end = text.indexOf('\n');
      if (end !== -1) {
        resolve(text.slice(0, end));
      }
    });
    child.on('close', (code) => reject(new Error(`ended with ${code} before a line came`)));
  });
}
