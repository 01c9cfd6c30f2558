import type { Json } from '../document/index.ts';
import type { EngineEvent } from '../engine/index.ts';

/** What a run tells while it goes on. `step` is the step's id in the plan (`apply`, `install[2]`, `apply[eu]`). */
export type RunEvent =
  | {
      readonly type: 'run.started';
      readonly runId: string;
      readonly namespace: string;
      readonly installation: string;
      readonly action: string;
      readonly bundle: string;
      readonly version: string;
      readonly engine: string;
      readonly steps: readonly {
        readonly id: string;
        readonly description: string;
        readonly image: string;
      }[];
    }
  | {
      readonly type: 'step.started';
      readonly step: string;
      readonly description: string;
      readonly image: string;
      readonly attempt: number;
    }
  /** The container's process runs; before it the step is being prepared. */
  | { readonly type: 'step.running'; readonly step: string; readonly attempt: number }
  /** One line with its line break, or the unfinished last one; masked already. */
  | {
      readonly type: 'step.output';
      readonly step: string;
      readonly stream: 'stdout' | 'stderr';
      readonly text: string;
    }
  | {
      readonly type: 'step.retrying';
      readonly step: string;
      readonly attempt: number;
      readonly exitCode: number;
      readonly delayMs: number;
    }
  | { readonly type: 'step.skipped'; readonly step: string; readonly reason: string }
  | {
      readonly type: 'step.finished';
      readonly step: string;
      readonly state: 'succeeded' | 'failed' | 'errored' | 'aborted' | 'unknown';
      readonly exitCode?: number;
      readonly durationMs: number;
      readonly message?: string;
      readonly ignored?: boolean;
    }
  | {
      readonly type: 'step.kept';
      readonly step: string;
      readonly containerId: string;
      readonly shell: readonly string[];
    }
  | {
      readonly type: 'output.collected';
      readonly name: string;
      readonly step?: string;
      readonly sensitive: boolean;
      readonly value?: Json;
      /** Of a value that is no text. */
      readonly encoding?: 'base64';
    }
  | {
      readonly type: 'run.finished';
      readonly runId: string;
      readonly state: 'succeeded' | 'failed' | 'errored' | 'aborted' | 'unknown';
      readonly durationMs: number;
      readonly message?: string;
    }
  | { readonly type: 'notice'; readonly code: string; readonly message: string }
  | { readonly type: 'warning'; readonly code: string; readonly message: string }
  | EngineEvent;
