// To a mounted root of which every entry was looked at: layers as file-system images against layers as folders (from
// the registry, and from blobs that are there), and against the tools that people use. Empty stores, alternating,
// everything on disk at the end; nothing is deleted before (see oci.ts). Needs docker, podman, docker-registry, skopeo and umoci, and root.
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { mountBinaries } from '../src/engine/oci-runtime/init/binary.ts';
import type { BenchRow } from './run.ts';
import { ratio } from './support/alternate.ts';
import { buildLibrary, childProgram } from './support/build.ts';
import { atMost, layerFiles, publish, run, startRegistry, type Timed, timed } from './support/peers.ts';

const CHILD = childProgram('root-child');
const ROOT = fileURLToPath(new URL('support/usable-root.sh', import.meta.url));
const ROUNDS = 3;

export async function bench(): Promise<readonly BenchRow[]> {
  buildLibrary();
  const directory = await mkdtemp(join(tmpdir(), 'skycap-'));
  const { host, child } = await startRegistry(directory);
  const mounter = join(directory, 'mount');
  await writeFile(mounter, Buffer.from(mountBinaries[process.arch] as string, 'base64'));
  await chmod(mounter, 0o755);
  const images: string[] = [];
  const times = new Map<string, Timed[]>();
  const note = (name: string, took: Timed): void => void times.set(name, [...(times.get(name) ?? []), took]);
  const against = (one: string, other: string): number => ratio(times.get(one) ?? [], times.get(other) ?? []);
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const image = `${host}/bench/mounted:${round}`;
      const layers = Array.from({ length: 5 }, (_, layer) => ({
        files: layerFiles(layer + 200 + 5 * round),
      }));
      await publish(directory, image, layers);
      images.push(image);
      const work = join(directory, `r${round}`);
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
          if (from === 'store') await timed(directory, [ours('blobs')]);
          note(`${form}, ${from}`, await timed(directory, [ours(from), root]));
        }
      }
      for (const [name, took] of Object.entries(await peers(directory, work, image))) note(name, took);
    }
    const megabytes = (name: string): number =>
      Math.max(...(times.get(name) ?? []).map(({ peak }) => peak)) / 1e6;
    for (const [name, took] of times)
      console.error(
        name,
        took.map(({ ms }) => Math.round(ms)),
        megabytes(name),
      );
    const erofs = 'erofs, registry';
    return [
      atMost('registry to a walked root: EROFS / folders', against(erofs, 'folder, registry'), 1 / 1.5),
      atMost('blobs to a walked root: EROFS / folders', against('erofs, store', 'folder, store'), 1 / 1.5),
      atMost('registry to a walked root: EROFS / docker pull', against(erofs, 'docker'), 1 / 2.5),
      atMost('registry to a walked root: EROFS / podman pull', against(erofs, 'podman'), 1 / 2.5),
      atMost('registry to a walked root: EROFS / (skopeo + umoci)', against(erofs, 'umoci'), 1 / 3),
      atMost('EROFS: peak memory of the process tree, MB', megabytes('erofs, registry'), 200),
    ];
  } finally {
    await run('docker', ['rmi', '-f', ...images]).catch(() => undefined);
    child.kill();
    await rm(directory, { recursive: true, force: true });
  }
}

async function peers(
  directory: string,
  work: string,
  image: string,
): Promise<Readonly<Record<'docker' | 'podman' | 'umoci', Timed>>> {
  const docker = await timed(directory, [['docker', 'pull', '-q', image]]);
  const own = ['--root', join(work, 'root'), '--runroot', join(work, 'r')];
  const podman = await timed(directory, [['podman', ...own, 'pull', '-q', '--tls-verify=false', image]]);
  const layout = join(work, 'layout');
  const umoci = await timed(directory, [
    ['skopeo', 'copy', '-q', '--src-tls-verify=false', `docker://${image}`, `oci:${layout}:1`],
    ['umoci', 'unpack', '--image', `${layout}:1`, join(work, 'bundle')],
  ]);
  return { docker, podman, umoci };
}
