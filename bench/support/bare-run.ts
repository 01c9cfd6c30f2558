// A bare run of a no-op step's own configuration, byte for byte, by the runtime that the embedded engine uses: what a
// step cannot cost less than. For root.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CaseContext } from '../../src/engine/contract/context.ts';
import { crunFixture } from '../../src/engine/oci-runtime/fixture.contract.ts';

const noop = { image: 'shell', argv: ['true'], fake: () => 0 } as const;

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

/** Runs the configuration once. @returns milliseconds, without those that entering the mount namespace takes */
export type BareRun = () => number;

/** A step's configuration, kept from a step that the engine ran in a session that stays open. */
export async function openBareRun(): Promise<{ readonly run: BareRun } & AsyncDisposable> {
  const fixture = await crunFixture();
  const context = new CaseContext(fixture);
  const close = async (): Promise<void> => {
    await context[Symbol.asyncDispose]();
    await fixture[Symbol.asyncDispose]();
  };
  try {
    const session = await context.session();
    const control = join(fixture.directories.runtime, session.runId);
    const holder = Number.parseInt(readFileSync(join(control, 'h0', 'holder'), 'utf8'), 10);
    const bundle = join(fixture.directories.runtime, 'bare');
    mkdirSync(bundle);
    const { containerId } = await context.run(session, noop);
    copyFileSync(join(control, 'c', containerId, 'config.json'), join(bundle, 'config.json'));
    let number = 0;
    const run = (): number => bare(bundle, holder, `bare-${number++}`) - entering(holder);
    for (let warm = 0; warm < 3; warm += 1) run();
    return { run, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}
