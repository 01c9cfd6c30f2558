import type { Random } from './random.ts';

export interface Case {
  readonly bytes: Buffer;
  /** Set where whoever made the input knows what a correct parser says of it. */
  readonly accepted?: boolean;
  /** What it means, in the words of `Target.canonical`. */
  readonly value?: string;
}

/** A fault that is put into a copy of a source while it is loaded, to see that it would be found. */
export interface Planted {
  /** Path below the root of the repository. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** What another program says of an accepted input; undefined: the same as we do. */
export type Verdict =
  | { readonly problem: string }
  /** A difference on purpose, by the name that the page gives it. */
  | { readonly apart: string }
  | undefined;

/** Another program that reads the same. A process for each question costs, so it is asked of a sample. */
export interface Peer<V> {
  readonly name: string;
  /** Of every how manyeth accepted input it is asked. */
  readonly every: number;
  /** Why it cannot be asked on this machine. */
  absent(): string | undefined;
  judge(value: V, bytes: Buffer): Verdict | Promise<Verdict>;
}

/** One parser of foreign bytes. */
export interface Target<V = unknown> {
  readonly name: string;
  /** What tells a wrong reading from a right one, for the page. */
  readonly judgedBy: string;
  /** Its own source files, and where a file holds other things too, the declarations that are its own. */
  readonly sources: Readonly<Record<string, 'all' | readonly string[]>>;
  readonly planted: Planted;
  /** Inputs between two looks at the counters; fewer for a slow parser. Default 128. */
  readonly batch?: number;
  /** A valid input, or one just across a boundary. */
  make(random: Random): Case | Promise<Case>;
  /** Recorded inputs. */
  seeds?(): readonly Buffer[];
  mutate(bytes: Buffer, random: Random, other: Buffer): Buffer;
  /** @throws SkycapError where the input is refused; anything else is a crash */
  parse(bytes: Buffer): V | Promise<V>;
  /** False for a parser that leaves out what it cannot read and left out all. */
  accepts?(value: V): boolean;
  /** Equal texts, equal meaning. */
  canonical(value: V): string;
  /** What is wrong with an accepted value, by itself or by its way through our writer and back. */
  judge(value: V, bytes: Buffer): string | undefined | Promise<string | undefined>;
  readonly peer?: Peer<V>;
}
