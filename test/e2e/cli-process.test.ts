import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
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

describe('signals', () => {
  test('the first one ends a followed log with 130', async () => {
    const { lastRunId } = await seedRunning();
    const child = home.start(['run', 'logs', '-f', lastRunId]);
    const ended = collect(child);
    await firstLine(child);
    child.kill('SIGINT');
    expect(await ended).toMatchObject({ exitCode: 130, signal: null });
  });

  test('the registry is stopped by TERM, with exit 0', async () => {
    const child = home.start(['registry', 'serve', '--port', '0', '-o', 'json']);
    const ended = collect(child);
    await firstLine(child);
    child.kill('SIGTERM');
    expect(await ended).toMatchObject({ exitCode: 0, signal: null });
  });

  test('the third one leaves at once', async () => {
    const child = home.start(['login', 'localhost:1', '-u', 'x', '--password-stdin']);
    // It waits for its standard input, which never comes.
    await once(child, 'spawn');
    await new Promise((resolve) => setTimeout(resolve, 500));
    const ended = once(child, 'close');
    for (let count = 0; count < 3; count++) {
      child.kill('SIGINT');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const [code] = await ended;
    expect(code).toBe(130);
  });
});
