import type { Emit } from '../kernel/index.ts';
import type { LowerForm, PinnedImage } from '../oci/index.ts';

/**
 * An engine runs containers and knows nothing of bundles. It opens a session per run; a session has one workspace
 * and runs one container per step attempt. Everything an engine creates carries the run's id, so that `adopt` and
 * `sweep` find it after the tool was killed.
 */
export interface Engine {
  readonly name: string;
  /** What this engine does not keep of docs/security.md, one line each, for the plan to print. */
  readonly gaps: readonly string[];
  /** Brings the images where containers can be made of them, makes network and workspace. */
  open(spec: SessionSpec, options: OperationOptions): Promise<Session>;
  /**
   * The session that a dead process left behind, or undefined if nothing of it is left. Its containers can be
   * awaited, collected and released as if this process had started them.
   */
  adopt(runId: string, options: OperationOptions): Promise<Session | undefined>;
  /** Stops and removes whatever the run left: containers, mounts, network, volumes of the run, workspace. */
  sweep(runId: string, options: OperationOptions): Promise<void>;
  /** Removes the volumes of scope `installation`. */
  removeVolumes(installationId: string, options: OperationOptions): Promise<void>;
}

export interface OperationOptions {
  readonly signal: AbortSignal;
  readonly emit: Emit<EngineEvent>;
}

export interface SessionSpec {
  readonly runId: string;
  /** Stable id of the installation: key of its volumes. */
  readonly installationId: string;
  /** By the name that `ContainerRun.image` uses. Their blobs are in the store already. */
  readonly images: Readonly<Record<string, PinnedImage>>;
  /** True if any container wants `network: default`. */
  readonly network: boolean;
  /** Takes over the kept workspace of that earlier run instead of an empty one. */
  readonly workspaceOf?: string;
}

export interface Session {
  readonly runId: string;
  readonly workspace: Workspace;
  /** The files below `path` in an image as a tar stream with paths relative to it; undefined where there are none. */
  imageArchive(image: string, path: string): Promise<AsyncIterable<Uint8Array> | undefined>;
  /**
   * Starts a container and waits for its end. Output goes to files first (docs/security.md, "Records") and is
   * handed to `io.onOutput` as it grows, each stream complete and in order by the time this resolves.
   * A container that ends by itself, whatever its exit code, is a result and no error. One that was cancelled before
   * its start is never started, and `cause: 'cancelled'`.
   */
  run(run: ContainerRun, io: ContainerIo): Promise<ContainerExit>;
  /**
   * Waits for a container that another process started, replaying its output from the first byte.
   * Undefined if it never started; `cause: 'unknown'` if it is gone and nothing tells how.
   */
  attach(containerId: string, io: ContainerIo): Promise<ContainerExit | undefined>;
  /**
   * After a container ended: regular files at or below the given absolute container paths. `/cnab/app/outputs` and
   * paths outside the workspace come from the container; links are never followed (docs/security.md). Of a container
   * whose end `run` told though it never started, there is nothing.
   *
   * @throws ENGINE_CONTAINER_UNKNOWN where this session never heard of it, or released it; ENGINE_OUTPUT_TOO_LARGE
   */
  collect(containerId: string, request: CollectRequest): Promise<readonly CollectedFile[]>;
  /**
   * Drops what is left of an ended container, or keeps it and says how to open a shell in it. Where nothing is left,
   * nothing happens: also of one that never started, or was released before.
   */
  release(containerId: string, options: { readonly keep: boolean }): Promise<KeptContainer | undefined>;
  /** Runs the same container again with a terminal; used for `--shell`. */
  shellCommand(run: ContainerRun): Promise<readonly string[]>;
  close(options: { readonly keepWorkspace: boolean }): Promise<void>;
}

export interface Workspace {
  /** Unpacks a tar stream at the workspace's root (`/cnab/app` of the steps); existing files are replaced. */
  put(archive: AsyncIterable<Uint8Array>): Promise<void>;
  /** The given paths (relative; folders with everything below) as a tar stream; absent ones are left out. */
  get(paths: readonly string[]): Promise<AsyncIterable<Uint8Array>>;
  /** Every entry; two equal fingerprints mean that the content did not change in between. */
  snapshot(): Promise<readonly WorkspaceEntry[]>;
  remove(paths: readonly string[]): Promise<void>;
}

export interface WorkspaceEntry {
  /** Relative, without leading `./`. */
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'other';
  readonly sizeBytes: number;
  readonly mode: number;
  readonly fingerprint: string;
}

export interface ContainerRun {
  /** Unique, known before the start: it is in the intent record. `[a-z0-9-]{1,120}`. */
  readonly containerId: string;
  readonly image: string;
  /** The whole command line; argv[0] is looked up in the container's PATH. Never empty. */
  readonly argv: readonly string[];
  /** The whole environment, the image's own included. */
  readonly env: Readonly<Record<string, string>>;
  /** As in an image config: name, uid, name:group, uid:gid; empty is root. */
  readonly user: string;
  readonly workingDir: string;
  readonly workspace: 'rw' | 'ro' | 'none';
  /** `shared`: HOME=/home/nonroot (also /root) and /tmp are one for all such steps of the run. */
  readonly home: 'own' | 'shared';
  readonly network: 'none' | 'default' | 'host';
  /** The host's Docker socket is mounted. The caller has asked for consent. */
  readonly dockerSocket: boolean;
  readonly privileged: boolean;
  readonly resources: Resources;
  readonly volumes: readonly VolumeMount[];
  readonly files: readonly ContainerFile[];
  /** A fresh, empty, writable folder is mounted here for every container. */
  readonly outputsDir: string;
  /** Absolute paths outside the workspace that `collect` will be asked for. */
  readonly collectPaths: readonly string[];
  /** Kept by the supervisor, also when this process is gone. */
  readonly timeoutMs?: number;
  /** From TERM to KILL. */
  readonly graceMs: number;
  /** Its raw output may hold secrets: kept on a tmpfs, mode 0600. */
  readonly sensitive: boolean;
}

export interface Resources {
  readonly cpus?: number;
  readonly memoryBytes?: number;
  readonly pids?: number;
}

export interface VolumeMount {
  readonly name: string;
  readonly path: string;
  readonly scope: 'run' | 'installation';
}

export interface ContainerFile {
  /** Absolute path in the container. */
  readonly path: string;
  readonly content: Uint8Array;
  readonly mode: number;
  /** Lives on a host tmpfs and only in this container. */
  readonly sensitive: boolean;
  /** Mounted read-only; otherwise a private writable copy owned by the container's user. */
  readonly readOnly: boolean;
}

export interface ContainerIo {
  onOutput(stream: 'stdout' | 'stderr', chunk: Uint8Array): void;
  /** Called when the container's process runs. */
  onStarted?(): void;
  /** First abort: TERM, and KILL after the grace time. */
  readonly signal: AbortSignal;
  /** Second abort: KILL at once. */
  readonly kill: AbortSignal;
}

export interface ContainerExit {
  /** As the shell would say it: 126 not executable, 127 not found, 128+n by signal. -1 if unknown. */
  readonly exitCode: number;
  readonly cause: 'exited' | 'oom' | 'timeout' | 'cancelled' | 'not-found' | 'not-executable' | 'unknown';
  readonly startedAt: string;
  readonly finishedAt: string;
  /** The engine's own words where the container could not start. */
  readonly message?: string;
}

export interface CollectRequest {
  readonly paths: readonly string[];
  readonly maxFileBytes: number;
  readonly maxTotalBytes: number;
}

export interface CollectedFile {
  /** Absolute path in the container. */
  readonly path: string;
  readonly mode: number;
  readonly content: Uint8Array;
}

export interface KeptContainer {
  readonly containerId: string;
  /** The command that opens a shell in it. */
  readonly shell: readonly string[];
}

export type EngineEvent =
  | { readonly type: 'engine.image'; readonly image: string; readonly phase: 'loading' }
  | {
      readonly type: 'engine.image';
      readonly image: string;
      readonly phase: 'ready';
      /** The form in which the embedded engine has the image's layers, but for those that `because` speaks of. */
      readonly layers?: LowerForm;
      /** Why they, or some of them, are folders. */
      readonly because?: string;
    }
  | { readonly type: 'engine.notice'; readonly message: string };
