import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isSkycapError } from '../../kernel/index.ts';
import { pullImage } from '../../oci/image/index.ts';
import { unpackLayer } from '../../oci/layer/index.ts';
import { type LayoutStore, openStore } from '../../oci/store/index.ts';
import { recordingTransfer } from '../images/index.ts';
import {
  hostileLayers,
  linesOf,
  MergedTree,
  ModelSink,
  type OracleCase,
  type OracleEntry,
  oracleCases,
  oracleRegistry,
  scanTree,
} from '../layers/index.ts';

const platform = { os: 'linux', architecture: 'amd64' };

export interface WriterOptions {
  /** Rounds the time in a line to what the writer promises. */
  readonly times?: (line: string) => string;
}

/**
 * What stands on disk, seen through overlayfs as a container sees it, is what the checks gave (oracle.test.ts compares
 * that with other tools), and nothing beside the root is touched. As root, whichever writer this process finds.
 */
export function writesTheTable(writer: string, options: WriterOptions = {}): void {
  const { times = (line) => line } = options;
  let directory: string;
  let store: LayoutStore;
  let count = 0;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'skycap-oracle-'));
    // Every case pulls and syncs: in memory that costs nothing.
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2g', 'none', directory]);
    store = await openStore({ directory: join(directory, 'store') });
    sh(
      'mkdir -p empty merged canary/d; echo secret > canary/secret; echo k > canary/d/keep; echo v > canary/d/victim',
    );
  });
  afterAll(async () => {
    await store[Symbol.asyncDispose]();
    // Lazily: a sync of the store may still look into it.
    execFileSync('umount', ['--lazy', directory]);
    await rm(directory, { recursive: true, force: true });
  });

  const sh = (script: string): string =>
    execFileSync('bash', ['--norc', '-euc', script], {
      cwd: directory,
      encoding: 'latin1',
      stdio: ['ignore', 'pipe', 'pipe'],
    });

  function merged(folders: readonly string[]): readonly OracleEntry[] {
    const lowers = [...folders.toReversed(), join(directory, 'empty')].join(':');
    sh(`mount -t overlay -o 'ro,lowerdir=${lowers}' none merged`);
    try {
      return scanTree(join(directory, 'merged')).filter((entry) => entry.type !== 'listed-but-absent');
    } finally {
      sh('umount merged');
    }
  }

  async function both(one: OracleCase): Promise<readonly [readonly string[], readonly string[]] | undefined> {
    const transfer = recordingTransfer();
    const { registry, reference } = oracleRegistry(one);
    const image = await pullImage(registry, store, reference, { ...transfer, platform }).catch(coded);
    if (image === undefined) return undefined;
    const model = new MergedTree();
    const read = async (): Promise<boolean> => {
      for (const { digest, diffId, mediaType } of image.layers) {
        const sink = new ModelSink();
        const options = { map: undefined, diffId, mediaType, signal: transfer.signal };
        await unpackLayer(store.readBlob(digest), sink, { ...options, lower: (path) => model.lower(path) });
        model.add(sink);
      }
      return true;
    };
    const refused = (await read().catch(coded)) === undefined;
    const lowers = await store.lowers(image, undefined, transfer).catch(coded);
    expect(lowers === undefined, 'the writer refuses what the checks refuse').toBe(refused);
    if (lowers === undefined) return undefined;
    return [linesOf(merged(lowers.map((lower) => lower.path))), linesOf(model.entries())];
  }

  // 50,000 files prove nothing more on a disk, and take half a minute to compare; oracle.test.ts has them.
  const cases = oracleCases().filter((one) => one.id !== 'entries-50000');
  describe(`${writer} writes what the checks gave`, () => {
    it.each(cases)('$id', async (one) => {
      const trees = await both(one);
      const shown = (line: string): string => times(asFarAsDisksGo(line));
      if (trees !== undefined) expect(trees[0].map(shown)).toEqual(trees[1].map(shown));
    });
  });

  describe(`${writer} stays inside the root`, () => {
    it.each(hostileLayers('/nowhere').map((one, at) => ({ at, title: `${one.rule}: ${one.name}` })))(
      '$title',
      async ({ at }) => {
        const one = hostileLayers(join(directory, 'canary'))[at];
        if (one === undefined) return expect.fail('no such layer');
        const base = join(directory, `hostile${count++}`);
        const before = [linesOf(scanTree(join(directory, 'canary'))), surroundings()];
        const folders: string[] = [];
        let code: string | undefined;
        const { openSink } = await import('../../oci/layer/open-sink.ts');
        for (const [index, layer] of one.layers.entries()) {
          const folder = join(base, String(index));
          await mkdir(folder, { recursive: true });
          const options = { map: undefined, signal: new AbortController().signal };
          const lower = async (): Promise<undefined> => undefined;
          try {
            await unpackLayer(pieces(layer), await openSink(folder), { ...options, lower });
            folders.push(folder);
          } catch (error) {
            if (!isSkycapError(error)) throw error;
            code = error.code;
          }
        }
        expect([linesOf(scanTree(join(directory, 'canary'))), surroundings()]).toEqual(before);
        if (typeof one.outcome === 'string') expect(code).toBe(one.outcome);
        else {
          expect(code).toBeUndefined();
          const there = scanTree(folders.at(-1) ?? '').map((entry) =>
            Buffer.from(entry.path_b64 ?? '', 'base64').toString(),
          );
          expect(there).toEqual(
            expect.arrayContaining(one.outcome.map((path) => path.replaceAll('/nowhere', directory))),
          );
        }
        await rm(base, { recursive: true, force: true });
      },
    );
  });

  /** Names beside the roots: something new, gone or changed anywhere near would show. */
  function surroundings(): string {
    return sh(
      "find . -maxdepth 1 -not -name 'hostile*' -not -name . -printf '%P %y %m %U %G\\n' | sort; ls -a / | sort",
    );
  }
}

function coded(error: unknown): undefined {
  if (isSkycapError(error)) return undefined;
  throw error;
}

/** ext4 ends in the year 2446; overlayfs hides what is marked as a deletion in the lowest layer too. */
function asFarAsDisksGo(line: string): string {
  return line
    .replace('"100000000000000000000"', '"the last time"')
    .replace('"15032385535000000000"', '"the last time"');
}

async function* pieces(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
}
