import { isSkycapError } from '../../src/kernel/index.ts';
import type { Coverage } from './coverage.ts';
import { type Random, randomFrom } from './random.ts';
import type { Case, Target } from './types.ts';

export interface Failure {
  readonly problem: string;
  readonly bytes: Buffer;
}

export interface Outcome {
  readonly inputs: number;
  readonly accepted: number;
  readonly corpus: number;
  readonly failure: Failure | undefined;
  readonly seconds: number;
  /** Seconds of processor time: what is left of `seconds` where a machine does other things too. */
  readonly busy: number;
  /** Accepted inputs of which the peer was asked, and where it differs on purpose: how often, by name. */
  readonly asked: number;
  readonly apart: Readonly<Record<string, number>>;
}

export interface FuzzOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly maxInputs?: number;
  readonly coverage?: Coverage;
  /** Called before each input: a watch over what does not come back. */
  readonly begin?: (bytes: Buffer) => void;
  /** The target's peer is asked too, and must be there. */
  readonly peers?: boolean;
}

const HANG_MS = 1000;
const BATCH = 128;
const LONGEST = 64 * 1024;
const MAX_CORPUS = 2000;

/** Feeds a parser until it fails or the time is up. Inputs that lead to something new are mutated further. */
export async function fuzz<V>(target: Target<V>, options: FuzzOptions): Promise<Outcome> {
  return await new Fuzzer(target, options).run();
}

class Fuzzer<V> {
  readonly #target: Target<V>;
  readonly #options: FuzzOptions;
  readonly #random: Random;
  readonly #corpus: Buffer[] = [];
  readonly #apart: Record<string, number> = {};
  #inputs = 0;
  #accepted = 0;
  #asked = 0;

  constructor(target: Target<V>, options: FuzzOptions) {
    this.#target = target;
    this.#options = options;
    this.#random = randomFrom(options.seed);
  }

  async run(): Promise<Outcome> {
    const absent = this.#options.peers === true ? this.#target.peer?.absent() : undefined;
    if (absent !== undefined) throw new Error(absent);
    const started = performance.now();
    const before = process.cpuUsage();
    const seconds = (): number => (performance.now() - started) / 1000;
    const max = this.#options.maxInputs ?? Number.POSITIVE_INFINITY;
    let failure: Failure | undefined;
    for (let count = 0; count < 40 && failure === undefined; count++)
      failure = await this.#feed([await this.#target.make(this.#random)]);
    failure ??= await this.#feed((this.#target.seeds?.() ?? []).map((bytes): Case => ({ bytes })));
    this.#options.coverage?.take();
    while (failure === undefined && seconds() < this.#options.seconds && this.#inputs < max) {
      const batch: Case[] = [];
      for (let left = Math.min(this.#target.batch ?? BATCH, max - this.#inputs); left > 0; left--)
        batch.push(await this.#next());
      failure = (await this.#feed(batch)) ?? (await this.#learn(batch));
    }
    const { user, system } = process.cpuUsage(before);
    return {
      inputs: this.#inputs,
      accepted: this.#accepted,
      corpus: this.#corpus.length,
      failure,
      seconds: seconds(),
      busy: (user + system) / 1e6,
      asked: this.#asked,
      apart: this.#apart,
    };
  }

  async #next(): Promise<Case> {
    const random = this.#random;
    if (this.#corpus.length === 0 || random.chance(0.3)) return await this.#target.make(random);
    let bytes = random.pick(this.#corpus);
    for (let count = 1 + random.below(3); count > 0; count--)
      bytes = this.#target.mutate(bytes, random, random.pick(this.#corpus));
    return { bytes: bytes.subarray(0, LONGEST) };
  }

  async #feed(cases: readonly Case[]): Promise<Failure | undefined> {
    for (const one of cases) {
      this.#inputs += 1;
      const { accepted, problem, value } = await this.#try(one);
      if (problem !== undefined) return { problem, bytes: one.bytes };
      if (!accepted) continue;
      this.#accepted += 1;
      const differs = await this.#ask(value as V, one.bytes);
      if (differs !== undefined) return { problem: differs, bytes: one.bytes };
      if (this.#corpus.length < 100) this.#corpus.push(one.bytes);
    }
    return undefined;
  }

  async #ask(value: V, bytes: Buffer): Promise<string | undefined> {
    const { peer } = this.#target;
    if (peer === undefined || this.#options.peers !== true || this.#accepted % peer.every !== 0)
      return undefined;
    this.#asked += 1;
    const verdict = await peer.judge(value, bytes);
    if (verdict === undefined) return undefined;
    if ('problem' in verdict) return `${peer.name} says otherwise: ${verdict.problem}`;
    this.#apart[verdict.apart] = (this.#apart[verdict.apart] ?? 0) + 1;
    return undefined;
  }

  async #try(
    one: Case,
  ): Promise<{ readonly accepted: boolean; readonly problem?: string; readonly value?: V }> {
    const first = await this.#once(one);
    // Of the processor's time, as a machine that others use may stop for a minute. What waits without end is seen by
    // the watch over the process; what is compiled on its first way is faster on the next.
    if (first.ms > HANG_MS && (await this.#once(one)).ms > HANG_MS && (await this.#once(one)).ms > HANG_MS)
      return { accepted: false, problem: `takes ${Math.round(first.ms)} ms` };
    return first;
  }

  async #once(one: Case): Promise<{ accepted: boolean; ms: number; problem?: string; value?: V }> {
    const target = this.#target;
    this.#options.begin?.(one.bytes);
    const before = process.threadCpuUsage();
    const since = (): number => {
      const { user, system } = process.threadCpuUsage(before);
      return (user + system) / 1000;
    };
    let value: V;
    try {
      value = await target.parse(one.bytes);
    } catch (error) {
      if (!isSkycapError(error) || error.code === 'INTERNAL')
        return {
          accepted: false,
          ms: since(),
          problem: `crashes: ${String((error as Error).stack ?? error)}`,
        };
      if (one.accepted === true)
        return { accepted: false, ms: since(), problem: `refuses what is valid: ${error.message}` };
      return { accepted: false, ms: since() };
    }
    const ms = since();
    const accepted = target.accepts?.(value) ?? true;
    if (one.accepted !== undefined && one.accepted !== accepted)
      return {
        accepted,
        ms,
        problem: accepted ? 'accepts what is invalid' : 'reads nothing of what is valid',
      };
    try {
      const found = target.canonical(value);
      if (one.value !== undefined && found !== one.value)
        return { accepted, ms, problem: `reads ${found} where ${one.value} is written` };
      const problem = accepted ? await target.judge(value, one.bytes) : undefined;
      return problem === undefined ? { accepted, ms, value } : { accepted, ms, problem };
    } catch (error) {
      return {
        accepted,
        ms,
        problem: `is accepted and then fails: ${String((error as Error).stack ?? error)}`,
      };
    }
  }

  /** Finds, by halves, inputs of a batch that led somewhere new, and keeps them. */
  async #learn(batch: readonly Case[]): Promise<undefined> {
    const { coverage } = this.#options;
    let fresh = coverage?.take() ?? [];
    for (let round = 0; coverage !== undefined && fresh.length > 0 && round < 4; round++) {
      let group = batch;
      while (group.length > 1) {
        const half = group.slice(0, group.length >> 1);
        for (const one of half) await this.#once(one);
        group = coverage.hit(fresh).length > 0 ? half : group.slice(half.length);
      }
      const found = group[0] as Case;
      await this.#once(found);
      const hit = new Set(coverage.hit(fresh));
      fresh = fresh.filter((name) => !hit.has(name));
      this.#keep(found.bytes);
    }
  }

  #keep(bytes: Buffer): void {
    if (this.#corpus.length < MAX_CORPUS) this.#corpus.push(bytes);
    else this.#corpus[this.#random.below(MAX_CORPUS)] = bytes;
  }
}
