import { isSkycapError } from '../kernel/index.ts';
import { checkProcess, conditionOf } from './bind.ts';
import type { Known } from './known.ts';
import type { Plan } from './types.ts';

const refusals: ReadonlySet<string> = new Set([
  'EXPRESSION_TOO_LONG',
  'EXPRESSION_BYTES',
  'VALUE_NOT_TEXT',
  'DIRECTORY_OUTSIDE',
]);

/**
 * Refuses, before anything starts, a given value that no process can be handed as it is wanted. What waits for an
 * output is looked at by `bind`, when its step's turn comes: what an earlier run made of it says nothing.
 *
 * @throws EXPRESSION_TOO_LONG, EXPRESSION_BYTES, VALUE_NOT_TEXT, CONDITION_INVALID, DIRECTORY_OUTSIDE
 */
export function checkGivenValues(plan: Plan, given: Pick<Known, 'parameters' | 'credentials'>): void {
  const known: Known = {
    ...given,
    runId: '',
    revision: '',
    installationId: '',
    attempt: 1,
    containerId: '',
    graceMs: 0,
    outputs: new Map(),
    carriedFiles: [],
    manifest: '',
    cnabBundle: null,
  };
  for (const step of plan.steps) {
    if (step.when !== undefined && !('value' in step.when && conditionOf(step, step.when.value))) continue;
    try {
      checkProcess(plan, step, known);
    } catch (cause) {
      if (!isSkycapError(cause) || refusals.has(cause.code)) throw cause;
    }
  }
}
