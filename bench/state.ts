// In process: listing 10,000 installations. Prints one row of {limit, value, met}, in milliseconds.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { openState } from '../src/state/index.ts';

const COUNT = 10_000;
const LIMIT_MS = 100;

export interface BenchRow {
  readonly name: string;
  readonly limit: number;
  readonly value: number;
  readonly met: boolean;
}

/** Median of nine lists, after one to warm up; every record has labels, a plain and a sensitive parameter. */
export async function bench(): Promise<readonly BenchRow[]> {
  const directory = await mkdtemp(join(tmpdir(), 'skycap-bench-'));
  try {
    await using store = await openState({ directory });
    const now = new Date().toISOString();
    // Not awaited one by one: the store keeps the order.
    await Promise.all(
      Array.from({ length: COUNT }, (_, n) =>
        store.putInstallation({
          id: `01J${String(n).padStart(23, '0')}`,
          namespace: n % 3 === 0 ? 'prod' : 'dev',
          name: `app-${n}`,
          labels: { team: `team-${n % 7}` },
          custom: {},
          bundle: {
            repository: 'example.com/acme/app',
            version: '1.2.3',
            digest: `sha256:${'0'.repeat(64)}`,
          },
          parameters: {
            region: { sensitive: false, value: 'eu' },
            password: { sensitive: true, value: `secret-${n}` },
          },
          credentialSources: { kubeconfig: 'path:~/.kube/config' },
          status: {
            runId: `run-${n}`,
            action: 'install',
            resultStatus: 'succeeded',
            created: now,
            modified: now,
            installed: now,
          },
        }),
      ),
    );
    const times: number[] = [];
    for (let round = 0; round < 10; round++) {
      const started = performance.now();
      const all = await store.listInstallations({});
      const took = performance.now() - started;
      if (all.length !== COUNT) throw new Error(`listed ${all.length} of ${COUNT}`);
      if (round > 0) times.push(took);
    }
    const value = times.sort((a, b) => a - b)[4] ?? Number.POSITIVE_INFINITY;
    return [
      {
        name: 'list 10,000 installations, ms',
        limit: LIMIT_MS,
        value: Math.round(value * 10) / 10,
        met: value <= LIMIT_MS,
      },
    ];
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const rows = await bench();
  for (const row of rows) process.stdout.write(`${JSON.stringify(row)}\n`);
  if (!rows.every((row) => row.met)) process.exitCode = 1;
}
