import { readFileSync, writeFileSync } from 'node:fs';
import { type Checker, type CheckResult, CheckStatus } from '@stryker-mutator/api/check';
import type { Mutant, MutantResult, StrykerOptions } from '@stryker-mutator/api/core';
import { commonTokens, declareClassPlugin, PluginKind, tokens } from '@stryker-mutator/api/plugin';
import type {
  DryRunCompletedEvent,
  MutationTestingPlanReadyEvent,
  Reporter,
} from '@stryker-mutator/api/report';
import { sample } from './sample.ts';
import type { PluginOptions } from './types.ts';

/**
 * Stryker runs all mutants or those of named lines; a sample of them is what this adds. Its reporter sees all of
 * them, those that no test reaches among them, and chooses; its checker lets only the chosen ones be run.
 */
export const NOT_CHOSEN = 'not in the sample';

/** A stop of the whole machine, after which whatever waits for a time seems to be over. */
const STALL_MS = 2_000;
const TICK_MS = 250;
const UNSURE_AFTER_STALL_MS = 10_000;

interface Seen {
  total: number;
  files: number;
  tests: number;
  /** The key of each chosen one by the id that it has in this run. */
  chosen: ReadonlyMap<string, string>;
  /** Ids of those whose test may have failed for want of time alone. */
  readonly unsure: Set<string>;
}

/** Of the run that is going on in this process; Stryker makes the reporter itself. */
export const seen: Seen = { total: 0, files: 0, tests: 0, chosen: new Map(), unsure: new Set() };

/** The same in every run over the same source. Lines and columns from 0, as in a plan; in a result they are from 1. */
export function keyOf(mutant: Pick<Mutant, 'fileName' | 'location' | 'mutatorName' | 'replacement'>): string {
  const { start, end } = mutant.location;
  const at = [start.line, start.column, end.line, end.column]
    .map((one) => `${one}`.padStart(6, '0'))
    .join(':');
  return `${mutant.fileName.replace(/^.*?(?=src\/)/, '')}:${at} ${mutant.mutatorName} ${mutant.replacement}`;
}

class Chooser implements Reporter {
  static inject = tokens(commonTokens.options);
  readonly #options: PluginOptions;
  #stalled = 0;
  #done = 0;
  readonly #clock: NodeJS.Timeout;

  constructor(options: StrykerOptions) {
    this.#options = options.skycap as PluginOptions;
    let last = performance.now();
    this.#clock = setInterval(() => {
      const now = performance.now();
      if (now - last > STALL_MS) this.#stalled = now;
      last = now;
    }, TICK_MS);
    this.#clock.unref();
    seen.unsure.clear();
  }

  onDryRunCompleted(event: DryRunCompletedEvent): void {
    seen.tests = event.result.tests.length;
  }

  onMutationTestingPlanReady(event: MutationTestingPlanReadyEvent): void {
    const all = event.mutantPlans.map(({ mutant }) => mutant).filter((one) => one.status !== 'Ignored');
    const { only } = this.#options;
    const chosen =
      only === undefined ? sample(all, keyOf, this.#options) : all.filter((one) => only.includes(keyOf(one)));
    seen.total = all.length;
    seen.files = new Set(all.map((one) => one.fileName)).size;
    seen.chosen = new Map(chosen.map((one) => [one.id, keyOf(one)]));
    writeFileSync(this.#options.chosen, JSON.stringify([...seen.chosen.keys()]));
  }

  onMutantTested(result: Readonly<MutantResult>): void {
    const key = seen.chosen.get(result.id);
    if (key === undefined) return;
    this.#done += 1;
    const late = performance.now() - this.#stalled < UNSURE_AFTER_STALL_MS && this.#stalled > 0;
    const byTime = result.status === 'Timeout' || /timed out|timeout/i.test(result.statusReason ?? '');
    if (byTime || (late && result.status === 'Killed')) seen.unsure.add(result.id);
    const said = `${result.status}${seen.unsure.has(result.id) ? ', unsure' : ''}`;
    console.log(`${this.#done}/${seen.chosen.size} ${said}: ${key.replaceAll(/\s+/g, ' ').slice(0, 150)}`);
  }

  wrapUp(): void {
    clearInterval(this.#clock);
  }
}

class OnlyChosen implements Checker {
  static inject = tokens(commonTokens.options);
  readonly #options: PluginOptions;
  #chosen: ReadonlySet<string> | undefined;

  constructor(options: StrykerOptions) {
    this.#options = options.skycap as PluginOptions;
  }

  async init(): Promise<void> {}

  async group(mutants: readonly Mutant[]): Promise<string[][]> {
    return [mutants.map(({ id }) => id)];
  }

  async check(mutants: readonly Mutant[]): Promise<Record<string, CheckResult>> {
    this.#chosen ??= new Set(JSON.parse(readFileSync(this.#options.chosen, 'utf8')) as string[]);
    const passed: CheckResult = { status: CheckStatus.Passed };
    const failed: CheckResult = { status: CheckStatus.CompileError, reason: NOT_CHOSEN };
    return Object.fromEntries(
      mutants.map(({ id }) => [id, this.#chosen?.has(id) === true ? passed : failed]),
    );
  }
}

export const strykerPlugins = [
  declareClassPlugin(PluginKind.Reporter, 'chooser', Chooser),
  declareClassPlugin(PluginKind.Checker, 'chosen', OnlyChosen),
];
