import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openState } from '../../src/state/index.ts';
import { seedState } from '../support/seed-state.ts';
import { collect, firstLine, type Home, makeHome, program } from '../support/skycap.ts';

let home: Home;

beforeEach(async () => {
  home = await makeHome();
});

afterEach(async () => {
  await home[Symbol.asyncDispose]();
});

function stateFolder(): string {
  return join(home.folder, 'data/skycap/state');
}

describe('a reader that goes away', () => {
  test('is no error', async () => {
    await seedState(stateFolder());
    const ran = await collect(
      spawn('bash', ['-c', `set -o pipefail; "${program}" list -o json | true; echo "\${PIPESTATUS[0]}"`], {
        env: home.env,
      }),
    );
    expect(ran.stderr).toBe('');
    expect(ran.stdout).toBe('0\n');
  });

  test('ends a log that is followed', async () => {
    const { lastRunId } = await seedRunning();
    const ran = await collect(
      spawn('bash', ['-c', `"${program}" run logs -f ${lastRunId} | head -n 1`], { env: home.env }),
    );
    expect(ran.stdout).toContain('hello');
  });
});

/** A run that says it is running, whose log grows while somebody reads. */
async function seedRunning(): Promise<{ readonly lastRunId: string }> {
  const seeded = await seedState(stateFolder());
  await using state = await openState({ directory: stateFolder() });
  const run = await state.getRun(seeded.lastRunId);
  if (run !== undefined) {
    const { finished: _finished, ...rest } = run;
    await state.putRun({ ...rest, state: 'running' });
  }
  await using log = await state.openLog(seeded.lastRunId);
  for (let count = 0; count < 2_000; count++) {
    log.write(
      JSON.stringify({
        type: 'step.output',
        step: 'apply',
        stream: 'stdout',
        text: `hello ${count} ${'x'.repeat(200)}\n`,
      }),
    );
  }
  return seeded;
}

/** Two signals of one kind that wait to be taken are one: resolves once the process took it, or is gone. */
async function taken({ pid }: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const bit = 1n << BigInt(constants.signals[signal] - 1);
  for (;;) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
    const pending = [...status.matchAll(/^(?:Sig|Shd)Pnd:\s*([0-9a-f]+)$/gm)];
    if (pending.every(([, mask]) => (BigInt(`0x${mask}`) & bit) === 0n)) return;
    await delay(5);
  }
}

describe('signals', () => {
  test('the first one ends a followed log with 130', async () => {
    const { lastRunId } = await seedRunning();
    const child = home.start(['run', 'logs', '-f', lastRunId]);
    const ended = collect(child);
    await firstLine(child);
    child.kill('SIGINT');
    const ran = await ended;
    expect(ran).toMatchObject({ exitCode: 130, signal: null });
    expect(ran.stderr).toContain('no longer watching; the run is not cancelled');
    expect(ran.stderr).not.toContain('kill');
  });

  test('the registry is stopped by TERM, with exit 0', async () => {
    const child = home.start(['registry', 'serve', '--port', '0', '-o', 'json']);
    const ended = collect(child);
    await firstLine(child);
    child.kill('SIGTERM');
    const ran = await ended;
    expect(ran).toMatchObject({ exitCode: 0, signal: null });
    expect(ran.stderr).toContain('stopping');
    expect(ran.stderr).not.toContain('kill');
  });

  test('the third one leaves at once', async () => {
    const child = home.start(['login', 'localhost:1', '-u', 'x', '--password-stdin']);
    const ended = once(child, 'close');
    child.stdin?.on('error', () => {});
    // More than a pipe holds: written means that it reads, and so listens to signals. The line never ends.
    await new Promise((resolve) => child.stdin?.write('x'.repeat(4 << 20), resolve));
    for (let count = 0; count < 3; count++) {
      child.kill('SIGINT');
      await taken(child, 'SIGINT');
    }
    expect(await ended).toEqual([130, null]);
  });
});
