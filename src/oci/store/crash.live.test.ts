import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { makeImage } from '../../testkit/images/index.ts';
import { noise } from '../../testkit/noise.ts';
import { pinnedFromStore } from '../image/index.ts';
import { openStore } from './index.ts';

const WORKER = fileURLToPath(new URL('../../testkit/images/pull-worker.ts', import.meta.url));
const transfer = { signal: new AbortController().signal, emit: () => {} };
const platform = { os: 'linux', architecture: 'amd64' };
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-crash-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

interface Worker {
  readonly child: ChildProcess;
  readonly ended: Promise<{
    readonly code: number | null;
    readonly events: readonly { type: string; diffId?: string }[];
  }>;
}

/** Kills itself with -9 once it has said `killAfter` lines, or at its end; not with 0. */
function startPull(reference: string, killAfter: number): Worker {
  const args = [
    WORKER,
    join(directory, 'source'),
    join(directory, 'store'),
    reference,
    '2',
    String(killAfter),
  ];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  const ended = new Promise<Awaited<Worker['ended']>>((resolve) => {
    child.on('close', (code) => {
      const lines = text.split('\n').slice(0, -1);
      resolve({ code, events: lines.map((line) => JSON.parse(line) as { type: string }) });
    });
  });
  return { child, ended };
}

it('eight pulls that share layers, half of them killed, and a prune leave a whole store', async () => {
  const shared = { files: [{ path: 'shared', content: noise('shared', 900_000) }] };
  const references = Array.from({ length: 8 }, (_, index) => `localhost/test/image:${index}`);
  {
    await using source = await openStore({ directory: join(directory, 'source') });
    for (const [index, reference] of references.entries()) {
      const own = { files: [{ path: `own${index % 4}`, content: noise(`own${index % 4}`, 400_000) }] };
      await makeImage(source, { reference, platform, layers: [shared, own] });
    }
  }
  const workers = references.map((reference, index) => startPull(reference, index % 2 === 0 ? 1 + index : 0));
  await using store = await openStore({ directory: join(directory, 'store') });
  // In the middle of it all: nothing that a living pull needs may go.
  const during = store.prune({ olderThanMs: 0, keep: [] });
  const results = await Promise.all(workers.map((worker) => worker.ended));
  await during;
  expect(results.filter((result) => result.code === null)).toHaveLength(4);
  expect(results.filter((result) => result.code === 0)).toHaveLength(4);

  await store.prune({ olderThanMs: 0, keep: [] });
  expect(await readdir(join(directory, 'store', 'ingest'))).toEqual([]);
  expect(
    (await readdir(join(directory, 'store', 'layers'))).filter((name) => name.startsWith('tmp-')),
  ).toEqual([]);
  expect(await readdir(join(directory, 'store', 'trash'))).toEqual([]);
  for (const hex of await readdir(join(directory, 'store', 'blobs', 'sha256'))) {
    const bytes = await readFile(join(directory, 'store', 'blobs', 'sha256', hex));
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(hex);
  }
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);

  const unpacked = results.flatMap((result) =>
    result.events.filter((event) => event.type === 'layer.unpacked'),
  );
  const byLayer = unpacked.map((event) => event.diffId);
  expect(new Set(byLayer).size).toBe(byLayer.length);
  for (const [index, reference] of references.entries()) {
    const image = await pinnedFromStore(store, reference, platform);
    if (index % 2 === 0) continue;
    expect(image, reference).toBeDefined();
    if (image !== undefined) expect(await store.lowers(image, undefined, transfer)).toHaveLength(2);
  }

  const again = await Promise.all(references.map((reference) => startPull(reference, 0).ended));
  expect(again.map((result) => result.code)).toEqual(Array.from({ length: 8 }, () => 0));
  expect(await store.fsck({ repair: false, ...transfer })).toEqual([]);
});

it('a partial blob of a killed process is continued, not begun again', async () => {
  {
    await using source = await openStore({ directory: join(directory, 'source') });
    await makeImage(source, {
      reference: 'localhost/test/image:1',
      platform,
      layers: [{ files: [{ path: 'f', content: noise('f', 6_000_000) }] }],
    });
  }
  // What comes in is written a megabyte at a time.
  const killed = await startPull('localhost/test/image:1', 40).ended;
  expect(killed.code).toBeNull();
  const resumed = await startPull('localhost/test/image:1', 0).ended;
  expect(resumed.code).toBe(0);
  const parts = resumed.events.filter((event) => event.type === 'part') as readonly { offset?: number }[];
  expect(parts.length).toBeGreaterThan(0);
  expect(parts[0]?.offset).toBeGreaterThan(0);
});
