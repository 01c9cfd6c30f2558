import type { Json } from '../document/index.ts';
import type { Resources, VolumeMount } from '../engine/index.ts';
import type { PinnedImage } from '../oci/index.ts';

/**
 * What will run, as plain JSON: the dry run prints it, state stores it, resume reads it. What is known is filled
 * in; what only a run can know stays an expression; credentials and sensitive values stand by name, never by value.
 */
export interface Plan {
  readonly planVersion: 1;
  readonly bundle: {
    readonly name: string;
    readonly version: string;
    readonly description: string;
    readonly reference?: string;
    /** sha256 over porter.yaml and the lock entries used. */
    readonly digest: string;
  };
  readonly action: string;
  readonly modifies: boolean;
  readonly stateless: boolean;
  readonly installation: { readonly namespace: string; readonly name: string };
  readonly delimiters: 'dollar' | 'mustache';
  /** Invocation images that the steps use, by name. */
  readonly images: Readonly<Record<string, PlanImage>>;
  /** `images:` of the bundle as `bundle.images.KEY`. */
  readonly referencedImages: Readonly<Record<string, Readonly<Record<string, Json>>>>;
  readonly custom: Readonly<Record<string, Json>>;
  readonly parameters: readonly PlanParameter[];
  readonly credentials: readonly PlanCredential[];
  readonly outputs: readonly PlanOutput[];
  readonly state: PlanState;
  readonly steps: readonly PlanStep[];
  /** Of `step run`: the step that runs alone. The action as such is then neither begun nor done. */
  readonly only?: string;
  /** Consents that this plan needs, granted or not; an ungranted one stops the run before it starts. */
  readonly consents: readonly PlanConsent[];
}

export interface PlanImage {
  readonly image: PinnedImage;
  readonly home: 'own' | 'shared';
  readonly workspace: 'rw' | 'ro' | 'none';
  readonly network: 'none' | 'default' | 'host';
  readonly docker: boolean;
  readonly privileged: boolean;
  readonly user?: string;
  readonly resources: Resources;
  readonly volumes: readonly VolumeMount[];
}

export interface PlanParameter {
  readonly name: string;
  readonly sensitive: boolean;
  readonly isFile: boolean;
  readonly env?: string;
  readonly path?: string;
  /** Absent where sensitive, late or unset. A file parameter's value is base64. */
  readonly value?: Json;
  /** False for an optional parameter that got no value. */
  readonly set: boolean;
}

export interface PlanCredential {
  readonly name: string;
  readonly required: boolean;
  readonly env?: string;
  readonly path?: string;
}

export interface PlanOutput {
  readonly name: string;
  readonly sensitive: boolean;
  readonly isFile: boolean;
  readonly schema: { readonly [key: string]: Json };
  readonly path?: string;
  readonly default?: Json;
}

export type PlanState =
  | { readonly kind: 'off' }
  /** Named paths, saved after every step. */
  | { readonly kind: 'paths'; readonly paths: readonly { readonly name: string; readonly path: string }[] }
  /** What the run added or changed in the workspace. */
  | { readonly kind: 'changes'; readonly maxBytes: number };

/** A string that may hold expressions which only the run can evaluate. */
export type Late<T extends Json = Json> =
  | { readonly value: T }
  /** Source of the template; `sensitive` if a sensitive value goes in. */
  | { readonly template: string; readonly sensitive: boolean };

export type PlanCommand =
  | { readonly kind: 'argv'; readonly argv: readonly Late[] }
  | {
      readonly kind: 'script';
      /** E.g. `["sh", "-e"]`; empty: the file is executed by its own `#!`. */
      readonly interpreter: readonly string[];
      /** The first line where it is a `#!` line, with its line break; else empty. */
      readonly shebang: string;
      /** Every expression has become `$variable`. */
      readonly text: string;
      readonly bindings: readonly { readonly variable: string; readonly value: Late }[];
    };

export interface PlanStep {
  readonly id: string;
  /** Id without the matrix cell. */
  readonly name: string;
  readonly index: number;
  readonly description: Late;
  readonly image: string;
  readonly command: PlanCommand;
  readonly dir: Late;
  readonly env: Readonly<Record<string, Late>>;
  /** Values for the image's interface: known, or a tree with expressions inside its strings. */
  readonly with?: { readonly value: Json } | { readonly tree: Json; readonly sensitive: boolean };
  /** Ids of plan steps. */
  readonly needs: readonly string[];
  readonly when?: Late;
  readonly cell?: Readonly<Record<string, Json>>;
  readonly matrix?: { readonly maxParallel?: number; readonly failFast: boolean };
  readonly timeoutMs?: number;
  readonly retry?: {
    readonly attempts: number;
    readonly delayMs: number;
    readonly factor: number;
    readonly onExit?: readonly number[];
  };
  readonly idempotent: boolean;
  readonly always: boolean;
  readonly suppressOutput: boolean;
  readonly ignoreError?: {
    readonly all: boolean;
    readonly exitCodes: readonly number[];
    readonly contains: readonly string[];
    readonly regex: readonly string[];
  };
  readonly outputs: readonly PlanStepOutput[];
  readonly sees: Visibility;
}

export interface PlanStepOutput {
  readonly name: string;
  readonly sensitive: boolean;
  readonly source:
    | { readonly kind: 'path'; readonly path: string }
    | { readonly kind: 'jsonPath'; readonly query: string }
    | { readonly kind: 'regex'; readonly pattern: string }
    | { readonly kind: 'stdout' };
}

/** Names only. */
export interface Visibility {
  readonly parameters: readonly string[];
  readonly credentials: readonly string[];
  /** Sensitive outputs that its expressions use or `inputs` names; plain ones are visible to all. */
  readonly outputs: readonly string[];
  /** Outputs that it reads as files below /cnab/app/inputs. */
  readonly inputs: readonly string[];
}

export interface PlanConsent {
  readonly kind: 'docker' | 'host-network' | 'privileged';
  readonly image: string;
  readonly steps: readonly string[];
  readonly granted: boolean;
  /** What it means, for the operator. */
  readonly meaning: string;
}
