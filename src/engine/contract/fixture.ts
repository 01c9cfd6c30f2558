import type { PinnedImage } from '../../oci/index.ts';
import type { FakeProgram } from '../fake/index.ts';
import type { ContainerRun, Engine, SessionSpec } from '../port.ts';

/**
 * The images of the suite. `shell`: busybox with its applets in /bin, users root and user (1000:1000, also in staff,
 * 50), /tmp and /cnab/app/shipped/hello ("from the image\n"). `scratch`: /busybox and nothing else.
 */
export type ContractImage = 'shell' | 'scratch';

/** What a case runs: a command line for real engines, and what the fake does for it. */
export interface Program {
  readonly image: ContractImage;
  readonly argv: readonly string[];
  readonly fake: FakeProgram;
}

/** An engine to be tested, with what the suite needs around it. */
export interface ContractFixture extends AsyncDisposable {
  readonly engine: Engine;
  readonly images: Readonly<Record<ContractImage, PinnedImage>>;
  /** The fake learns its programs; other engines leave this out. */
  learn?(program: Program): void;
  /**
   * What these runs have left on the host: mounts, cgroups, namespaces, processes, folders, containers. Others may use
   * the engine meanwhile, in the same suite or in another process.
   */
  leftovers(runs: readonly RunIds[]): Promise<readonly string[]>;
  /** Opens a session and starts a container in another process, which is killed with -9 as soon as it runs. */
  orphan(spec: SessionSpec, run: ContainerRun): Promise<void>;
}

export type RunIds = Pick<SessionSpec, 'runId' | 'installationId'>;

/** By case id: why this engine may fail it. A difference that is none any more is an error too. */
export type AllowedDifferences = Readonly<Record<string, string>>;
