// What a no-op step costs on the embedded engine over a bare run of the same configuration, byte for byte, by the same
// runtime, interleaved from one process. For root.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CaseContext } from '../src/engine/contract/context.ts';
import { crunFixture } from '../src/engine/oci-runtime/fixture.contract.ts';
import type { BenchRow } from './run.ts';

const rounds = 50;
const noop = { image: 'shell', argv: ['true'], fake: () => 0 } as const;

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
}

/** Runs like the engine's, without the engine: same folder tree, same mount namespace, one spawn of the runtime. */
function bare(bundle: string, holder: number, id: string): number {
  const before = performance.now();
  const ended = spawnSync(
    'nsenter',
    [
      `--mount=/proc/${holder}/ns/mnt`,
      '/usr/bin/crun',
      '--root',
      join(bundle, 'state'),
      '--cgroup-manager=disabled',
      'run',
      '--bundle',
      bundle,
      id,
    ],
    { stdio: 'ignore' },
  );
  if (ended.status !== 0) throw new Error(`bare run ended with ${ended.status}`);
  return performance.now() - before;
}

/** What entering the namespace adds to a bare run: taken off again. */
function entering(holder: number): number {
  const time = (command: string, args: readonly string[]): number => {
    const before = performance.now();
    spawnSync(command, args, { stdio: 'ignore' });
    return performance.now() - before;
  };
  return time('nsenter', [`--mount=/proc/${holder}/ns/mnt`, '/bin/true']) - time('/bin/true', []);
}

export async function bench(): Promise<readonly BenchRow[]> {
  const fixture = await crunFixture();
  const context = new CaseContext(fixture);
  const engineMs: number[] = [];
  const bareMs: number[] = [];
  const enteringMs: number[] = [];
  try {
    const session = await context.session();
    const control = join(fixture.directories.runtime, session.runId);
    const holder = Number.parseInt(readFileSync(join(control, 'h0', 'holder'), 'utf8'), 10);
    const bundle = join(fixture.directories.runtime, 'bare');
    mkdirSync(bundle);
    const kept = await context.run(session, noop);
    copyFileSync(join(control, 'c', kept.containerId, 'config.json'), join(bundle, 'config.json'));
    for (let round = -3; round < rounds; round += 1) {
      const before = performance.now();
      const ran = await context.run(session, noop);
      const took = performance.now() - before;
      await session.release(ran.containerId, { keep: false });
      const alone = bare(bundle, holder, `bare-${round + 10}`);
      if (round < 0) continue;
      engineMs.push(took);
      bareMs.push(alone);
      enteringMs.push(entering(holder));
    }
    const entered = median(enteringMs);
    const over = engineMs.map((value, at) => value - ((bareMs[at] as number) - entered));
    console.error(
      `bare crun run ${(median(bareMs) - entered).toFixed(1)} ms, a step through the engine ${median(engineMs).toFixed(1)} ms`,
    );
    const value = median(over);
    return [
      {
        name: 'step through the engine, ms over bare crun run of its configuration',
        limit: 10,
        value,
        met: value <= 10,
      },
    ];
  } finally {
    await context[Symbol.asyncDispose]();
    await fixture[Symbol.asyncDispose]();
  }
}
