import { spawn } from 'node:child_process';
import { program, type World } from './world.ts';

export interface Answer {
  /** Typed once this stands on the terminal; an empty text: at once. */
  readonly to: string;
  readonly typed: string;
}

/** The program on a terminal of its own (script(1)), with everything that it shows there. */
export function onTerminal(
  world: World,
  args: readonly string[],
  answers: readonly Answer[],
): Promise<{ readonly code: number | null; readonly shown: string }> {
  const line = [program, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
  const child = spawn('script', ['-qec', line, '/dev/null'], {
    cwd: world.directory,
    env: { ...world.env, SHELL: '/bin/sh', TERM: 'dumb' },
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: 100_000,
    killSignal: 'SIGKILL',
  });
  let shown = '';
  const left = [...answers];
  const answer = (): void => {
    for (let [next] = left; next !== undefined && shown.includes(next.to); [next] = left) {
      left.shift();
      child.stdin.write(next.typed);
    }
  };
  child.stdin.on('error', () => {});
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text;
    answer();
  });
  answer();
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, shown }));
  });
}
