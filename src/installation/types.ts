import type { Engine, EngineEvent } from '../engine/index.ts';
import type { ImageAccess, LockChange } from '../images/index.ts';
import type { Emit, SkycapError } from '../kernel/index.ts';
import type { OciEvent, Platform } from '../oci/index.ts';
import type { Plan, PlanConsent } from '../plan/index.ts';
import type { RunEvent, RunOptions, RunResult } from '../run/index.ts';
import type { CredentialSource } from '../settings/index.ts';
import type { Installation, InstallationKey, Run, StateStore } from '../state/index.ts';
import type { ParameterInput } from './parameters.ts';

export type InstallationEvent = RunEvent | OciEvent | EngineEvent;

/** A bundle on this machine: a porter.yaml, its folder, the lock beside it. */
export interface BundleSource {
  readonly file: string;
  readonly directory: string;
  readonly lockFile: string;
  /** What `--file` has to say for it, where it is not the bundle of the folder one is in. */
  readonly given?: string;
}

export interface ActionRequest {
  /** `install`, `upgrade`, `uninstall` or a custom action. */
  readonly action: string;
  readonly source: BundleSource;
  readonly key: InstallationKey;
  readonly labels: Readonly<Record<string, string>>;
  readonly parameters: Readonly<Record<string, ParameterInput>>;
  /** By credential name, from flags; the user's configuration fills in the rest. */
  readonly credentials: Readonly<Record<string, CredentialSource>>;
  readonly force: boolean;
  readonly dryRun: boolean;
  readonly resume: boolean;
  /** With `resume`: carry on although the plan changed. */
  readonly replan: boolean;
  /** Steps that ended unknown and shall run again. */
  readonly rerun: readonly string[];
  /** Run this step alone (`step run`). */
  readonly only?: string;
  readonly options: RunOptions;
}

/** What the composer hands in. */
export interface ActionDeps {
  readonly state: StateStore;
  readonly engine: Engine;
  readonly images: ImageAccess;
  readonly platform: Platform;
  /** Credential sources of the user's and machine's configuration. */
  readonly configuredCredentials: Readonly<Record<string, CredentialSource>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly isGranted: (consent: {
    readonly kind: PlanConsent['kind'];
    readonly bundle: string;
    readonly image: string;
    readonly step: string;
    readonly asked: boolean;
  }) => boolean;
  /** Asked once, on a terminal only, when the lock lacks entries; undefined: an error names the command instead. */
  readonly offerLock?: (changes: readonly LockChange[]) => Promise<boolean>;
  readonly emit: Emit<InstallationEvent>;
  readonly signal: AbortSignal;
  readonly kill: AbortSignal;
  readonly now: () => Date;
  /** Private folder for small files that outlive a run: baselines of workspaces. */
  readonly directory: string;
}

export type ActionResult =
  | {
      readonly kind: 'planned';
      readonly plan: Plan;
      readonly gaps: readonly string[];
      /** Why the run itself would end before anything starts. */
      readonly refused?: SkycapError;
    }
  | {
      readonly kind: 'ran';
      readonly plan: Plan;
      readonly run: Run;
      readonly installation: Installation;
      readonly result: RunResult;
    };
