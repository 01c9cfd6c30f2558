import type { Json } from '../document/index.ts';
import type { ContainerFile, Session } from '../engine/index.ts';
import type { Emit, SkycapError } from '../kernel/index.ts';
import type { KnownValue, Plan } from '../plan/index.ts';
import type { RunState, StateStore, StepRecord } from '../state/index.ts';
import type { RunEvent } from './events.ts';

/** Everything that a run needs besides its plan; the values live in memory only. */
export interface RunRequest {
  readonly plan: Plan;
  readonly runId: string;
  readonly revision: string;
  readonly installationId: string;
  /** Name of the engine that made `session`, for the intent records. */
  readonly engine: string;
  readonly session: Session;
  readonly state: StateStore;
  /** Set parameters, sensitive ones included. */
  readonly parameters: ReadonlyMap<string, KnownValue>;
  readonly credentials: ReadonlyMap<string, Uint8Array>;
  /** The installation's outputs before this run. */
  readonly outputs: ReadonlyMap<string, KnownValue>;
  /** Saved files outside the workspace; the first containers find them. */
  readonly carried: readonly ContainerFile[];
  readonly manifest: string;
  readonly cnabBundle: Json;
  /** Steps that an earlier run finished (`--resume`), by id. */
  readonly finished: ReadonlyMap<string, StepRecord>;
  readonly options: RunOptions;
  readonly emit: Emit<RunEvent>;
  readonly now: () => Date;
  /** Cancelled once: TERM to what runs, then `always` steps. */
  readonly signal: AbortSignal;
  /** Cancelled twice: KILL, nothing more starts. */
  readonly kill: AbortSignal;
}

export interface RunOptions {
  /** From TERM to KILL of a step. */
  readonly graceMs: number;
  /** What `always` steps have together after cancellation. */
  readonly alwaysGraceMs: number;
  /** Keep the container of a failed step. */
  readonly keep: boolean;
  /** Show output that may hold a value which is sensitive only once it is known. */
  readonly showLive: boolean;
  /** Of a stream from which an output is read, and of what a step prints that is held back (S22). */
  readonly maxOutputBytes: number;
}

export const defaultRunOptions: RunOptions = {
  graceMs: 10_000,
  alwaysGraceMs: 300_000,
  keep: false,
  showLive: false,
  maxOutputBytes: 64 * 1024 * 1024,
};

export interface RunResult {
  readonly state: Exclude<RunState, 'pending' | 'running'>;
  /** The first error; errors of `always` steps after it are in the step records. */
  readonly error?: SkycapError;
  readonly steps: readonly StepRecord[];
  readonly outputs: ReadonlyMap<string, KnownValue>;
  /** Files outside the workspace as the last containers left them. */
  readonly carried: readonly ContainerFile[];
}
