// Registry to usable root, five layers: ours against `docker pull`, and against skopeo with umoci. Empty stores,
// alternating; nothing is deleted before the end (see oci.ts). Needs docker, docker-registry, skopeo and umoci, and root.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchRow } from './run.ts';
import { alternate, ROUNDS, ratio } from './support/alternate.ts';
import { buildLibrary, childProgram } from './support/build.ts';
import { atMost, layerFiles, publish, run, startRegistry, timed } from './support/peers.ts';

const CHILD = childProgram('pull-child');

export async function bench(): Promise<readonly BenchRow[]> {
  buildLibrary();
  const directory = await mkdtemp(join(tmpdir(), 'skycap-'));
  const { host, child } = await startRegistry(directory);
  const image = (round: number): string => `${host}/bench/pulled:${round}`;
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const layers = Array.from({ length: 5 }, (_, layer) => ({
        files: layerFiles(layer + 100 + 5 * round),
      }));
      await publish(directory, image(round), layers);
    }
    const times = await alternate(directory, {
      ours: (work, round) =>
        timed(work, [[process.execPath, CHILD, join(work, 'store'), image(round), 'unpack']]),
      docker: (work, round) => timed(work, [['docker', 'pull', '-q', image(round)]]),
      skopeo: (work, round) => {
        const layout = join(work, 'layout');
        return timed(work, [
          ['skopeo', 'copy', '-q', '--src-tls-verify=false', `docker://${image(round)}`, `oci:${layout}:1`],
          ['umoci', 'unpack', '--image', `${layout}:1`, join(work, 'bundle')],
        ]);
      },
    });
    await run('docker', ['rmi', '-f', ...Array.from({ length: ROUNDS }, (_, round) => image(round))]);
    const peak = Math.max(...times.ours.map((each) => each.peak));
    return [
      atMost('pull: ours / docker pull', ratio(times.ours, times.docker), 1),
      atMost('pull: ours / (skopeo + umoci)', ratio(times.ours, times.skopeo), 1 / 1.2),
      atMost('pull: peak memory of the process tree, MB', peak / 1e6, 200),
    ];
  } finally {
    child.kill();
    await rm(directory, { recursive: true, force: true });
  }
}
