import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { asSearchTree } from './seccomp-tree.ts';

type Instruction = readonly [code: number, jt: number, jf: number, k: number];
const X86_64 = 0xc000003e;
const I386 = 0x40000003;
const ALLOW = 0x7fff0000;
const EPERM = 0x00050001;
const ENOSYS = 0x00050026;
const KILL = 0x80000000;

const load = (offset: number): Instruction => [0x20, 0, 0, offset];
const ret = (action: number): Instruction => [0x06, 0, 0, action];
const equal = (k: number, jt: number, jf: number): Instruction => [0x15, jt, jf, k];

function bytesOf(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(([code, jt, jf, k], at) => {
    bytes.writeUInt16LE(code, at * 8);
    bytes[at * 8 + 2] = jt;
    bytes[at * 8 + 3] = jf;
    bytes.writeUInt32LE(k, at * 8 + 4);
  });
  return bytes;
}

interface Call {
  readonly nr: number;
  readonly arch: number;
  readonly args: readonly number[];
}

/** As the kernel runs it (net/core/filter.c), one instruction after the other. */
function run(bytes: Buffer, { nr, arch, args }: Call): { readonly action: number; readonly steps: number } {
  const data = [nr, arch, 0, 0, ...args.flatMap((low) => [low, 0])];
  let accumulator = 0;
  for (let at = 0, steps = 1; ; at += 1, steps += 1) {
    const k = bytes.readUInt32LE(at * 8 + 4);
    const branch = (holds: boolean): number => bytes[at * 8 + (holds ? 2 : 3)] as number;
    switch (bytes.readUInt16LE(at * 8)) {
      case 0x20:
        accumulator = data[k / 4] as number;
        break;
      case 0x54:
        accumulator = (accumulator & k) >>> 0;
        break;
      case 0x05:
        at += k;
        break;
      case 0x15:
        at += branch(accumulator === k);
        break;
      case 0x25:
        at += branch(accumulator > k);
        break;
      case 0x35:
        at += branch(accumulator >= k);
        break;
      case 0x06:
        return { action: k, steps };
      default:
        throw new Error(`unknown instruction at ${at}`);
    }
  }
}

interface Rules {
  /** Number of a system call: allowed, refused as unknown, or allowed where the first argument, masked, is this. */
  readonly calls: ReadonlyMap<
    number,
    'allow' | 'unknown' | { readonly mask: number; readonly value: number }
  >;
}

/** In the way of libseccomp: a comparison for each number, and what looks at arguments behind them. */
function linear(sections: ReadonlyMap<number, Rules>): readonly Instruction[] {
  const program: Instruction[] = [load(4)];
  for (const [arch, { calls }] of sections) {
    const behind: Instruction[] = [ret(EPERM), ret(ALLOW), ret(ENOSYS)];
    const chain: Instruction[] = [load(0)];
    const numbers = [...calls.entries()];
    numbers.forEach(([nr, rule], at) => {
      const left = numbers.length - at - 1;
      const to = rule === 'allow' ? 1 : rule === 'unknown' ? 2 : behind.length;
      if (typeof rule === 'object')
        behind.push(load(16), [0x54, 0, 0, rule.mask], equal(rule.value, 0, 1), ret(ALLOW), ret(EPERM));
      chain.push(equal(nr, left + to, 0));
    });
    const section = [...chain, ...behind];
    program.push(equal(arch, 1, 0), [0x05, 0, 0, section.length], ...section, load(4));
  }
  return [...program, ret(KILL)];
}

/** Runs of numbers under one rule, as in a real table, from 0 on or from where those of x32 begin. */
const rules = fc
  .tuple(
    fc.constantFrom(0, 0x40000000),
    fc.array(
      fc.tuple(
        fc.integer({ min: 4, max: 30 }),
        fc.constantFrom<'allow' | 'unknown' | 'refuse'>('allow', 'allow', 'unknown', 'refuse'),
      ),
      { minLength: 2, maxLength: 8 },
    ),
    fc.uniqueArray(
      fc.record({
        nr: fc.nat(40),
        mask: fc.constantFrom(0xffffffff, 0x7e020000, 0xff),
        value: fc.nat(255),
      }),
      { maxLength: 3, selector: ({ nr }) => nr },
    ),
  )
  .map(([base, runs, looking]): Rules => {
    const calls: [number, 'allow' | 'unknown' | { mask: number; value: number }][] = [];
    let nr = base;
    for (const [length, rule] of [[20, 'allow'] as const, ...runs]) {
      for (const end = nr + length; nr < end; nr += 1) if (rule !== 'refuse') calls.push([nr, rule]);
    }
    return {
      calls: new Map([...calls, ...looking.map(({ nr: at, ...rule }) => [base + at, rule] as const)]),
    };
  });

describe('a filter as a search tree', () => {
  it('decides as the list does, for each number, architecture and argument', () => {
    fc.assert(
      fc.property(rules, rules, (first, second) => {
        const list = bytesOf(
          linear(
            new Map([
              [X86_64, first],
              [I386, second],
            ]),
          ),
        );
        const tree = asSearchTree(list) as Buffer;
        expect(tree.length).toBeLessThan(list.length);
        const numbers = [...first.calls.keys(), ...second.calls.keys()].flatMap((nr) => [nr - 1, nr, nr + 1]);
        for (const arch of [X86_64, I386, 0xc00000b7]) {
          for (const nr of [...numbers, 0, 1000, 0xffffffff]) {
            for (const arg of [0, 1, 17, 255, 256, 0x7e020000, 0x10000000, 0xffffffff]) {
              const call = { nr: nr >>> 0, arch, args: [arg, 0, 0, 0, 0, 0] };
              expect(run(tree, call).action).toBe(run(list, call).action);
            }
          }
        }
      }),
      { numRuns: 12 },
    );
  });

  it('is shorter where numbers lie together, and comes to its end in a few steps', () => {
    const calls = new Map(Array.from({ length: 240 }, (_, nr) => [nr, 'allow' as const]));
    const list = bytesOf(linear(new Map([[X86_64, { calls }]])));
    const tree = asSearchTree(list) as Buffer;
    expect(tree.length).toBeLessThan(list.length / 10);
    for (const nr of [0, 120, 239]) {
      expect(run(list, { nr, arch: X86_64, args: [0] })).toMatchObject({ action: ALLOW });
      expect(run(tree, { nr, arch: X86_64, args: [0] })).toMatchObject({ action: ALLOW });
    }
    expect(run(list, { nr: 239, arch: X86_64, args: [0] }).steps).toBeGreaterThan(240);
    expect(run(tree, { nr: 239, arch: X86_64, args: [0] }).steps).toBeLessThan(12);
  });

  const short = linear(new Map([[X86_64, { calls: new Map([[1, 'allow' as const]]) }]]));
  const long = linear(
    new Map([[X86_64, { calls: new Map(Array.from({ length: 99 }, (_, nr) => [nr, 'allow' as const])) }]]),
  );
  it.each<[string, Buffer]>([
    ['nothing', Buffer.alloc(0)],
    ['half an instruction', bytesOf(long).subarray(0, -4)],
    ['a program that gets no shorter', bytesOf(short)],
    ['one whose last jump leads out of it', bytesOf([...long.slice(0, -1), equal(1, 0, 0)])],
    ['one without an end', bytesOf(long.slice(0, -1))],
    [
      'an instruction that libseccomp does not write',
      bytesOf([...long.slice(0, -1), [0x07, 0, 0, 0], ret(KILL)]),
    ],
    ['a word that is not there', bytesOf([...long.slice(0, -2), load(64), ret(KILL)])],
    ['half a word', bytesOf([...long.slice(0, -2), load(6), ret(KILL)])],
    ['one that asks for something else first', bytesOf([load(0), ...long.slice(1)])],
  ])('is not made of %s', (_, program) => {
    expect(asSearchTree(program)).toBeUndefined();
  });

  it('is not made where the search is longer than a comparison can skip', () => {
    const returns = Array.from({ length: 400 }, (_, nr) => [
      equal(nr, 0, 1),
      ret(nr % 2 === 0 ? ALLOW : ENOSYS),
    ]);
    const list = [load(4), load(0), ...returns.flat(), ret(KILL)];
    expect(asSearchTree(bytesOf(list))).toBeUndefined();
    expect(asSearchTree(bytesOf([...list.slice(0, 402), ret(KILL)]))).toBeDefined();
  });
});
