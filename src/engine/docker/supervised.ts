import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { engineError } from '../errors.ts';
import { type SupervisedExit, type SupervisorAnswer, type SupervisorOrder, supervise } from './supervisor.ts';

/** A supervisor that has been started and waits for the word. */
export class SupervisorProcess {
  readonly #child: ChildProcess;
  readonly #answer: Promise<SupervisorAnswer>;

  constructor(order: SupervisorOrder) {
    this.#child = spawn(process.execPath, ['--no-warnings', '-e', `(${supervise.toString()})()`], {
      cwd: '/',
      // Nothing of ours: a variable with a secret would stay visible in /proc for as long as the step runs.
      env: {},
      stdio: ['pipe', 'pipe', 'ignore'],
      detached: true,
    });
    this.#child.stdin?.on('error', () => {});
    this.#child.stdin?.write(`${JSON.stringify(order)}\n`);
    this.#answer = new Promise((resolve, reject) => {
      let text = '';
      this.#child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        const end = text.indexOf('\n');
        if (end !== -1) resolve(JSON.parse(text.slice(0, end)) as SupervisorAnswer);
      });
      this.#child.once('error', reject);
      this.#child.once('exit', (code, signal) => {
        reject(
          engineError(
            'ENGINE_START_FAILED',
            `the supervisor of ${order.container} ended early (${signal ?? code})`,
            {
              hint: 'run the action again',
            },
          ),
        );
      });
    });
    this.#answer.catch(() => {});
  }

  /** Attaches to the container, which must exist by now, and starts it. */
  async start(): Promise<SupervisorAnswer> {
    this.#child.stdin?.write('start\n');
    const answer = await this.#answer;
    this.letGo();
    return answer;
  }

  /** Before `start`: it ends. After: it goes on by itself, and this process may end. */
  letGo(): void {
    this.#child.stdin?.end();
    this.#child.stdout?.destroy();
    this.#child.unref();
  }
}

export async function exitOf(directory: string): Promise<SupervisedExit | undefined> {
  try {
    return JSON.parse(await readFile(join(directory, 'exit.json'), 'utf8')) as SupervisedExit;
  } catch {
    return undefined;
  }
}

/** Whether the supervisor that worked in this folder still runs. Its pid counts only with its time of birth. */
export function supervisorLives(directory: string): boolean {
  try {
    const { pid, born } = JSON.parse(readFileSync(join(directory, 'supervisor.json'), 'utf8')) as {
      pid: number;
      born: string;
    };
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[19] === born && fields[0] !== 'Z';
  } catch {
    return false;
  }
}
