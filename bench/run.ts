import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';

/**
 * Runs the benches and compares ratios with their limits. A bench is a module in this folder that exports `bench`;
 * its rows are measured in one run on one machine, interleaved with what they are compared with.
 *
 * usage: node bench/run.ts [NAME…]
 */
export interface BenchRow {
  readonly name: string;
  readonly limit: number;
  readonly value: number;
  readonly met: boolean;
}

interface BenchModule {
  readonly bench?: () => Promise<readonly BenchRow[]>;
}

const wanted = process.argv.slice(2);
const names = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts') && file !== 'run.ts')
  .map((file) => file.slice(0, -'.ts'.length))
  .filter((name) => wanted.length === 0 || wanted.includes(name));

if (import.meta.main) await main();

async function main(): Promise<void> {
  const rows: BenchRow[] = [];
  for (const name of names) {
    const module = (await import(`./${name}.ts`)) as BenchModule;
    if (module.bench === undefined) continue;
    console.error(`bench ${name}`);
    rows.push(...(await module.bench()));
  }

  const machine = `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}, ${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release()}, Node ${process.versions.node}`;
  console.log(`| what | limit | value | met |\n|---|---|---|---|`);
  for (const row of rows)
    console.log(`| ${row.name} | ${row.limit} | ${row.value.toFixed(2)} | ${row.met ? 'yes' : 'NO'} |`);
  console.log(`\n${machine}`);
  const output = join(import.meta.dirname, '../.bench');
  mkdirSync(output, { recursive: true });
  writeFileSync(join(output, 'results.json'), `${JSON.stringify({ machine, rows }, null, 2)}\n`);
  process.exitCode = rows.length > 0 && rows.every((row) => row.met) ? 0 : 1;
}
