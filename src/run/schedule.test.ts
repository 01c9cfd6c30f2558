import { describe, expect, it } from 'vitest';
import type { PlanStep } from '../plan/index.ts';
import type { StepState } from '../state/index.ts';
import { readySteps } from './schedule.ts';

function step(id: string, needs: readonly string[], more: Partial<PlanStep> = {}): PlanStep {
  return {
    id,
    name: id,
    index: 0,
    description: { value: id },
    image: 'tool',
    command: { kind: 'argv', argv: [{ value: 'true' }] },
    dir: { value: '' },
    env: {},
    needs,
    idempotent: false,
    always: false,
    suppressOutput: false,
    outputs: [],
    sees: { parameters: [], credentials: [], outputs: [], inputs: [] },
    ...more,
  };
}

function ready(
  steps: readonly PlanStep[],
  states: Record<string, StepState>,
  stopping = false,
): readonly string[] {
  return readySteps(steps, { states: new Map(Object.entries(states)), stopping }).map((item) => item.id);
}

describe('readySteps', () => {
  const chain = [step('a', []), step('b', ['a']), step('c', ['b'])];

  it('starts what waits for nothing, and what has all it waits for', () => {
    expect(ready(chain, {})).toEqual(['a']);
    expect(ready(chain, { a: 'running' })).toEqual([]);
    expect(ready(chain, { a: 'succeeded' })).toEqual(['b']);
  });

  it('takes a skipped step for one that was there', () => {
    expect(ready(chain, { a: 'skipped' })).toEqual(['b']);
  });

  it('starts only always steps once the run is stopping', () => {
    const steps = [...chain, step('cleanup', ['c'], { always: true })];

    expect(ready(steps, { a: 'failed' }, true)).toEqual(['cleanup']);
  });

  it('lets an always step wait for what still runs, through steps that will not start', () => {
    const steps = [step('a', []), step('b', ['a']), step('x', []), step('cleanup', ['b'], { always: true })];

    expect(ready(steps, { a: 'running', x: 'failed' }, true)).toEqual([]);
    expect(ready(steps, { a: 'succeeded', x: 'failed' }, true)).toEqual(['cleanup']);
  });

  it('starts no more cells than maxParallel, and none after a failed one with failFast', () => {
    const cells = ['1', '2', '3'].map((key) =>
      step(`m[${key}]`, [], { name: 'm', matrix: { maxParallel: 2, failFast: true } }),
    );

    expect(ready(cells, { 'm[1]': 'running' })).toEqual(['m[2]', 'm[3]']);
    expect(ready(cells, { 'm[1]': 'running', 'm[2]': 'running' })).toEqual([]);
    expect(ready(cells, { 'm[1]': 'failed' })).toEqual([]);
  });
});
