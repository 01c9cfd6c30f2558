import { type Controls, runProgram } from '../../src/cli/program.ts';
import type { Host, Output } from '../../src/cli/types.ts';

export interface FakeOutput extends Output {
  readonly text: string;
}

/** A stream that keeps what was written to it. */
export function fakeOutput(
  options: { readonly terminal?: boolean; readonly columns?: number } = {},
): FakeOutput {
  let text = '';
  return {
    isTerminal: options.terminal ?? false,
    columns: options.columns ?? 80,
    rows: 24,
    write(chunk) {
      text += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
    },
    flush: () => Promise.resolve(),
    broken: new AbortController().signal,
    get text() {
      return text;
    },
  };
}

export interface FakeHostOptions {
  readonly argv: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: string;
  readonly terminal?: boolean;
  readonly now?: number;
}

export interface FakeHost extends Host {
  readonly stdout: FakeOutput;
  readonly stderr: FakeOutput;
}

export function fakeHost(options: FakeHostOptions): FakeHost {
  const stderr = fakeOutput({ terminal: options.terminal ?? false });
  return {
    argv: options.argv,
    env: options.env ?? {},
    cwd: options.cwd ?? '/nowhere',
    stdout: fakeOutput({ terminal: options.terminal ?? false }),
    stderr,
    stdin: {
      isTerminal: options.terminal ?? false,
      line: ({ question }) => {
        stderr.write(`${question} `);
        return Promise.resolve(options.stdin);
      },
      async *bytes() {
        yield Buffer.from(options.stdin ?? '');
      },
    },
    now: () => options.now ?? Date.UTC(2026, 0, 2),
    pid: 4_242,
    uid: process.getuid?.() ?? 0,
  };
}

export const quietControls: Controls = {
  signal: new AbortController().signal,
  kill: new AbortController().signal,
  onInterrupt: () => () => {},
  every: () => () => {},
};

export interface Ran {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command line in this process. */
export async function runLine(options: FakeHostOptions): Promise<Ran> {
  const host = fakeHost(options);
  const exitCode = await runProgram(host, quietControls);
  return { exitCode, stdout: host.stdout.text, stderr: host.stderr.text };
}
