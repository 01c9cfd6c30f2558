import type { Step } from '../bundle/index.ts';

/** A step before its matrix is expanded: its name is its id, or `install[2]` where it has none. */
export interface NamedStep {
  readonly name: string;
  readonly step: Step;
}

export function nameSteps(action: string, steps: readonly Step[]): readonly NamedStep[] {
  return steps.map((step) => ({ name: step.id ?? `${action}[${step.index}]`, step }));
}

/**
 * What each step waits for, by name. A step without `needs` waits for all steps before it in the list; written down
 * are only those of them that no other of them waits for, so that the plan of a long list stays small.
 */
export function dependencies(steps: readonly NamedStep[]): ReadonlyMap<string, readonly string[]> {
  const result = new Map<string, readonly string[]>();
  let open: readonly string[] = [];
  for (const { name, step } of steps) {
    const needs = step.needs ?? open;
    result.set(name, needs);
    open = [...open.filter((other) => !needs.includes(other)), name];
  }
  return result;
}
