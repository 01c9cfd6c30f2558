/**
 * Classic BPF as seccomp takes it (linux/filter.h, linux/bpf_common.h): eight bytes an instruction, jumps forward
 * only, one 32-bit accumulator, and words of `struct seccomp_data` to load (linux/seccomp.h).
 */
interface Instruction {
  readonly code: number;
  /** How many instructions are skipped where a comparison holds, and where it does not. */
  readonly jt: number;
  readonly jf: number;
  readonly k: number;
}

const LOAD = 0x20;
const RETURN = 0x06;
const JUMP = 0x05;
const AND = 0x54;
const EQUAL = 0x15;
const GREATER = 0x25;
const AT_LEAST = 0x35;

const SIZE = 8;
const WORD = 2 ** 32;
/** A comparison cannot skip more: `jt` and `jf` are bytes. */
const FARTHEST = 255;
/** Offset of the first argument in `struct seccomp_data`: before it stand number, architecture and address. */
const ARGUMENTS = 16;
const ARCHITECTURE = 4;
/** Bit of the numbers of x32 (asm/unistd.h). */
const X32 = 0x4000_0000;

/**
 * The same filter with a binary search where libseccomp writes one comparison after the other. A container pays for
 * the length twice: the kernel compiles the filter at each start, and runs it over every number of a system call to
 * learn which are always allowed (kernel/seccomp.c, seccomp_cache_prepare).
 *
 * @returns undefined where the program holds anything but what libseccomp writes, where nothing is gained, or where
 *   both do not decide alike (`decidesAlike`)
 */
export function asSearchTree(program: Uint8Array): Buffer | undefined {
  const before = decode(program);
  if (before === undefined) return undefined;
  const after = rewrite(before);
  if (after === undefined || after.length >= before.length || !decidesAlike(before, after)) return undefined;
  const bytes = Buffer.alloc(after.length * SIZE);
  after.forEach(({ code, jt, jf, k }, at) => {
    bytes.writeUInt16LE(code, at * SIZE);
    bytes.writeUInt8(jt, at * SIZE + 2);
    bytes.writeUInt8(jf, at * SIZE + 3);
    bytes.writeUInt32LE(k, at * SIZE + 4);
  });
  return bytes;
}

/** Undefined where it is no program of the instructions above, all of whose jumps end in it, or asks for something else first. */
function decode(program: Uint8Array): readonly Instruction[] | undefined {
  const bytes = Buffer.from(program.buffer, program.byteOffset, program.byteLength);
  if (bytes.length === 0 || bytes.length % SIZE !== 0) return undefined;
  const count = bytes.length / SIZE;
  const instructions = Array.from({ length: count }, (_, at) => ({
    code: bytes.readUInt16LE(at * SIZE),
    jt: bytes.readUInt8(at * SIZE + 2),
    jf: bytes.readUInt8(at * SIZE + 3),
    k: bytes.readUInt32LE(at * SIZE + 4),
  }));
  const isSound = instructions.every((one, at) => {
    if (one.code === RETURN) return true;
    if (one.code === LOAD) return one.k % 4 === 0 && one.k < 64 && at + 1 < count;
    if (one.code === AND) return at + 1 < count;
    if (one.code === JUMP) return at + 1 + one.k < count;
    return compares(one) && at + 1 + Math.max(one.jt, one.jf) < count;
  });
  const [first] = instructions;
  const asksForArchitecture = first?.code === LOAD && first.k === ARCHITECTURE;
  return isSound && asksForArchitecture ? instructions : undefined;
}

function compares({ code }: Instruction): boolean {
  return code === EQUAL || code === GREATER || code === AT_LEAST;
}

/** Where the program goes on after a comparison or a jump, for this value in the accumulator. */
function next(one: Instruction, at: number, value: number): number {
  if (one.code === JUMP) return at + 1 + one.k;
  const holds = one.code === EQUAL ? value === one.k : one.code === GREATER ? value > one.k : value >= one.k;
  return at + 1 + (holds ? one.jt : one.jf);
}

/** From `at` through comparisons and jumps, to the first instruction that does something. */
function settle(program: readonly Instruction[], at: number, value: number): number {
  let here = at;
  for (
    let one = program[here] as Instruction;
    one.code === JUMP || compares(one);
    one = program[here] as Instruction
  )
    here = next(one, here, value);
  return here;
}

/** What one place of the old program becomes: some instructions, whose targets are places of the old one. */
interface Block {
  readonly place: number;
  readonly size: number;
  write(addressOf: (place: number) => number, from: number): readonly Instruction[] | undefined;
}

function rewrite(program: readonly Instruction[]): readonly Instruction[] | undefined {
  const blocks = new Map<number, Block>();
  const wanted = [0];
  for (let place = wanted.pop(); place !== undefined; place = wanted.pop()) {
    if (blocks.has(place)) continue;
    const one = program[place] as Instruction;
    const search = one.code === JUMP || compares(one);
    const block = search ? searchBlock(program, place) : plainBlock(one, place);
    blocks.set(place, block.block);
    wanted.push(...block.targets);
  }
  // In the old order every jump leads forward in the new one too.
  const ordered = [...blocks.values()].toSorted((a, b) => a.place - b.place);
  const addresses = new Map<number, number>();
  let size = 0;
  for (const { place, size: own } of ordered) {
    addresses.set(place, size);
    size += own;
  }
  const written: Instruction[] = [];
  for (const block of ordered) {
    const part = block.write((place) => addresses.get(place) as number, written.length);
    if (part === undefined) return undefined;
    written.push(...part);
  }
  return written;
}

interface Found {
  readonly block: Block;
  readonly targets: readonly number[];
}

/** A load or an AND, and a jump to what comes after it: that may have moved. A return stands alone. */
function plainBlock(one: Instruction, place: number): Found {
  if (one.code === RETURN) return { block: { place, size: 1, write: () => [one] }, targets: [] };
  const after = place + 1;
  return {
    block: {
      place,
      size: 2,
      write: (addressOf, from) => [one, jump(addressOf(after) - from - 2)],
    },
    targets: [after],
  };
}

function jump(k: number): Instruction {
  return { code: JUMP, jt: 0, jf: 0, k };
}

/** All comparisons from `place` on as one search; each place that it leads to gets one jump (or return) behind it. */
function searchBlock(program: readonly Instruction[], place: number): Found {
  const ranges = rangesFrom(program, place);
  const exits = [...new Set(ranges.map(({ exit }) => exit))];
  const comparisons = ranges.length - 1;
  const write: Block['write'] = (addressOf, from) => {
    const tree: Instruction[] = [];
    const exitAt = (exit: number): number => comparisons + exits.indexOf(exit);
    let fits = true;
    const skip = (to: number): number => {
      const distance = to - tree.length - 1;
      if (distance > FARTHEST) fits = false;
      return distance;
    };
    // Preorder: the lower half comes next, the upper one after it.
    const search = (low: number, high: number): void => {
      if (low === high) return;
      const middle = Math.ceil((low + high) / 2);
      const lowerSize = middle - 1 - low;
      const here = tree.length;
      const exitOf = (at: number): number => exitAt((ranges[at] as Range).exit);
      const lower = lowerSize === 0 ? exitOf(low) : here + 1;
      const upper = middle === high ? exitOf(high) : here + 1 + lowerSize;
      tree.push({ code: AT_LEAST, jt: skip(upper), jf: skip(lower), k: (ranges[middle] as Range).from });
      search(low, middle - 1);
      search(middle, high);
    };
    search(0, ranges.length - 1);
    const ends = exits.map((exit, at): Instruction => {
      const one = program[exit] as Instruction;
      return one.code === RETURN ? one : jump(addressOf(exit) - (from + comparisons + at) - 1);
    });
    return fits ? [...tree, ...ends] : undefined;
  };
  return {
    block: { place, size: comparisons + exits.length, write },
    targets: exits.filter((exit) => (program[exit] as Instruction).code !== RETURN),
  };
}

/** Values of the accumulator from this one on, up to the next range, that lead to the same place. */
interface Range {
  readonly from: number;
  readonly exit: number;
}

function rangesFrom(program: readonly Instruction[], place: number): readonly Range[] {
  const borders = new Set([0]);
  const seen = new Set<number>();
  const wanted = [place];
  for (let at = wanted.pop(); at !== undefined; at = wanted.pop()) {
    const one = program[at] as Instruction;
    if (seen.has(at) || !(one.code === JUMP || compares(one))) continue;
    seen.add(at);
    if (one.code === JUMP) {
      wanted.push(at + 1 + one.k);
      continue;
    }
    wanted.push(at + 1 + one.jt, at + 1 + one.jf);
    if (one.code !== GREATER) borders.add(one.k);
    if (one.code !== AT_LEAST) borders.add(one.k + 1);
  }
  const ranges: Range[] = [];
  for (const from of [...borders].filter((border) => border < WORD).toSorted((a, b) => a - b)) {
    const exit = sameEnd(program, settle(program, place, from));
    if (ranges.at(-1)?.exit !== exit) ranges.push({ from, exit });
  }
  return ranges;
}

/** One place for all that end with the same action: a return is copied and not jumped to. */
function sameEnd(program: readonly Instruction[], place: number): number {
  const one = program[place] as Instruction;
  if (one.code !== RETURN) return place;
  return program.findIndex(({ code, k }) => code === RETURN && k === one.k);
}

/** The action for one system call, and whether an argument was looked at on the way to it. */
function decide(
  program: readonly Instruction[],
  word: (offset: number) => number,
): { readonly action: number; readonly looked: boolean } {
  let value = 0;
  let looked = false;
  for (let at = 0; ; ) {
    at = settle(program, at, value);
    const one = program[at] as Instruction;
    if (one.code === RETURN) return { action: one.k, looked };
    if (one.code === LOAD) {
      value = word(one.k);
      looked ||= one.k >= ARGUMENTS;
    } else value = (value & one.k) >>> 0;
    at += 1;
  }
}

/**
 * Whether both come to the same action for every number that a program knows and every one beside it, of each
 * architecture, with each argument at, below and above every constant of the two.
 */
function decidesAlike(one: readonly Instruction[], other: readonly Instruction[]): boolean {
  const constants = [...one, ...other]
    .filter(({ code }) => code !== RETURN && code !== LOAD)
    .map(({ k }) => k);
  const near = [...new Set([0, ...constants].flatMap((k) => [k - 1, k, k + 1]))].map((k) => k >>> 0);
  const numbers = new Set([...Array.from({ length: 1024 }, (_, n) => n), ...near]);
  for (const n of [...numbers]) numbers.add((n | X32) >>> 0);
  const offsets = [
    ...new Set(one.filter(({ code, k }) => code === LOAD && k >= ARGUMENTS).map(({ k }) => k)),
  ];
  const architectures = rangesFrom(one, 1).flatMap(({ from }) => [from, (from - 1) >>> 0]);
  for (const architecture of architectures) {
    for (const number of numbers) {
      const call = (offset: number): number =>
        offset === 0 ? number : offset === ARCHITECTURE ? architecture : 0;
      const found = decide(one, call);
      if (found.action !== decide(other, call).action) return false;
      if (!found.looked) continue;
      for (const offset of offsets) {
        for (const value of near) {
          const withArgument = (at: number): number => (at === offset ? value : call(at));
          if (decide(one, withArgument).action !== decide(other, withArgument).action) return false;
        }
      }
    }
  }
  return true;
}
