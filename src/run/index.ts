export { isBinary } from './binary.ts';
export { runError } from './errors.ts';
export type * from './events.ts';
export type { RunHooks } from './execute.ts';
export { pendingRecord } from './records.ts';
export { defaultRunOptions, type RunOptions, type RunRequest, type RunResult } from './types.ts';

/** Loads the runner with its pattern and query engines. */
export async function loadRun(): Promise<typeof import('./load.ts')> {
  return import('./load.ts');
}
