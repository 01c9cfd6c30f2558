import { describe, expect, it } from 'vitest';
import { kernelError } from '../../src/kernel/index.ts';
import { branchesOf } from './branches.ts';
import { countAt } from './coverage.ts';
import { fuzz } from './fuzz.ts';
import { mutateBytes } from './mutate.ts';
import { randomFrom } from './random.ts';
import { targets } from './targets/index.ts';
import type { Target } from './types.ts';

const few = { seed: 7, seconds: 3600, maxInputs: 150 };

/** Reads `<digits>;` and refuses all else. */
const toy: Target<number> = {
  name: 'toy',
  judgedBy: 'itself',
  sources: {},
  planted: { file: '', from: '', to: '' },
  make: (random) => {
    const value = random.below(300);
    return {
      bytes: Buffer.from(`${value};`),
      accepted: value <= 255,
      ...(value <= 255 ? { value: `${value}` } : {}),
    };
  },
  mutate: mutateBytes,
  parse: (bytes) => {
    const match = /^([0-9]{1,3});$/.exec(bytes.toString('latin1'));
    if (match === null || Number(match[1]) > 255) throw kernelError('USAGE', 'refused');
    return Number(match[1]);
  },
  canonical: (value) => `${value}`,
  judge: (value) => (value <= 255 ? undefined : 'too high'),
};

describe('the fuzzer', () => {
  it('finds nothing where nothing is wrong, and counts', async () => {
    const { failure, inputs, accepted } = await fuzz(toy, few);
    expect([failure, inputs]).toEqual([undefined, 150]);
    expect(accepted).toBeGreaterThan(30);
  });

  it('does the same for the same seed', async () => {
    const { seconds: _one, busy: _own, ...first } = await fuzz(toy, few);
    const { seconds: _other, busy: _more, ...second } = await fuzz(toy, few);
    expect(second).toEqual(first);
  });

  it.each<[string, Partial<Target<number>>, RegExp]>([
    [
      'an off-by-one',
      { parse: (bytes) => Math.min(Number.parseInt(bytes.toString(), 10) || 0, 256) },
      /accepts/,
    ],
    ['a wrong value', { parse: async (bytes) => (await toy.parse(bytes)) + 1 }, /reads/],
    ['a crash', { parse: (bytes) => bytes.readUInt32BE(0) }, /crashes: RangeError/],
    [
      'a refusal of what is valid',
      {
        parse: () => {
          throw kernelError('USAGE', 'no');
        },
      },
      /refuses/,
    ],
    ['what the judge says', { judge: () => 'odd' }, /^odd$/],
    [
      'what is accepted and then throws',
      {
        judge: () => {
          throw kernelError('USAGE', 'no');
        },
      },
      /then fails/,
    ],
  ])('finds %s', async (_what, change, problem) => {
    expect((await fuzz({ ...toy, ...change }, few)).failure?.problem).toMatch(problem);
  });

  it('asks a peer of a sample, counts differences on purpose and stops at others', async () => {
    const asked: number[] = [];
    const peer = (of: number): Partial<Target<number>> => ({
      peer: {
        name: 'another',
        every: 3,
        absent: () => undefined,
        judge: (value) => {
          asked.push(value);
          if (value >= of) return { problem: 'no' };
          return value < of / 2 ? { apart: 'small' } : undefined;
        },
      },
    });
    const good = await fuzz({ ...toy, ...peer(256) }, { ...few, peers: true });
    expect(good.asked).toBe(Math.floor(good.accepted / 3));
    expect(good.apart).toEqual({ small: asked.filter((value) => value < 128).length });
    expect(good.failure).toBeUndefined();
    const bad = await fuzz({ ...toy, ...peer(100) }, { ...few, peers: true });
    expect(bad.failure?.problem).toBe('another says otherwise: no');
    expect((await fuzz({ ...toy, ...peer(0) }, few)).asked).toBe(0);
  });

  it('does not do without a peer that is to be asked', async () => {
    const peer = { name: 'gone', every: 1, absent: () => 'it is gone', judge: () => undefined };
    await expect(fuzz({ ...toy, peer }, { ...few, peers: true })).rejects.toThrow('it is gone');
  });

  it.each(Object.entries(targets))('%s: a few inputs of each kind are judged right', async (_name, load) => {
    const { target } = await load();
    const { failure, inputs, accepted } = await fuzz(
      { ...target, seeds: () => [] },
      { ...few, maxInputs: 60 },
    );
    expect(failure?.problem).toBeUndefined();
    expect(accepted).toBeGreaterThan(inputs / 5);
  });
});

it('branches are found, and counted by the innermost range', () => {
  const text = 'function f(a) { if (a) return 1; return a ?? 2; }\nfunction g() { for (;;) h(); }';
  expect(branchesOf(text, 'all').map(({ what }) => what)).toEqual([
    'function',
    'then',
    'past if',
    'right side',
    'function',
    'loop',
  ]);
  expect(branchesOf(text, ['g']).map(({ what }) => what)).toEqual(['function', 'loop']);
  const range = (startOffset: number, endOffset: number, count: number) => ({
    startOffset,
    endOffset,
    count,
  });
  const script = {
    scriptId: '1',
    url: 'x',
    functions: [
      { functionName: '', isBlockCoverage: true, ranges: [range(0, 90, 1)] },
      { functionName: 'f', isBlockCoverage: true, ranges: [range(0, 49, 3), range(23, 32, 0)] },
    ],
  };
  expect([countAt(script, 15), countAt(script, 25), countAt(script, 60)]).toEqual([3, 0, 1]);
});

it('numbers come again for the same seed', () => {
  const list = (seed: number): readonly number[] => {
    const random = randomFrom(seed);
    return Array.from({ length: 20 }, () => random.below(1000));
  };
  expect(list(1)).toEqual(list(1));
  expect(list(2)).not.toEqual(list(1));
  expect(Math.max(...list(3))).toBeLessThan(1000);
});
