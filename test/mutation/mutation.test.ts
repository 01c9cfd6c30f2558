import { describe, expect, it } from 'vitest';
import { page, scoreOf } from './page.ts';
import { keyOf } from './plugin.ts';
import { interval, sample } from './sample.ts';
import type { Judged, Outcome } from './types.ts';

const all = Array.from({ length: 1000 }, (_, index) => `${index}`.padStart(4, '0'));
const chosen = (count: number, seed: number, from = all) => sample(from, (one) => one, { count, seed });

describe('a sample', () => {
  it('is the same for a seed, whatever the order that things come in, and another for another', () => {
    expect(chosen(50, 1)).toEqual(chosen(50, 1, all.toReversed()));
    expect(chosen(50, 1)).not.toEqual(chosen(50, 2));
  });

  it('has one of each part, so that no file is left out', () => {
    expect(chosen(50, 7).map((one) => Math.floor(Number(one) / 20))).toEqual(
      Array.from({ length: 50 }, (_, part) => part),
    );
  });

  it('is everything where that is not more, each once', () => {
    expect(chosen(5000, 3)).toEqual(all);
    expect(chosen(10, 3, [])).toEqual([]);
  });

  it('leaves nothing out for ever', () => {
    const seen = new Set(Array.from({ length: 100 }, (_, seed) => chosen(10, seed, all.slice(0, 50))).flat());
    expect(seen.size).toBe(50);
  });
});

it('says how sure a share is, as Wilson does', () => {
  const [low, high] = interval(80, 100);
  expect(low).toBeCloseTo(0.7112, 4);
  expect(high).toBeCloseTo(0.8666, 4);
  expect(interval(0, 10)[0]).toBe(0);
  expect(interval(10, 10)[1]).toBeCloseTo(1, 9);
  expect(interval(0, 0)).toEqual([0, 1]);
});

it('knows a mutant by file, place, kind and replacement, wherever the sources are copied to', () => {
  const mutant = {
    location: { start: { line: 3, column: 4 }, end: { line: 3, column: 9 } },
    mutatorName: 'StringLiteral',
    replacement: '""',
  };
  const key = keyOf({ ...mutant, fileName: '/somewhere/src/oci/store/lock.ts' });
  expect(key).toBe('src/oci/store/lock.ts:000003:000004:000003:000009 StringLiteral ""');
  expect(keyOf({ ...mutant, fileName: 'src/oci/store/lock.ts' })).toBe(key);
});

function judged(outcome: Outcome, was = 'a < b'): Judged {
  return {
    file: 'src/oci/store/x.ts',
    line: 7,
    column: 2,
    kind: 'EqualityOperator',
    was,
    is: 'a <= b',
    outcome,
    why: 'it is so',
  };
}

describe('the page', () => {
  const outcomes: readonly Outcome[] = [
    'killed',
    'killed',
    'killed',
    'survived',
    'not reached',
    'equivalent',
  ];

  it('counts what no test reaches as not found, and what is equivalent not at all', () => {
    expect(scoreOf(outcomes.map((one) => judged(one)))).toMatchObject({ killed: 3, of: 5, share: 0.6 });
  });

  it('lists what was not found, with nothing in it that ends a cell', () => {
    const room = { room: 'store', date: '2026-01-02', seed: 5, mutants: 100, files: 3, tests: 9 };
    const text = page('1.2.3', [{ ...room, judged: [judged('survived', 'a |\n  `b`'), judged('killed')] }]);
    expect(text).toContain("| store/x.ts:7:2 | `a \\| 'b'` | `a <= b` | survived |");
    expect(text).toContain('| `oci/store` | **50.0 %** |');
    expect(text).toContain('| 2 of 100 | 3 | 9 | 1 | 0 | 0 | 5 | 2026-01-02 |');
  });
});
