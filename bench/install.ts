// The program as a whole on the embedded engine: a one-step install against `node -e 0`, what each further no-op step
// costs, and that against a bare run of the runtime and against `docker run`. Alternating, medians. For root.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore } from '../src/oci/store/index.ts';
import { makeImage } from '../src/testkit/images/index.ts';
import type { BenchRow } from './run.ts';
import { openBareRun } from './support/bare-run.ts';
import { calmRounds } from './support/steal.ts';

const root = join(import.meta.dirname, '..');
const rounds = 9;
/** A round: about as long as the steps beside it. */
const BARE_RUNS = 20;

export async function bench(): Promise<readonly BenchRow[]> {
  const directory = mkdtempSync(join(tmpdir(), 'skycap-bench-'));
  const store = await openStore({ directory: join(directory, 'registry') });
  await makeImage(store, { busybox: true, reference: 'localhost/tools:1' });
  await store[Symbol.asyncDispose]();
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: directory,
    XDG_CONFIG_HOME: join(directory, 'config'),
    XDG_DATA_HOME: join(directory, 'data'),
    XDG_CACHE_HOME: join(directory, 'cache'),
    SKYCAP_ENGINE: 'oci-runtime',
  };
  // In a process of its own: the measuring ones are waited for synchronously.
  const server = spawn(join(root, 'bin/skycap'), ['registry', 'serve', '--port', '0'], {
    env: { ...env, SKYCAP_STORE_DIRECTORY: join(directory, 'registry') },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [line] = (await once(server.stdout, 'data')) as [Buffer];
  const host = line.toString().trim();
  const skycap = (cwd: string, ...args: string[]): number =>
    time(join(root, 'bin/skycap'), args, { cwd, env });
  try {
    const one = bundle(directory, 'one', { image: `${host}/tools:1`, steps: 1 });
    const many = bundle(directory, 'many', { image: `${host}/tools:1`, steps: 51 });
    for (const cwd of [one, many]) skycap(cwd, 'lock');
    let installation = 0;
    const install = (cwd: string): number => {
      installation += 1;
      return skycap(cwd, 'install', `i${installation}`);
    };
    // Images unpacked, code compiled.
    for (const cwd of [one, many]) install(cwd);

    const node: number[] = [];
    const short: number[] = [];
    const long: number[] = [];
    const docker: number[] = [];
    const bare: number[] = [];
    await using runtime = await openBareRun();
    const hasDocker = spawnSync('docker', ['version'], { stdio: 'ignore' }).status === 0;
    if (hasDocker) time('docker', ['pull', '-q', `${host}/tools:1`], { env });
    for (const round of calmRounds(rounds)) {
      const took = {
        node: time(process.execPath, ['-e', '0'], { env }),
        short: install(one),
        long: install(many),
        bare: Array.from({ length: BARE_RUNS }, () => runtime.run()),
        docker: hasDocker
          ? [time('docker', ['run', '--rm', '--network', 'none', `${host}/tools:1`, 'true'], { env })]
          : [],
      };
      if (!round.keep()) continue;
      node.push(took.node);
      short.push(took.short);
      long.push(took.long);
      bare.push(...took.bare);
      docker.push(...took.docker);
    }
    const step = (median(long) - median(short)) / 50;
    const rows = [
      row('one-step install, times `node -e 0`', 10, median(short) / median(node)),
      row('each further no-op step, ms', 20, step),
      row('no-op step, ms over a bare crun run of its configuration', 10, step - median(bare)),
    ];
    console.error(`a bare crun run takes ${median(bare).toFixed(1)} ms`);
    if (hasDocker)
      rows.push({
        name: 'no-op step, times faster than `docker run --rm`',
        limit: 10,
        value: median(docker) / step,
        met: median(docker) / step >= 10,
      });
    return rows;
  } finally {
    server.kill();
    await once(server, 'close');
    rmSync(directory, { recursive: true, force: true });
  }
}

function bundle(
  directory: string,
  name: string,
  wish: { readonly image: string; readonly steps: number },
): string {
  const folder = join(directory, name);
  mkdirSync(folder);
  const steps = Array.from(
    { length: wish.steps },
    (_, n) => `  - {description: s${n}, invoke: {name: tools, action: {command: ["true"]}}}\n`,
  );
  writeFileSync(
    join(folder, 'porter.yaml'),
    `name: ${name}\nversion: 1.0.0\ninvocationImages:\n  - {name: tools, image: "${wish.image}", network: none}\ninstall:\n${steps.join('')}`,
  );
  return folder;
}

function time(
  program: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env: Record<string, string> },
): number {
  const before = performance.now();
  const ended = spawnSync(program, [...args], { ...options, stdio: ['ignore', 'ignore', 'pipe'] });
  if (ended.status !== 0)
    throw new Error(`${program} ${args.join(' ')} ended with ${ended.status}: ${ended.stderr.toString()}`);
  return performance.now() - before;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
}

function row(name: string, limit: number, value: number): BenchRow {
  return { name, limit, value, met: value <= limit };
}
