// Rows of the OCI bench beyond pulling: pushes, copies, packing, one huge layer.
import { createCipheriv } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { buildImage } from '../../src/oci/image/index.ts';
import { hostPlatform } from '../../src/oci/names/index.ts';
import { openStore } from '../../src/oci/store/index.ts';
import type { BenchRow } from '../run.ts';
import { alternate, ratio } from './alternate.ts';
import { childProgram } from './build.ts';
import { atLeast, atMost, layerFiles, publish, run, type Timed, timed } from './peers.ts';

const PULL = childProgram('pull-child');
const PUSH = childProgram('push-child');
const PACK = childProgram('pack-child');
const SKYCAP = join(import.meta.dirname, '../../bin/skycap');

/**
 * Five layers as in the other rows, of which all but the top one are there already: a tenth of the bytes. The clock
 * runs in the process: a start is no part of a push.
 */
export async function pushes(directory: string, host: string): Promise<readonly BenchRow[]> {
  const made = join(directory, 'five');
  const top = { files: 2_700, bytes: 50e6 };
  const below = { files: 6_075, bytes: 112.5e6 };
  const layers = (count: number) =>
    Array.from({ length: count }, (_, layer) => ({
      files: layerFiles(layer + 20, layer === 4 ? top : below),
    }));
  let size = 0;
  {
    await using store = await openStore({ directory: made });
    const platform = hostPlatform({ platform: process.platform, arch: process.arch });
    const transfer = { signal: new AbortController().signal, emit: () => {} };
    for (const count of [4, 5]) {
      const image = { layers: layers(count), config: {}, reference: `localhost/layers:${count}`, platform };
      ({ size } = await buildImage(store, image, transfer));
    }
  }
  let read = 0;
  const push = async (work: string, source: string, target: string): Promise<Timed> => {
    const figures = join(work, 'figures.json');
    const took = await timed(work, [[process.execPath, PUSH, made, source, target, figures]]);
    const { ms, readBytes } = JSON.parse(await readFile(figures, 'utf8')) as {
      ms: number;
      readBytes: number;
    };
    if (source === 'localhost/layers:5') read = Math.max(read, readBytes);
    return { ...took, ms };
  };
  let targets = 0;
  const times = await alternate(directory, {
    whole: (work) => push(work, 'localhost/layers:5', `${host}/bench/whole${targets++}:1`),
    rest: async (work) => {
      const target = `${host}/bench/rest${targets++}`;
      await push(work, 'localhost/layers:4', `${target}:four`);
      return await push(work, 'localhost/layers:5', `${target}:1`);
    },
  });
  return [
    atMost('push with 90 % already there / full push', ratio(times.rest, times.whole), 0.2),
    atMost('full push: bytes read / bytes of the image', read / size, 1.1),
  ];
}

/** Between two repositories of one registry, through a relay that counts. */
export async function copies(directory: string, host: string): Promise<readonly BenchRow[]> {
  const size = await publish(directory, `${host}/bench/copied:1`);
  let moved = 0;
  const [name, port] = host.split(':') as [string, string];
  const open = new Set<Socket>();
  const relay = createServer((near) => {
    const far = connect(Number(port), name);
    for (const socket of [near, far]) {
      open.add(socket);
      socket
        .on('error', () => {})
        .on('data', (piece) => {
          moved += piece.length;
        });
    }
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve));
  try {
    const { port: ours } = relay.address() as AddressInfo;
    const at = `docker://127.0.0.1:${ours}/bench`;
    await run(SKYCAP, ['image', 'copy', `${at}/copied:1`, `${at}/elsewhere:1`]);
  } finally {
    for (const socket of open) socket.destroy();
    relay.close();
  }
  return [atMost('copy within a registry: bytes moved / bytes of the image', moved / size, 0.01)];
}

/** An archive of 300 MB, from the page cache to nowhere: what a file takes is the file system's. */
export async function packing(directory: string): Promise<readonly BenchRow[]> {
  const tar = join(directory, 'three-hundred.tar');
  const folder = join(directory, 'three-hundred');
  await mkdir(folder);
  let number = 0;
  for (const file of layerFiles(40, { files: 3_000, bytes: 300e6 }))
    await writeFile(join(folder, String(number++)), file.content as Uint8Array);
  await run('tar', ['-cf', tar, '-C', folder, '.']);
  const times = await alternate(directory, {
    ours: (work) => timed(work, [[process.execPath, PACK, tar, '/dev/null', 'gzip']]),
    zstd: (work) => timed(work, [[process.execPath, PACK, tar, '/dev/null', 'zstd']]),
    gzip: (work) => timed(work, [['sh', '-c', `gzip -6 -c ${tar} >/dev/null`]]),
  });
  return [
    atLeast('gzip packing of 300 MB: times the speed of gzip -6', ratio(times.gzip, times.ours), 1.8),
    atLeast('zstd packing of 300 MB: times the speed of gzip -6', ratio(times.gzip, times.zstd), 1.8),
  ];
}

/** One layer of 4 GB, pulled and unpacked. */
export async function hugeLayer(directory: string, host: string): Promise<readonly BenchRow[]> {
  const image = `${host}/bench/huge:1`;
  function* files() {
    const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16, 99), Buffer.alloc(16));
    const content = Buffer.alloc(64 << 20, 'a line of a log that is like every other one\n');
    for (let index = 0; index < 64; index++) {
      // Some of it does not compress, as in any real log: else it would be taken for a bomb.
      cipher.update(Buffer.alloc(1 << 20)).copy(content, 0);
      yield { path: `var/log/${index}`, content, mode: 0o644 };
    }
  }
  await publish(directory, image, [{ files: files() }]);
  const work = join(directory, 'huge-work');
  await mkdir(work);
  const { peak } = await timed(work, [[process.execPath, PULL, join(work, 'store'), image, 'unpack']]);
  return [atMost('peak memory with a layer of 4 GB, MB', peak / 1e6, 150)];
}
