import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { mountBinaries } from '../src/engine/oci-runtime/init/binary.ts';
import type { BenchRow } from './run.ts';
import { atMost, median, publish, startRegistry, timed } from './support/peers.ts';

const run = promisify(execFile);
const CHILD = fileURLToPath(new URL('support/root-child.ts', import.meta.url));
const ROOT = fileURLToPath(new URL('support/usable-root.sh', import.meta.url));

/**
 * To a mounted root of which every entry was looked at: layers as file-system images against layers as folders (from
 * the registry, and from blobs that are there), docker, and skopeo with umoci. Empty stores, alternating, each ending
 * after syncfs. Needs docker, docker-registry, skopeo and umoci, and root.
 */
export async function bench(options: { readonly rounds?: number } = {}): Promise<readonly BenchRow[]> {
  const directory = await mkdtemp(join(tmpdir(), 'skycap-bench-'));
  const { host, child } = await startRegistry(directory);
  const image = `${host}/bench/five:1`;
  const mounter = join(directory, 'mount');
  await writeFile(mounter, Buffer.from(mountBinaries[process.arch] as string, 'base64'));
  await chmod(mounter, 0o755);
  const times = new Map<string, number[]>();
  const peaks = new Map<string, number>();
  const note = (name: string, { ms, peak }: { readonly ms: number; readonly peak: number }): void => {
    times.set(name, [...(times.get(name) ?? []), Math.round(ms)]);
    peaks.set(name, Math.max(peaks.get(name) ?? 0, peak));
  };
  const of = (name: string): number => median(times.get(name) ?? []);
  try {
    await publish(directory, image);
    for (let round = 0; round < (options.rounds ?? 3); round++) {
      const work = join(directory, `round${round}`);
      await mkdir(work);
      const paths = join(work, 'paths');
      const root = ['unshare', '--mount', 'sh', ROOT, paths, mounter];
      for (const form of round % 2 === 0 ? ['folder', 'erofs'] : ['erofs', 'folder']) {
        for (const from of ['registry', 'store']) {
          const store = join(work, `${form}-${from}`);
          const ours = (mode: string): readonly string[] => [
            process.execPath,
            CHILD,
            form,
            store,
            image,
            paths,
            mode,
          ];
          if (from === 'store') await timed(directory, [ours('pull')]);
          note(`${form}, ${from}`, await timed(directory, [ours(from), root]));
          await rm(store, { recursive: true });
        }
      }
      note('docker', await timed(directory, [['docker', 'pull', '-q', image]]));
      await run('docker', ['rmi', '-f', image]);
      const layout = join(work, 'layout');
      note(
        'skopeo and umoci',
        await timed(directory, [
          ['skopeo', 'copy', '-q', '--src-tls-verify=false', `docker://${image}`, `oci:${layout}:1`],
          ['umoci', 'unpack', '--image', `${layout}:1`, join(work, 'bundle')],
        ]),
      );
      await rm(work, { recursive: true, force: true });
      console.error(round, Object.fromEntries(times));
    }
    console.error('most memory of the process tree, bytes', Object.fromEntries(peaks));
    return [
      atMost(
        'to a root: EROFS / folders, from the registry',
        of('erofs, registry') / of('folder, registry'),
        1 / 1.5,
      ),
      atMost('to a root: EROFS / folders, from blobs', of('erofs, store') / of('folder, store'), 1 / 1.5),
      atMost('to a root: EROFS / docker pull', of('erofs, registry') / of('docker'), 1 / 2.5),
      atMost('to a root: EROFS / (skopeo + umoci)', of('erofs, registry') / of('skopeo and umoci'), 1 / 3),
      atMost(
        'to a root: peak memory of the process tree, EROFS, MB',
        (peaks.get('erofs, registry') ?? 0) / 1e6,
        200,
      ),
    ];
  } finally {
    child.kill();
    await rm(directory, { recursive: true, force: true });
  }
}
