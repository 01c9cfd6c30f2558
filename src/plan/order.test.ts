import { describe, expect, it } from 'vitest';
import type { Step } from '../bundle/index.ts';
import { matrixCells } from './matrix.ts';
import { dependencies, nameSteps } from './order.ts';

function step(index: number, more: Partial<Step>): Step {
  return {
    index,
    description: { text: '', span: { start: 0, end: 0 } },
    idempotent: false,
    always: false,
    failFast: false,
    inputs: [],
    span: { start: 0, end: 0 },
    ...more,
  } as Step;
}

function waits(...steps: Partial<Step>[]): Record<string, readonly string[]> {
  return Object.fromEntries(
    dependencies(
      nameSteps(
        'install',
        steps.map((more, index) => step(index, more)),
      ),
    ),
  );
}

describe('dependencies', () => {
  it('lets a step without needs wait for all before it, written down as the last ones only', () => {
    expect(waits({ id: 'a' }, { id: 'b' }, { id: 'c' })).toEqual({ a: [], b: ['a'], c: ['b'] });
  });

  it('joins again what needs had split', () => {
    const split = waits({ id: 'a' }, { id: 'b', needs: [] }, { id: 'c', needs: ['a'] }, { id: 'd' });

    expect(split).toEqual({ a: [], b: [], c: ['a'], d: ['b', 'c'] });
  });

  it('names a step without id by its place', () => {
    expect(waits({}, {})).toEqual({ 'install[0]': [], 'install[1]': ['install[0]'] });
  });
});

describe('matrixCells', () => {
  it('combines all values, the last key changing fastest', () => {
    const cells = matrixCells(
      'deploy',
      new Map([
        ['region', ['eu', 'us']],
        ['size', [1, 2]],
      ]),
    );

    expect(cells.map((cell) => cell.key)).toEqual(['eu,1', 'eu,2', 'us,1', 'us,2']);
    expect(cells[2]?.values).toEqual({ region: 'us', size: 1 });
  });

  it.each([
    ['no values', [[]], 'has no values'],
    ['a value twice', [['eu', 'eu']], 'twice'],
    [
      'too many cells',
      [Array.from({ length: 40 }, (_, i) => i), Array.from({ length: 40 }, (_, i) => i)],
      'more than',
    ],
  ])('refuses %s', (_name, lists, message) => {
    const axes = new Map(lists.map((values, index) => [`k${index}`, values]));

    expect(() => matrixCells('deploy', axes)).toThrow(message);
  });
});
