// The OCI library against its peers: blobs, roots, many small files, pushes, copies, packing, memory. Alternating,
// medians, everything on disk at the end. Needs docker, podman, docker-registry, skopeo, umoci, GNU tar and gzip, and
// root. Nothing is deleted before the end: ext4 gives no inode out again in the minutes after it was freed, and looks
// for another from the start each time, so that creating a file in a place just emptied costs five times as much.
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchRow } from './run.ts';
import { alternate, ROUNDS, ratio } from './support/alternate.ts';
import { buildLibrary, childProgram } from './support/build.ts';
import { copies, hugeLayer, packing, pushes } from './support/oci-rows.ts';
import { atLeast, atMost, layerFiles, median, publish, run, startRegistry, timed } from './support/peers.ts';

const PULL = childProgram('pull-child');
const ROOT = childProgram('root-child');
/** Each takes seconds, and files are made at two speeds. */
const SMALL_ROUNDS = 7;

export async function bench(): Promise<readonly BenchRow[]> {
  buildLibrary();
  const directory = await mkdtemp(join(tmpdir(), 'skycap-'));
  const { host, child: registry } = await startRegistry(directory);
  try {
    return [
      ...(await pulls(directory, host)),
      ...(await smallFiles(directory, host)),
      ...(await pushes(directory, host)),
      ...(await copies(directory, host)),
      ...(await packing(directory)),
      ...(await hugeLayer(directory, host)),
    ];
  } finally {
    registry.kill();
    await rm(directory, { recursive: true, force: true });
  }
}

async function pulls(directory: string, host: string): Promise<readonly BenchRow[]> {
  const image = (round: number): string => `${host}/bench/five:${round}`;
  for (let round = 0; round < ROUNDS; round++) {
    const layers = Array.from({ length: 5 }, (_, layer) => ({ files: layerFiles(layer + 5 * round) }));
    await publish(directory, image(round), layers);
  }
  const skopeo = (layout: string, round: number): readonly string[] => [
    'skopeo',
    'copy',
    '-q',
    '--src-tls-verify=false',
    `docker://${image(round)}`,
    `oci:${layout}:1`,
  ];
  const blobs = await alternate(directory, {
    ours: (work, round) =>
      timed(work, [[process.execPath, PULL, join(work, 'store'), image(round), 'blobs']]),
    skopeo: (work, round) => timed(work, [skopeo(join(work, 'layout'), round)]),
  });
  const roots = await alternate(directory, {
    ours: (work, round) =>
      timed(
        work,
        [[process.execPath, PULL, join(work, 'store'), image(round), 'unpack']],
        join(work, 'store'),
      ),
    docker: async (work, round) => {
      const walk = `docker image inspect -f '{{.GraphDriver.Data.LowerDir}}:{{.GraphDriver.Data.UpperDir}}' ${image(round)} |
        tr : '\\n' | xargs -I% find % -type f -size -1`;
      return await timed(work, [
        ['docker', 'pull', '-q', image(round)],
        ['sh', '-c', walk],
      ]);
    },
    podman: async (work, round) => {
      const root = ['--root', join(work, 'root'), '--runroot', join(work, 'r')];
      const pull = ['podman', ...root, 'pull', '-q', '--tls-verify=false', image(round)];
      return await timed(work, [pull], join(work, 'root'));
    },
    umoci: (work, round) =>
      timed(
        work,
        [
          skopeo(join(work, 'layout'), round),
          ['umoci', 'unpack', '--image', `${join(work, 'layout')}:1`, join(work, 'b')],
        ],
        join(work, 'b'),
      ),
  });
  // From the store, and without the disk's part: what is asked is whether several layers are unpacked on all cores.
  const unpacking = await alternate(directory, {
    ours: async (work, round) => {
      const store = join(work, 'store');
      await run(process.execPath, [PULL, store, image(round), 'blobs']);
      return await timed(work, [
        [process.execPath, ROOT, 'folder', store, image(round), join(work, 'paths'), 'store'],
      ]);
    },
  });
  await run('docker', ['rmi', '-f', ...Array.from({ length: ROUNDS }, (_, round) => image(round))]);
  return [
    atMost('registry to store, blobs: ours / skopeo copy', ratio(blobs.ours, blobs.skopeo), 1),
    atMost('registry to usable root: ours / docker pull', ratio(roots.ours, roots.docker), 1),
    atMost('registry to usable root: ours / podman pull', ratio(roots.ours, roots.podman), 1),
    atMost('registry to usable root: ours / (skopeo + umoci)', ratio(roots.ours, roots.umoci), 1 / 1.3),
    atLeast(
      'five layers to folders: cores that work',
      median(unpacking.ours.map(({ busyMs, commandsMs }) => busyMs / commandsMs)),
      1.2,
    ),
  ];
}

/** A layer of 20,000 small files into a folder, against GNU tar on the same archive. */
async function smallFiles(directory: string, host: string): Promise<readonly BenchRow[]> {
  const image = `${host}/bench/small:1`;
  await publish(directory, image, [{ files: layerFiles(7, { files: 20_000, bytes: 40e6 }) }]);
  const layout = join(directory, 'small');
  await run('skopeo', ['copy', '-q', '--src-tls-verify=false', `docker://${image}`, `oci:${layout}:1`]);
  const blobs = await readdir(join(layout, 'blobs/sha256'));
  const sizes = await Promise.all(
    blobs.map(async (name) => {
      const { stdout } = await run('stat', ['-c', '%s', join(layout, 'blobs/sha256', name)]);
      return { name, size: Number(stdout) };
    }),
  );
  const layer = sizes.toSorted((a, b) => b.size - a.size)[0]?.name ?? '';
  const times = await alternate(
    directory,
    {
      ours: async (work) => {
        const store = join(work, 'store');
        const [paths, begun] = [join(work, 'paths'), join(work, 'begun')];
        await run(process.execPath, [PULL, store, image, 'blobs']);
        const took = await timed(work, [
          [process.execPath, ROOT, 'folder', store, image, paths, 'store', begun],
        ]);
        // A start of Node is no part of a layer.
        return { ...took, ms: took.ms - Number(await readFile(begun, 'utf8')) };
      },
      tar: async (work) => {
        await mkdir(join(work, 'root'));
        return timed(work, [['tar', '-xzf', join(layout, 'blobs/sha256', layer), '-C', join(work, 'root')]]);
      },
    },
    SMALL_ROUNDS,
  );
  return [atMost('20,000 small files into a folder: ours / GNU tar', ratio(times.ours, times.tar), 1.1)];
}
