// The OCI library against its peers: blobs, roots, many small files, pushes, memory. Alternating, medians, everything
// on disk at the end. Needs docker, podman, docker-registry, skopeo, umoci and GNU tar, and root.
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildImage } from '../src/oci/image/index.ts';
import { hostPlatform } from '../src/oci/names/index.ts';
import { openStore } from '../src/oci/store/index.ts';
import type { BenchRow } from './run.ts';
import { buildLibrary, childProgram } from './support/build.ts';
import {
  atLeast,
  atMost,
  layerFiles,
  median,
  publish,
  run,
  startRegistry,
  type Timed,
  timed,
} from './support/peers.ts';

const PULL = childProgram('pull-child');
const PUSH = childProgram('push-child');
const ROUNDS = 3;

export async function bench(): Promise<readonly BenchRow[]> {
  buildLibrary();
  const directory = await mkdtemp(join(tmpdir(), 'skycap-bench-'));
  const { host, child: registry } = await startRegistry(directory);
  try {
    return [
      ...(await pulls(directory, host)),
      ...(await smallFiles(directory, host)),
      ...(await pushes(directory, host)),
      ...(await hugeLayer(directory, host)),
    ];
  } finally {
    registry.kill();
    await rm(directory, { recursive: true, force: true });
  }
}

/** Runs every contender once a round, each in a fresh folder. */
async function alternate<Name extends string>(
  directory: string,
  contenders: Readonly<Record<Name, (work: string) => Promise<Timed>>>,
): Promise<Readonly<Record<Name, readonly Timed[]>>> {
  const names = Object.keys(contenders) as Name[];
  const all = Object.fromEntries(names.map((name) => [name, [] as Timed[]])) as Record<Name, Timed[]>;
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const work = join(directory, 'work');
      await mkdir(work);
      all[name].push(await contenders[name](work));
      await rm(work, { recursive: true, force: true });
    }
  }
  console.error(Object.fromEntries(names.map((name) => [name, all[name].map(({ ms }) => Math.round(ms))])));
  return all;
}

const wall = (times: readonly Timed[]): number => median(times.map(({ ms }) => ms));

async function pulls(directory: string, host: string): Promise<readonly BenchRow[]> {
  const image = `${host}/bench/five:1`;
  await publish(directory, image);
  const skopeo = (layout: string): readonly string[] => [
    'skopeo',
    'copy',
    '-q',
    '--src-tls-verify=false',
    `docker://${image}`,
    `oci:${layout}:1`,
  ];
  const blobs = await alternate(directory, {
    ours: (work) => timed(work, [[process.execPath, PULL, join(work, 'store'), image, 'blobs']]),
    skopeo: (work) => timed(work, [skopeo(join(work, 'layout'))]),
  });
  const roots = await alternate(directory, {
    ours: (work) =>
      timed(work, [[process.execPath, PULL, join(work, 'store'), image, 'unpack']], join(work, 'store')),
    docker: async (work) => {
      const walk = `docker image inspect -f '{{.GraphDriver.Data.LowerDir}}:{{.GraphDriver.Data.UpperDir}}' ${image} |
        tr : '\\n' | xargs -I% find % -type f -size -1`;
      const took = await timed(work, [
        ['docker', 'pull', '-q', image],
        ['sh', '-c', walk],
      ]);
      await run('docker', ['rmi', '-f', image]);
      return took;
    },
    podman: async (work) => {
      const root = ['--root', join(work, 'root'), '--runroot', join(work, 'runroot')];
      return timed(
        work,
        [['podman', ...root, 'pull', '-q', '--tls-verify=false', image]],
        join(work, 'root'),
      );
    },
    umoci: (work) =>
      timed(
        work,
        [
          skopeo(join(work, 'layout')),
          ['umoci', 'unpack', '--image', `${join(work, 'layout')}:1`, join(work, 'b')],
        ],
        join(work, 'b'),
      ),
  });
  const ours = wall(roots.ours);
  return [
    atMost('registry to store, blobs: ours / skopeo copy', wall(blobs.ours) / wall(blobs.skopeo), 1),
    atMost('registry to usable root: ours / docker pull', ours / wall(roots.docker), 1),
    atMost('registry to usable root: ours / podman pull', ours / wall(roots.podman), 1),
    atMost('registry to usable root: ours / (skopeo + umoci)', ours / wall(roots.umoci), 1 / 1.3),
    atLeast(
      'registry to usable root: cores that work on five layers',
      median(roots.ours.map(({ cpuMs, ms }) => cpuMs / ms)),
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
  const times = await alternate(directory, {
    ours: async (work) => {
      const store = join(work, 'store');
      await run(process.execPath, [PULL, store, image, 'blobs']);
      return timed(work, [[process.execPath, PULL, store, image, 'unpack']]);
    },
    tar: async (work) => {
      await mkdir(join(work, 'root'));
      return timed(work, [['tar', '-xzf', join(layout, 'blobs/sha256', layer), '-C', join(work, 'root')]]);
    },
  });
  return [
    atMost('20,000 small files into a folder: ours / GNU tar', wall(times.ours) / wall(times.tar), 1.1),
  ];
}

/** Ten layers, of which nine are there already. */
async function pushes(directory: string, host: string): Promise<readonly BenchRow[]> {
  const made = join(directory, 'ten');
  const layers = (count: number) =>
    Array.from({ length: count }, (_, layer) => ({
      files: layerFiles(layer + 20, { files: 2_700, bytes: 50e6 }),
    }));
  {
    await using store = await openStore({ directory: made });
    const platform = hostPlatform({ platform: process.platform, arch: process.arch });
    const transfer = { signal: new AbortController().signal, emit: () => {} };
    for (const count of [9, 10])
      await buildImage(
        store,
        { layers: layers(count), config: {}, reference: `localhost/layers:${count}`, platform },
        transfer,
      );
  }
  let targets = 0;
  const push = (source: string, target: string) => [process.execPath, PUSH, made, source, target] as const;
  const times = await alternate(directory, {
    whole: (work) => timed(work, [push('localhost/layers:10', `${host}/bench/whole${targets++}:1`)]),
    rest: async (work) => {
      const target = `${host}/bench/rest${targets++}`;
      await run(process.execPath, push('localhost/layers:9', `${target}:nine`).slice(1));
      return timed(work, [push('localhost/layers:10', `${target}:1`)]);
    },
  });
  return [atMost('push with 90 % already there / full push', wall(times.rest) / wall(times.whole), 0.2)];
}

/** One layer of 4 GB, pulled and unpacked. */
async function hugeLayer(directory: string, host: string): Promise<readonly BenchRow[]> {
  const image = `${host}/bench/huge:1`;
  function* files() {
    const content = Buffer.alloc(64 << 20, 'a line of a log that is like every other one\n');
    for (let index = 0; index < 64; index++) yield { path: `var/log/${index}`, content, mode: 0o644 };
  }
  await publish(directory, image, [{ files: files() }]);
  const work = join(directory, 'work');
  await mkdir(work);
  const { peak } = await timed(work, [[process.execPath, PULL, join(work, 'store'), image, 'unpack']]);
  await rm(work, { recursive: true });
  return [atMost('peak memory with a layer of 4 GB, MB', peak / 1e6, 150)];
}
