// Registry to usable root, five layers: ours against `docker pull`, and against skopeo with umoci. Empty stores,
// alternating. Needs docker, docker-registry, skopeo and umoci, and root.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchRow } from './run.ts';
import { buildLibrary, childProgram } from './support/build.ts';
import { atMost, median, publish, run, startRegistry, timed } from './support/peers.ts';

const CHILD = childProgram('pull-child');
const ROUNDS = 3;

export async function bench(): Promise<readonly BenchRow[]> {
  buildLibrary();
  const directory = await mkdtemp(join(tmpdir(), 'skycap-bench-'));
  const { host, child } = await startRegistry(directory);
  const image = `${host}/bench/five:1`;
  try {
    await publish(directory, image);
    const times = { ours: [] as number[], docker: [] as number[], skopeo: [] as number[] };
    let peak = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const work = join(directory, `round${round}`);
      await mkdir(work);
      const ours = await timed(directory, [[process.execPath, CHILD, join(work, 'store'), image, 'unpack']]);
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
