import type { CiSystem, Emit } from '../kernel/index.ts';

export interface Flag {
  readonly name: string;
  readonly short?: string;
  /** Other spellings, Porter's (`driver`) or singulars. */
  readonly aliases?: readonly string[];
  /**
   * `switch` takes no value but accepts `=true` and `=false`. `list` may be given many times. `optional` is a switch
   * that takes comma-separated values after `=` only, so that a following argument is never swallowed.
   */
  readonly type: 'switch' | 'string' | 'list' | 'integer' | 'duration' | 'optional';
  /** How help names the value. */
  readonly value?: string;
  readonly choices?: readonly string[];
  readonly summary: string;
  /** For help only; the command decides. */
  readonly default?: string;
  /**
   * Lifts a safety rule of this one command: its variable carries the command's name, so that setting it never
   * reaches another command's flag of the same name.
   */
  readonly own?: boolean;
  readonly hidden?: boolean;
}

export interface Argument {
  readonly name: string;
  readonly summary: string;
  readonly required: boolean;
  readonly variadic?: boolean;
  readonly choices?: readonly string[];
}

export interface Example {
  readonly line: string;
  readonly does: string;
}

export interface Command {
  readonly path: string;
  readonly summary: string;
  /** Paragraphs for help and the reference page. */
  readonly description?: string;
  readonly arguments: readonly Argument[];
  readonly flags: readonly Flag[];
  readonly examples: readonly Example[];
  /** Writes bytes or a text of its own to stdout: has no `--output`. */
  readonly raw?: boolean;
  /** What the first Ctrl-C says where it cancels nothing: a command that only watches or serves until then. */
  readonly onInterrupt?: string;
  /** Resolves to the exit code; errors are thrown. */
  run(invocation: Invocation, context: Context): Promise<number>;
}

/** What the table of commands knows without loading a command. */
export interface CommandEntry {
  readonly path: string;
  /** Whole other paths, e.g. `installation output list`. */
  readonly aliases: readonly string[];
  readonly summary: string;
  load(): Promise<Command>;
}

export type FlagValue = boolean | string | number | readonly string[];

/** Flags by canonical name. Reading one marks it as used: see `unread`. */
export interface Flags {
  switch(name: string): boolean;
  string(name: string): string | undefined;
  integer(name: string): number | undefined;
  /** Milliseconds. */
  duration(name: string): number | undefined;
  list(name: string): readonly string[];
  /** Undefined: absent. Empty: given without values. */
  optional(name: string): readonly string[] | undefined;
  given(name: string): boolean;
  /** Names given on the command line that nobody read. A command that ends with one of these ignored it: a fault. */
  unread(): readonly string[];
}

export interface Invocation {
  readonly command: Command;
  readonly arguments: readonly string[];
  readonly flags: Flags;
}

/** A result for stdout: data for machines, text for people. */
export interface Result {
  readonly data: unknown;
  text(style: Style): string;
}

export interface Style {
  readonly color: boolean;
  /** Set under CI: lines that it would obey are broken. */
  readonly ci?: CiSystem | undefined;
  readonly width: number;
}

/** The process as the commands see it; made by main, faked in tests. */
export interface Host {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly stdin: {
    readonly isTerminal: boolean;
    /** The answer, up to the next line feed; undefined at the end. `hidden` switches the terminal's echo off meanwhile. */
    line(options: {
      readonly question: string;
      readonly hidden: boolean;
      readonly signal: AbortSignal;
    }): Promise<string | undefined>;
    bytes(): AsyncIterable<Uint8Array>;
  };
  now(): number;
  readonly pid: number;
  readonly uid: number;
}

export interface Output {
  readonly isTerminal: boolean;
  readonly columns: number;
  readonly rows: number;
  write(chunk: string | Uint8Array): void;
  /** Resolves once what was written has left the process. */
  flush(): Promise<void>;
  /** Aborts when the reader went away (EPIPE); later writes go nowhere. */
  readonly broken: AbortSignal;
}

export type Format = 'text' | 'json' | 'yaml';

export interface Context {
  readonly host: Host;
  readonly format: Format;
  readonly style: Style;
  /** First Ctrl-C. */
  readonly signal: AbortSignal;
  /** Second Ctrl-C. */
  readonly kill: AbortSignal;
  readonly emit: Emit;
  readonly debug: boolean;
  result(result: Result): Promise<void>;
  /** Raw bytes to stdout, e.g. an output's value. */
  bytes(chunk: Uint8Array | string): void;
  /** Takes the live view away while something else has the terminal. */
  pause(): void;
  /** A question on the terminal; undefined without one. */
  ask(question: string): Promise<string | undefined>;
  /** The same without showing what is typed. */
  askSecret(question: string): Promise<string | undefined>;
}
