/**
 * Records of what was done. Names and meaning follow Porter's (installation, run, result, output); sensitive
 * values and state are encrypted before they reach the disk. All times are ISO 8601 in UTC.
 */
export interface StateStore extends AsyncDisposable {
  getInstallation(key: InstallationKey): Promise<Installation | undefined>;
  listInstallations(filter: InstallationFilter): Promise<readonly Installation[]>;
  /** Creates or replaces. */
  putInstallation(installation: Installation): Promise<void>;
  /** Removes the installation with runs, outputs and state. */
  deleteInstallation(key: InstallationKey): Promise<void>;

  /** Creates or replaces, its steps included. */
  putRun(run: Run): Promise<void>;
  getRun(runId: string): Promise<Run | undefined>;
  /** Oldest first. */
  listRuns(filter: RunFilter): Promise<readonly Run[]>;
  /** With their logs and outputs, except outputs that are an installation's last of their name. */
  deleteRuns(runIds: readonly string[]): Promise<void>;
  /**
   * Creates or replaces one step, and with it what becomes true at the same moment. On record when this resolves: for
   * good with an intent, and for an end at least if this process dies (the machine's end is the next commit's matter).
   *
   * @throws STATE_NOT_FOUND
   */
  putStep(runId: string, step: StepRecord, together?: StepChange): Promise<void>;
  clearIntent(containerId: string): Promise<void>;
  /** What a dead process may have left behind for this installation. */
  listIntents(key: InstallationKey): Promise<readonly Intent[]>;

  putOutput(output: OutputRecord): Promise<void>;
  /** The last value of each output of the installation, but for those that the runs `except` wrote. */
  latestOutputs(installationId: string, except?: readonly string[]): Promise<readonly OutputRecord[]>;
  runOutputs(runId: string): Promise<readonly OutputRecord[]>;

  /** The run's log: masked text and events as NDJSON, appended by one process and readable meanwhile. */
  openLog(runId: string): Promise<LogWriter>;
  /** With `follow` until the run's record says that it ended, or the signal. @throws STATE_NOT_FOUND */
  readLog(
    runId: string,
    options: { readonly follow: boolean; readonly signal: AbortSignal },
  ): AsyncIterable<string>;

  /** Saved bundle state as an opaque byte stream (a tar), encrypted in chunks. */
  saveState(installationId: string, runId: string, bytes: AsyncIterable<Uint8Array>): Promise<void>;
  loadState(installationId: string): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** Id of the run that saved it; undefined where there is none. */
  stateRun(installationId: string): Promise<string | undefined>;
  deleteState(installationId: string): Promise<void>;

  /** HMAC under the master key: equal values have equal fingerprints and reveal nothing. */
  fingerprint(value: Uint8Array): Promise<string>;

  /**
   * One holder per installation for modifying actions, shared otherwise. Freed by the kernel when the process dies.
   * @throws STATE_LOCKED with run, host and process of the holder.
   */
  lock(key: InstallationKey, mode: 'exclusive' | 'shared', holder: LockHolder): Promise<InstallationLock>;
}

/** What is committed with a step's record: all of it or nothing. */
export interface StepChange {
  /** Durable before its container starts. */
  readonly intent?: Intent;
  /** Of the attempt that ended: nobody has to look for this container any more. */
  readonly ended?: string;
  readonly outputs?: readonly OutputRecord[];
}

/** What the store of this machine can do besides; `openState` gives one. */
export interface ManagedStateStore extends StateStore {
  /** Living processes that hold the installation's lock; one of another host counts as living. */
  holders(key: InstallationKey): Promise<readonly LiveHolder[]>;
  /**
   * New master and data keys; parameters and outputs are encrypted anew. Fingerprints stay comparable. What is
   * lost already stays lost and is no error.
   */
  rotateKeys(): Promise<void>;
  /** Every value that cannot be read because its key is gone. */
  lostItems(): Promise<readonly LostItem[]>;
}

export interface LostItem {
  readonly kind: 'parameter' | 'output' | 'state';
  readonly installationId: string;
  /** Absent for the remembered parameters of an installation. */
  readonly runId?: string;
  readonly name: string;
  readonly key: string;
}

export interface InstallationLock extends AsyncDisposable {
  readonly mode: 'exclusive' | 'shared';
}

export interface LockHolder {
  readonly runId: string;
  readonly action: string;
}

export interface LiveHolder extends LockHolder {
  readonly host: string;
  readonly pid: number;
  /** In clock ticks since boot: with it a later process of the same id is told apart. */
  readonly startTime: string;
  /** By SIGSTOP or a debugger; of another host nobody knows. */
  readonly isStopped: boolean;
}

export interface LogWriter extends AsyncDisposable {
  write(line: string): void;
  flush(): Promise<void>;
}

export interface InstallationKey {
  readonly namespace: string;
  readonly name: string;
}

export interface InstallationFilter {
  /** Undefined: all namespaces. */
  readonly namespace?: string;
  /** Part of the name, as Porter's `--name`. */
  readonly name?: string;
  /** All of them, with exactly these values. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly skip?: number;
  readonly limit?: number;
}

export interface Installation extends InstallationKey {
  /** ULID. */
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly custom: Readonly<Record<string, unknown>>;
  readonly bundle: {
    readonly repository?: string;
    readonly version?: string;
    readonly digest?: string;
    readonly tag?: string;
    readonly file?: string;
  };
  /** Values given by the user, remembered for the next action; sensitive ones are `SealedValue`s of the store. */
  readonly parameters: Readonly<Record<string, StoredValue>>;
  readonly credentialSources: Readonly<Record<string, string>>;
  readonly status: InstallationStatus;
}

export interface InstallationStatus {
  readonly runId?: string;
  readonly action?: string;
  readonly resultId?: string;
  readonly resultStatus?: RunState;
  readonly created: string;
  readonly modified: string;
  readonly installed?: string;
  readonly uninstalled?: string;
  readonly bundleReference?: string;
  readonly bundleVersion?: string;
  readonly bundleDigest?: string;
}

/** A value that the store encrypts at rest when it is sensitive. `bytes` are UTF-8 JSON or raw. */
export interface StoredValue {
  readonly sensitive: boolean;
  /** In records from the store a sensitive value is decrypted when asked for: STATE_KEY_LOST, STATE_CORRUPT. */
  readonly value: unknown;
  /** Set by the store: the id of the key that is gone, so `value` cannot be read. */
  readonly lostKey?: string;
}

export type RunState = 'pending' | 'running' | 'succeeded' | 'failed' | 'errored' | 'aborted' | 'unknown';
export type StepState = RunState | 'skipped';

export interface Run {
  /** ULID; also the result's id. */
  readonly id: string;
  readonly namespace: string;
  readonly installation: string;
  readonly installationId: string;
  readonly action: string;
  /** ULID, new for each modifying action. */
  readonly revision: string;
  readonly engine: string;
  readonly state: RunState;
  readonly message?: string;
  readonly errorCode?: string;
  readonly created: string;
  readonly started?: string;
  readonly finished?: string;
  /** The plan as JSON text: no secret is in it. */
  readonly plan: string;
  readonly bundleDigest: string;
  /** Id of the run that this one took up again. */
  readonly resumes?: string;
  readonly parameters: Readonly<Record<string, StoredValue>>;
  readonly steps: readonly StepRecord[];
}

export interface StepRecord {
  readonly id: string;
  readonly index: number;
  readonly description: string;
  readonly state: StepState;
  readonly exitCode?: number;
  readonly image?: string;
  readonly startedAt?: string;
  readonly finishedAt?: string;
  readonly message?: string;
  readonly attempts: readonly AttemptRecord[];
}

export interface AttemptRecord {
  readonly number: number;
  readonly containerId: string;
  readonly state: StepState;
  readonly exitCode?: number;
  readonly cause?: string;
  readonly startedAt?: string;
  readonly finishedAt?: string;
}

export interface RunFilter {
  readonly namespace?: string;
  readonly installation?: string;
  readonly installationId?: string;
  readonly states?: readonly RunState[];
}

export interface Intent extends InstallationKey {
  readonly runId: string;
  readonly stepId: string;
  readonly attempt: number;
  readonly containerId: string;
  readonly engine: string;
  readonly created: string;
}

export interface OutputRecord {
  readonly installationId: string;
  readonly runId: string;
  readonly name: string;
  readonly sensitive: boolean;
  readonly contentType: 'text' | 'json' | 'binary';
  /** As in `StoredValue`: decrypted when asked for. */
  readonly value: Uint8Array;
  readonly created: string;
  readonly lostKey?: string;
}
