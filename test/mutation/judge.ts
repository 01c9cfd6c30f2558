import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MutantResult, PartialStrykerOptions } from '@stryker-mutator/api/core';
import { Stryker } from '@stryker-mutator/core';
import { whyEquivalent } from './equivalent.ts';
import { seen } from './plugin.ts';
import { type Room, testsOf } from './rooms.ts';
import type { Judged, Mutant, PluginOptions, RoomScore } from './types.ts';

const TESTS_VARIABLE = 'SKYCAP_MUTATION_TESTS';
/** How often what may have failed for want of time alone is judged again. */
const AGAIN = 2;

export interface Order {
  readonly count: number;
  readonly seed: number;
  readonly jobs: number;
  /** A folder or file of the room, where not all of it is meant. */
  readonly within?: string | undefined;
}

/** Judges a sample of a room's mutants. The working directory has to be the root of the repository. */
export async function judge(name: string, room: Room, order: Order): Promise<RoomScore> {
  const directory = mkdtempSync(join(tmpdir(), 'skycap-mutation-'));
  try {
    const chosen = join(directory, 'chosen.json');
    let results = await run(room, order, { count: order.count, seed: order.seed, chosen });
    const { total, files, tests } = seen;
    for (let round = 0; round < AGAIN; round += 1) {
      const only = [...results].filter(([, one]) => one.unsure).map(([key]) => key);
      if (only.length === 0) break;
      console.log(`${only.length} once more: their time ran out, or the machine stood still`);
      const again = await run(room, order, { count: 0, seed: order.seed, only, chosen });
      results = new Map([...results, ...again]);
    }
    return {
      room: name,
      date: new Date().toISOString().slice(0, 10),
      seed: order.seed,
      mutants: total,
      files,
      tests,
      judged: [...results.values()].map(({ result }) => judged(result)),
    };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Result {
  readonly result: MutantResult;
  readonly unsure: boolean;
}

/** By key. */
async function run(room: Room, order: Order, skycap: PluginOptions): Promise<ReadonlyMap<string, Result>> {
  process.env[TESTS_VARIABLE] = JSON.stringify(testsOf(room));
  const mutated = order.within ?? room.source;
  const options: PartialStrykerOptions = {
    mutate: [mutated.endsWith('.ts') ? mutated : `${mutated}/**/*.ts`, '!**/*.test.ts'],
    plugins: ['@stryker-mutator/vitest-runner', join(import.meta.dirname, 'plugin.ts')],
    testRunner: 'vitest',
    vitest: { configFile: 'test/mutation/vitest.config.ts', related: false, pool: 'forks' },
    coverageAnalysis: 'perTest',
    checkers: ['chosen'],
    reporters: ['chooser'],
    concurrency: order.jobs,
    timeoutMS: 30_000,
    timeoutFactor: 4,
    dryRunTimeoutMinutes: 60,
    ignorePatterns: ['dist', '.bench', 'coverage', 'test/e2e'],
    cleanTempDir: 'always',
    warnings: false,
    skycap,
  };
  const results = await new Stryker(options).runMutationTest();
  return new Map(
    results.flatMap((result) => {
      const key = seen.chosen.get(result.id);
      return key === undefined ? [] : [[key, { result, unsure: seen.unsure.has(result.id) }]];
    }),
  );
}

const outcomes = new Map<MutantResult['status'], Judged['outcome']>([
  ['Killed', 'killed'],
  ['Timeout', 'killed'],
  ['RuntimeError', 'killed'],
  ['Survived', 'survived'],
  ['NoCoverage', 'not reached'],
]);

function judged(result: MutantResult): Judged {
  const mutant = described(result);
  const outcome = outcomes.get(result.status);
  if (outcome === undefined) throw new Error(`${mutant.file}:${mutant.line} ended as ${result.status}`);
  const equivalent = outcome === 'killed' ? undefined : whyEquivalent(mutant);
  if (equivalent !== undefined) return { ...mutant, outcome: 'equivalent', why: equivalent };
  return { ...mutant, outcome, why: result.statusReason ?? '' };
}

/** In a result, lines and columns are from 1. */
function described(result: MutantResult): Mutant {
  const file = result.fileName.replace(/^.*?(?=src\/)/, '');
  const { start, end } = result.location;
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .slice(start.line - 1, end.line);
  lines[lines.length - 1] = (lines.at(-1) ?? '').slice(0, end.column - 1);
  lines[0] = (lines[0] ?? '').slice(start.column - 1);
  return {
    file,
    line: start.line,
    column: start.column,
    kind: result.mutatorName,
    was: lines.join('\n'),
    is: result.replacement ?? '',
  };
}
