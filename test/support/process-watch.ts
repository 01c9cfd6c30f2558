import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { parentPort, Worker } from 'node:worker_threads';

/** What the command lines and environments of this host's processes said while it watched. */
export interface Watched {
  /** Names of the programs that were seen. */
  readonly programs: readonly string[];
  readonly commandLines: readonly string[];
  /** By program name, so that a test can tell whose environment it was. */
  readonly environments: readonly { readonly program: string; readonly text: string }[];
}

export interface ProcessWatch {
  stop(): Promise<Watched>;
}

/**
 * Looks at /proc again and again in a thread of its own. Only processes that began after it did, and only those of this
 * PID namespace: what a container runs is the bundle's, and its environment is where its values belong.
 */
export function watchProcesses(): ProcessWatch {
  const worker = new Worker(import.meta.filename);
  return {
    stop: () =>
      new Promise((resolve, reject) => {
        worker.once('message', (watched: Watched) => {
          void worker.terminate();
          resolve(watched);
        });
        worker.once('error', reject);
        worker.postMessage('stop');
      }),
  };
}

function watch(port: NonNullable<typeof parentPort>): void {
  const programs = new Set<string>();
  const commandLines = new Set<string>();
  const environments = new Map<string, { program: string; text: string }>();
  const ownNamespace = readlinkSync('/proc/self/ns/pid');
  const pids = (): readonly string[] => readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  // Hundreds, on some hosts: to read them all each time would take a processor.
  let before = new Set(pids());
  const look = (): void => {
    const now = pids();
    // A number whose process is gone may be given again.
    before = new Set(now.filter((pid) => before.has(pid)));
    for (const pid of now) {
      if (before.has(pid)) continue;
      try {
        if (readlinkSync(`/proc/${pid}/ns/pid`) !== ownNamespace) continue;
        const commandLine = readFileSync(`/proc/${pid}/cmdline`, 'latin1');
        if (commandLine === '') continue;
        const program = basename(commandLine.slice(0, commandLine.indexOf('\0')));
        programs.add(program);
        commandLines.add(Buffer.from(commandLine, 'latin1').toString());
        const text = readFileSync(`/proc/${pid}/environ`, 'latin1');
        environments.set(`${program}\0${text}`, { program, text: Buffer.from(text, 'latin1').toString() });
      } catch {
        // It ended while we looked.
      }
    }
  };
  const timer = setInterval(look, 3);
  port.once('message', () => {
    clearInterval(timer);
    look();
    port.postMessage({
      programs: [...programs],
      commandLines: [...commandLines],
      environments: [...environments.values()],
    } satisfies Watched);
  });
}

if (parentPort !== null) watch(parentPort);
