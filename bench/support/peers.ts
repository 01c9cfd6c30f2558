// What the transfer benches share: an image of the size of real ones, a registry, and a clock that ends on disk.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createCipheriv, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { buildImage } from '../../src/oci/image/index.ts';
import type { VirtualFile } from '../../src/oci/layer/index.ts';
import { hostPlatform } from '../../src/oci/names/index.ts';
import { openStore } from '../../src/oci/store/index.ts';
import type { BenchRow } from '../run.ts';

export const run = promisify(execFile);

const LAYERS = 5;
const FILES = 27_000;
const BYTES = 500e6;
/** Of each file that does not compress: brings 500 MB to about 180 MB. */
const NOISE = 0.33;

/** Other bytes in each run: what an earlier one left with a daemon is of no use to it. */
const SALT = randomBytes(16);

/** Many small files and a few large ones, as in real images. */
export function* layerFiles(
  layer: number,
  size: { readonly files: number; readonly bytes: number } = {
    files: FILES / LAYERS,
    bytes: BYTES / LAYERS,
  },
): Generator<VirtualFile> {
  const cipher = createCipheriv('aes-128-ctr', SALT, Buffer.alloc(16, layer + 1));
  const text = Buffer.from(
    'the quick brown fox jumps over the lazy dog; pack my box with five dozen jugs\n'.repeat(20_000),
  );
  const mean = size.bytes / size.files;
  for (let index = 0; index < size.files; index++) {
    const draw = cipher.update(Buffer.alloc(4)).readUInt32LE(0) / 2 ** 32;
    const length = Math.min(1_000_000, Math.round(-Math.log(1 - draw) * mean));
    const noisy = Math.round(length * NOISE);
    const content = Buffer.concat([cipher.update(Buffer.alloc(noisy)), text.subarray(0, length - noisy)]);
    yield {
      path: `opt/part${layer}/dir${index % 180}/file${index}`,
      content,
      mode: index % 9 === 0 ? 0o755 : 0o644,
    };
  }
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Debian's docker-registry on loopback, storing below `directory`. */
export async function startRegistry(
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
    const answers = await fetch(`http://${host}/v2/`).then(
      (answer) => answer.ok,
      () => false,
    );
    if (answers) return { host, child };
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error('docker-registry did not come up');
}

/** Puts an image of these layers at `image` in a registry. @returns its size, in bytes packed */
export async function publish(
  directory: string,
  image: string,
  layers: readonly { readonly files: Iterable<VirtualFile> }[] = Array.from(
    { length: LAYERS },
    (_, layer) => ({ files: layerFiles(layer) }),
  ),
): Promise<number> {
  const made = join(directory, 'made');
  let size = 0;
  {
    await using store = await openStore({ directory: made });
    const transfer = { signal: new AbortController().signal, emit: () => {} };
    const platform = hostPlatform({ platform: process.platform, arch: process.arch });
    ({ size } = await buildImage(store, { layers, config: {}, reference: image, platform }, transfer));
    console.error(`image: ${Math.round(size / 1e6)} MB packed`);
  }
  await run('skopeo', ['copy', '-q', '--dest-tls-verify=false', `oci:${made}:${image}`, `docker://${image}`]);
  await rm(made, { recursive: true });
  return size;
}

/** Resident bytes of a process and all below it, asked of them alone: all of /proc takes a tenth of a processor. */
function residentOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // proc_pid_stat(5): rss in pages, the 24th field.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    );
    return children.reduce((sum, child) => sum + residentOf(child), Number(fields[21]) * 4096);
  } catch {
    // It has ended.
    return 0;
  }
}

/** proc_stat(5): user, nice, system, irq and softirq of all processors, in ticks of 10 ms. */
function busyNow(): number {
  const [, ...ticks] = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').split(/ +/).map(Number);
  return [0, 1, 2, 5, 6].reduce((sum, at) => sum + (ticks[at] ?? 0), 0) * 10;
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

export function atMost(name: string, value: number, limit: number): BenchRow {
  return { name, limit, value: Math.round(value * 1000) / 1000, met: value <= limit };
}

export function atLeast(name: string, value: number, limit: number): BenchRow {
  return { name, limit, value: Math.round(value * 1000) / 1000, met: value >= limit };
}

export interface Timed {
  /** Wall time with everything on disk at the end. */
  readonly ms: number;
  /** Wall time of the commands alone. */
  readonly commandsMs: number;
  /** Of all processors while the commands ran, in ms: files are made in threads of the kernel, too. */
  readonly busyMs: number;
  /** The most memory that the processes had at once, in bytes. */
  readonly peak: number;
}

/** Runs commands one after the other, syncs `directory` and walks `walk`, if any. */
export async function timed(
  directory: string,
  commands: readonly (readonly string[])[],
  walk?: string,
): Promise<Timed> {
  await run('sync', []);
  const start = performance.now();
  let peak = 0;
  const busyBefore = busyNow();
  for (const [program, ...args] of commands) {
    const child = spawn(program as string, args, { stdio: ['ignore', 'ignore', 'inherit'] });
    let over = false;
    const code = new Promise<number | null>((resolve) => child.on('close', resolve)).finally(() => {
      over = true;
    });
    while (!over) {
      peak = Math.max(peak, residentOf(child.pid ?? 0));
      await Promise.race([code, new Promise((resolve) => setTimeout(resolve, 50))]);
    }
    if ((await code) !== 0) throw new Error(`${program} ended with ${await code}`);
  }
  const commandsMs = performance.now() - start;
  const busyMs = busyNow() - busyBefore;
  await run('sync', ['-f', directory]);
  if (walk !== undefined) await run('find', [walk, '-type', 'f', '-size', '-1']);
  return { ms: performance.now() - start, commandsMs, busyMs, peak };
}
