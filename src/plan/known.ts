import type { Json } from '../document/index.ts';
import type { ContainerFile } from '../engine/index.ts';

/** A value as the run has it: typed for expressions, bytes for files. */
export interface KnownValue {
  readonly json: Json;
  readonly bytes: Uint8Array;
  readonly sensitive: boolean;
}

/** What only the run knows; `bind` puts it where the plan has expressions and names. */
export interface Known {
  readonly runId: string;
  readonly revision: string;
  readonly installationId: string;
  readonly attempt: number;
  /** Unique container id of this attempt. */
  readonly containerId: string;
  readonly graceMs: number;
  /** Set parameters only; those located at a path by their decoded bytes. */
  readonly parameters: ReadonlyMap<string, KnownValue>;
  readonly credentials: ReadonlyMap<string, Uint8Array>;
  readonly outputs: ReadonlyMap<string, KnownValue>;
  /** Files outside the workspace that earlier steps made (`outputs` with such a path). */
  readonly carriedFiles: readonly ContainerFile[];
  /** The source of porter.yaml. */
  readonly manifest: string;
  /** Content of /cnab/bundle.json. */
  readonly cnabBundle: Json;
}
