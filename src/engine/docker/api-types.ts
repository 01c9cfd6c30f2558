/** The parts of the Engine API's answers that are used here; names are the API's. */
export interface DockerVersion {
  readonly Version: string;
  readonly ApiVersion: string;
  readonly MinAPIVersion?: string;
  readonly Os: string;
  readonly Arch: string;
}

export interface DockerInfo {
  readonly ServerVersion: string;
  readonly OSType: string;
  readonly SecurityOptions?: readonly string[];
  readonly MemoryLimit: boolean;
  readonly PidsLimit: boolean;
  readonly CpuCfsQuota: boolean;
  readonly Warnings?: readonly string[] | null;
}

export interface ContainerState {
  readonly Status: 'created' | 'running' | 'paused' | 'restarting' | 'removing' | 'exited' | 'dead';
  readonly Running: boolean;
  readonly OOMKilled: boolean;
  readonly ExitCode: number;
  readonly Error: string;
  readonly StartedAt: string;
  readonly FinishedAt: string;
}

export interface ContainerInspect {
  readonly Id: string;
  readonly Name: string;
  readonly Image: string;
  readonly State: ContainerState;
  readonly Config: {
    readonly Labels: Readonly<Record<string, string>> | null;
    readonly User: string;
    readonly WorkingDir: string;
  };
  readonly Mounts: readonly {
    readonly Type: string;
    readonly Name?: string;
    readonly Source?: string;
    readonly Destination: string;
    readonly RW: boolean;
  }[];
  readonly HostConfig: { readonly NetworkMode: string };
}

export interface ContainerSummary {
  readonly Id: string;
  readonly Names: readonly string[];
  readonly State: string;
  readonly Labels: Readonly<Record<string, string>>;
  readonly Mounts?: readonly { readonly Destination: string }[];
}

/** X-Docker-Container-Path-Stat; `mode` is Go's os.FileMode. */
export interface PathStat {
  readonly name: string;
  readonly size: number;
  readonly mode: number;
  readonly linkTarget: string;
}

/** os.ModeSymlink, os.ModeDir (Go, package os, "FileMode"). */
export const GO_SYMLINK = 0x0800_0000;

export interface CreateBody {
  readonly Image: string;
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly Env: readonly string[];
  readonly User: string;
  readonly WorkingDir: string;
  readonly Labels: Readonly<Record<string, string>>;
  readonly Tty: boolean;
  readonly OpenStdin: boolean;
  readonly StdinOnce: boolean;
  readonly AttachStdin: boolean;
  readonly AttachStdout: boolean;
  readonly AttachStderr: boolean;
  readonly Healthcheck: { readonly Test: readonly string[] };
  readonly HostConfig: HostConfig;
}

export interface HostConfig {
  readonly NetworkMode: string;
  readonly Mounts: readonly Mount[];
  readonly Init: boolean;
  readonly LogConfig: { readonly Type: string; readonly Config: Readonly<Record<string, string>> };
  readonly CapDrop?: readonly string[];
  readonly CapAdd?: readonly string[];
  readonly SecurityOpt?: readonly string[];
  readonly Privileged?: boolean;
  readonly GroupAdd?: readonly string[];
  readonly NanoCpus?: number;
  readonly Memory?: number;
  readonly MemorySwap?: number;
  readonly PidsLimit?: number;
}

export type Mount =
  | {
      readonly Type: 'volume';
      readonly Source: string;
      readonly Target: string;
      readonly ReadOnly: boolean;
      readonly VolumeOptions: { readonly NoCopy: true; readonly Labels: Readonly<Record<string, string>> };
    }
  | { readonly Type: 'bind'; readonly Source: string; readonly Target: string; readonly ReadOnly: boolean };
