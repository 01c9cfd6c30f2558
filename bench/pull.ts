import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createCipheriv } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { buildImage } from '../src/oci/image/index.ts';
import type { VirtualFile } from '../src/oci/layer/index.ts';
import { hostPlatform } from '../src/oci/names/index.ts';
import { openStore } from '../src/oci/store/index.ts';

const run = promisify(execFile);
const CHILD = fileURLToPath(new URL('support/pull-child.ts', import.meta.url));
const LAYERS = 5;
const FILES = 27_000;
const BYTES = 500e6;
/** Of each file that does not compress: brings 500 MB to about 180 MB. */
const NOISE = 0.33;

export interface BenchRow {
  readonly name: string;
  readonly limit: number;
  readonly value: number;
  readonly met: boolean;
}

/** The same bytes on every machine. */
function* layerFiles(layer: number): Generator<VirtualFile> {
  const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16, layer + 1), Buffer.alloc(16));
  const text = Buffer.from(
    'the quick brown fox jumps over the lazy dog; pack my box with five dozen jugs\n'.repeat(20_000),
  );
  const count = FILES / LAYERS;
  const mean = BYTES / FILES;
  for (let index = 0; index < count; index++) {
    const draw = cipher.update(Buffer.alloc(4)).readUInt32LE(0) / 2 ** 32;
    // Many small files and a few large ones, as in real images.
    const size = Math.min(1_000_000, Math.round(-Math.log(1 - draw) * mean));
    const noisy = Math.round(size * NOISE);
    const content = Buffer.concat([cipher.update(Buffer.alloc(noisy)), text.subarray(0, size - noisy)]);
    yield {
      path: `opt/part${layer}/dir${index % 180}/file${index}`,
      content,
      mode: index % 9 === 0 ? 0o755 : 0o644,
    };
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function startRegistry(
  directory: string,
): Promise<{ readonly host: string; readonly child: ChildProcess }> {
  const port = await freePort();
  const config = join(directory, 'registry.yml');
  await writeFile(
    config,
    `version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: ${directory}/registry}}\nhttp: {addr: "127.0.0.1:${port}"}\n`,
  );
  const child = spawn('docker-registry', ['serve', config], { stdio: 'ignore' });
  const host = `127.0.0.1:${port}`;
  for (let tries = 0; tries < 200; tries++) {
    if (
      await fetch(`http://${host}/v2/`).then(
        (answer) => answer.ok,
        () => false,
      )
    )
      return { host, child };
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error('docker-registry did not come up');
}

async function residentOfTree(pid: number): Promise<number> {
  const parents = new Map<number, number[]>();
  for (const name of await readdir('/proc')) {
    if (!/^[0-9]+$/.test(name)) continue;
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '');
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    parents.set(parent, [...(parents.get(parent) ?? []), Number(name)]);
  }
  let bytes = 0;
  const visit = async (id: number): Promise<void> => {
    const status = await readFile(`/proc/${id}/statm`, 'utf8').catch(() => '0 0');
    bytes += Number(status.split(' ')[1]) * 4096;
    for (const child of parents.get(id) ?? []) await visit(child);
  };
  await visit(pid);
  return bytes;
}

/** Wall time in ms with everything on disk at the end, and the most memory that the tree had at once. */
async function timed(
  directory: string,
  commands: readonly (readonly string[])[],
): Promise<{ ms: number; peak: number }> {
  await run('sync', []);
  const start = performance.now();
  let peak = 0;
  for (const [program, ...args] of commands) {
    const child = spawn(program as string, args, { stdio: ['ignore', 'ignore', 'inherit'] });
    let over = false;
    const code = new Promise<number | null>((resolve) => child.on('close', resolve)).finally(() => {
      over = true;
    });
    while (!over) {
      peak = Math.max(peak, await residentOfTree(child.pid ?? 0));
      await Promise.race([code, new Promise((resolve) => setTimeout(resolve, 50))]);
    }
    if ((await code) !== 0) throw new Error(`${program} ended with ${await code}`);
  }
  await run('sync', ['-f', directory]);
  return { ms: performance.now() - start, peak };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/**
 * Registry to usable root: ours against `docker pull` and against skopeo with umoci, empty stores, alternating.
 * Needs docker, docker-registry, skopeo and umoci, and root.
 */
export async function benchPull(options: { readonly rounds?: number } = {}): Promise<readonly BenchRow[]> {
  const directory = await mkdtemp(join(tmpdir(), 'skycap-bench-'));
  const { host, child } = await startRegistry(directory);
  const image = `${host}/bench/five:1`;
  try {
    await publish(directory, image);
    const times = { ours: [] as number[], docker: [] as number[], skopeo: [] as number[] };
    let peak = 0;
    for (let round = 0; round < (options.rounds ?? 3); round++) {
      const work = join(directory, `round${round}`);
      await mkdir(work);
      const ours = await timed(directory, [[process.execPath, CHILD, join(work, 'store'), image]]);
      peak = Math.max(peak, ours.peak);
      times.ours.push(ours.ms);
      times.docker.push((await timed(directory, [['docker', 'pull', '-q', image]])).ms);
      await run('docker', ['rmi', '-f', image]);
      const layout = join(work, 'layout');
      const both = await timed(directory, [
        ['skopeo', 'copy', '-q', '--src-tls-verify=false', `docker://${image}`, `oci:${layout}:1`],
        ['umoci', 'unpack', '--image', `${layout}:1`, join(work, 'bundle')],
      ]);
      times.skopeo.push(both.ms);
      await rm(work, { recursive: true, force: true });
    }
    const ours = median(times.ours);
    console.error({ ms: times, peakMegabytes: peak / 1e6 });
    return [
      atMost('pull: ours / docker pull', ours / median(times.docker), 1),
      atMost('pull: ours / (skopeo + umoci)', ours / median(times.skopeo), 1 / 1.2),
      atMost('pull: peak memory of the process tree, MB', peak / 1e6, 200),
    ];
  } finally {
    child.kill();
    await rm(directory, { recursive: true, force: true });
  }
}

async function publish(directory: string, image: string): Promise<void> {
  const store = await openStore({ directory: join(directory, 'made') });
  const transfer = { signal: new AbortController().signal, emit: () => {} };
  const layers = Array.from({ length: LAYERS }, (_, layer) => ({ files: layerFiles(layer) }));
  const platform = hostPlatform({ platform: process.platform, arch: process.arch });
  const made = await buildImage(store, { layers, config: {}, reference: image, platform }, transfer);
  console.error(`image: ${Math.round(made.size / 1e6)} MB packed`);
  await store[Symbol.asyncDispose]();
  await run('skopeo', [
    'copy',
    '-q',
    '--dest-tls-verify=false',
    `oci:${directory}/made:${image}`,
    `docker://${image}`,
  ]);
  await rm(join(directory, 'made'), { recursive: true });
}

function atMost(name: string, value: number, limit: number): BenchRow {
  return { name, limit, value: Math.round(value * 1000) / 1000, met: value <= limit };
}

export function bench(): Promise<readonly BenchRow[]> {
  return benchPull({ rounds: 3 });
}
