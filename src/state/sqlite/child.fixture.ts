// A process of its own for the tests of locks and crashes: node child.fixture.ts COMMAND DIRECTORY [ARGUMENT].
import { spawn } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { isSkycapError } from '../../kernel/index.ts';
import { openState } from '../index.ts';
import type { InstallationLock, StateStore } from '../port.ts';
import { anInstallation, anOutput, aRun } from './samples.fixture.ts';

const KEY = { namespace: 'dev', name: 'app' };
const [command = '', directory = '', argument = ''] = process.argv.slice(2);

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Until the test kills this process or closes its standard input. */
async function untilKilled(): Promise<void> {
  process.stdin.resume();
  await new Promise((resolve) => process.stdin.once('end', resolve));
}

async function lockWhenFree(store: StateStore): Promise<InstallationLock> {
  for (;;) {
    try {
      return await store.lock(KEY, 'exclusive', { runId: `run-${process.pid}`, action: 'race' });
    } catch (error) {
      if (!isSkycapError(error, 'STATE_LOCKED')) throw error;
      await sleep(Math.random() * 10);
    }
  }
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function pidIn(file: string): number | undefined {
  try {
    return Number(readFileSync(file, 'utf8')) || undefined;
  } catch {
    return undefined;
  }
}

const commands: Readonly<Record<string, (store: StateStore) => Promise<void>>> = {
  /** Takes the lock in mode ARGUMENT, with a child of its own that outlives it. */
  async hold(store) {
    const mode = argument === 'shared' ? 'shared' : 'exclusive';
    const lock = await store.lock(KEY, mode, { runId: 'run-of-child', action: 'upgrade' });
    const orphan = spawn('sleep', ['60'], { detached: true, stdio: 'ignore' });
    say(`held ${orphan.pid}`);
    await untilKilled();
    await lock[Symbol.asyncDispose]();
  },
  /** ARGUMENT times alone in the critical section, which a file with our pid stands for. */
  async race(store) {
    const inside = join(directory, 'inside');
    for (let round = 0; round < Number(argument); round++) {
      const lock = await lockWhenFree(store);
      const other = pidIn(inside);
      // A killed process lets go of its locks a moment before it is gone, and leaves the file; a living one removes it.
      while (other !== undefined && alive(other) && pidIn(inside) === other) await sleep(1);
      say(other !== undefined && pidIn(inside) !== other ? `violated by ${other}` : 'entered');
      writeFileSync(inside, String(process.pid));
      await sleep(Math.random() * 4);
      rmSync(inside, { force: true });
      await lock[Symbol.asyncDispose]();
    }
  },
  /** Says each record that is durable, for ever. */
  async write(store) {
    for (let n = 0; ; n++) {
      await store.putRun(aRun(`run-${n}`));
      await store.putOutput(anOutput(`run-${n}`, 'out', { sensitive: true }));
      say(String(n));
    }
  },
  /** Opens a new store together with others. */
  async open(store) {
    const id = `child-${process.pid}`;
    await store.putInstallation(anInstallation(id, { parameters: { p: { sensitive: true, value: id } } }));
    say(await store.fingerprint(Buffer.from('same')));
  },
  /** Stops in the middle of saving state. */
  async save(store) {
    await store.saveState(
      'INST-app',
      'run-child',
      (async function* () {
        for (let n = 0; n < 8; n++) yield Buffer.alloc(256 * 1024, 1);
        say('half');
        await untilKilled();
      })(),
    );
  },
  /** Writes ARGUMENT lines, then leaves half a line. */
  async log(store) {
    const log = await store.openLog('run-log');
    for (let n = 0; n < Number(argument); n++) {
      log.write(JSON.stringify({ n }));
      await log.flush();
    }
    say('written');
    await untilKilled();
  },
  /** Once, or again and again with ARGUMENT. */
  async rotate(store) {
    do {
      await (store as Awaited<ReturnType<typeof openState>>).rotateKeys();
      say('rotated');
      await sleep(0);
    } while (argument !== '');
  },
};

await using store = await openState({ directory });
await commands[command]?.(store);
