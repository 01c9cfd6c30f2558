/** What became of a mutant. Killed too: what ran out of time, and what broke the tests before one could fail. */
export type Outcome = 'killed' | 'survived' | 'not reached' | 'equivalent';

export interface Mutant {
  /** Path from the root of the repository. */
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly column: number;
  /** Stryker's name of the change, such as ConditionalExpression. */
  readonly kind: string;
  /** What stands in the source. */
  readonly was: string;
  /** What stands in its place. */
  readonly is: string;
}

export interface Judged extends Mutant {
  readonly outcome: Outcome;
  /** By what it was seen, or why it counts as equivalent. */
  readonly why: string;
}

export interface RoomScore {
  readonly room: string;
  readonly date: string;
  readonly seed: number;
  /** All mutants there are. */
  readonly mutants: number;
  readonly files: number;
  readonly tests: number;
  readonly judged: readonly Judged[];
}

/** What the process that starts Stryker tells its plugin. */
export interface PluginOptions {
  readonly count: number;
  readonly seed: number;
  /** Only these, by their key, instead of a sample. */
  readonly only?: readonly string[];
  /** The file through which the reporter tells the checker what is in the sample. */
  readonly chosen: string;
}
