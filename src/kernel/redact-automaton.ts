/**
 * Finds many byte strings at once in linear time, also when they are megabytes long and share most of their bytes.
 *
 * A pattern is a sequence of whole 8-byte blocks and a rest. The text is read as eight interleaved sequences of
 * blocks, one for each offset, and an Aho–Corasick automaton over blocks (one state per sequence) finds the whole
 * ones; the rest is checked by the window of the pattern's last 8 bytes. That takes an eighth of the nodes of an
 * automaton over bytes. Patterns shorter than a block are looked up by their length.
 */
export const BLOCK = 8;
const ROOT = 0;

/** Patterns whose whole blocks end at a node; the rest must follow. */
interface Tail {
  readonly rest: number;
  readonly lastBlock: number;
  readonly length: number;
}

export class PatternSet {
  readonly blocks = new PairTable();
  readonly #edges = new PairTable();
  /** Patterns of 4 to 7 bytes, by length. */
  readonly short: (PairTable | undefined)[] = [];
  #fail = new Int32Array(64);
  #depth = new Int32Array(64);
  #parent = new Int32Array(64);
  #symbol = new Int32Array(64);
  #children = new Uint8Array(64);
  /** Length in blocks of the longest pattern without a rest that ends here, at the node or at a suffix of it. */
  #whole = new Int32Array(64);
  /** The nearest node, this one or a suffix of it, at which a pattern with a rest waits for it. */
  #tailNode = new Int32Array(64);
  /** Depth of the nearest node, this one or a suffix of it, that may go on. */
  #hold = new Int32Array(64);
  readonly #isWhole = new Set<number>();
  readonly #tails = new Map<number, Tail[]>();
  #nodes = 1;
  #stale = false;
  // Which first 1 to 4 bytes some pattern has (hashed): tells whether the end of a text may begin one.
  readonly #prefixes = [1, 2, 3, 4].map(() => new Uint8Array(8192));
  empty = true;

  /** @param pattern one character per byte, at least 4 */
  add(pattern: string): void {
    this.empty = false;
    for (let length = 1; length <= 4; length++) {
      const hash = prefixHash(length, (at) => pattern.charCodeAt(at));
      const bitmap = this.#prefixes[length - 1]!;
      bitmap[hash >>> 3]! |= 1 << (hash & 7);
    }
    if (pattern.length < BLOCK) {
      const table = this.short[pattern.length] ?? new PairTable();
      this.short[pattern.length] = table;
      table.put(word(pattern, 0, pattern.length - 4), word(pattern, pattern.length - 4, 4), 1);
      return;
    }
    this.#stale = true;
    const rest = pattern.length % BLOCK;
    let node = ROOT;
    for (let at = 0; at + BLOCK <= pattern.length; at += BLOCK)
      node = this.#child(node, this.#blockAt(pattern, at));
    if (rest === 0) {
      this.#isWhole.add(node);
      return;
    }
    const tails = this.#tails.get(node) ?? [];
    const lastBlock = this.#blockAt(pattern, pattern.length - BLOCK);
    if (tails.some((tail) => tail.rest === rest && tail.lastBlock === lastBlock)) return;
    tails.push({ rest, lastBlock, length: pattern.length });
    this.#tails.set(node, tails);
  }

  /** Must be called after patterns were added. Nodes keep their numbers. */
  prepare(): void {
    if (!this.#stale) return;
    this.#stale = false;
    const order = this.#byDepth();
    for (const node of order) {
      const fail = node === ROOT ? ROOT : this.#failOf(node);
      this.#fail[node] = fail;
      const suffix = node === ROOT ? 0 : this.#whole[fail]!;
      this.#whole[node] = this.#isWhole.has(node) ? this.#depth[node]! : suffix;
      this.#tailNode[node] = this.#tails.has(node) ? node : node === ROOT ? -1 : this.#tailNode[fail]!;
      this.#hold[node] =
        this.#children[node] === 1 ? this.#depth[node]! : node === ROOT ? 0 : this.#hold[fail]!;
    }
  }

  step(node: number, block: number): number {
    if (block === 0) return ROOT;
    for (let at = node; ; at = this.#fail[at]!) {
      const next = this.#edges.get(at, block);
      if (next !== 0) return next;
      if (at === ROOT) return ROOT;
    }
  }

  wholeBlocks(node: number): number {
    return this.#whole[node]!;
  }

  holdBlocks(node: number): number {
    return this.#hold[node]!;
  }

  /** Calls back for each pattern whose whole blocks end here and that has a rest. */
  eachTail(node: number, found: (tail: Tail) => void): void {
    for (let at = this.#tailNode[node]!; at !== -1; ) {
      for (const tail of this.#tails.get(at) ?? []) found(tail);
      at = at === ROOT ? -1 : this.#tailNode[this.#fail[at]!]!;
    }
  }

  /** True if a pattern may begin with these bytes; may be wrong, but never with a pattern that does. */
  mayBegin(length: number, byteAt: (index: number) => number): boolean {
    const counted = Math.min(length, 4);
    const hash = prefixHash(counted, byteAt);
    return (this.#prefixes[counted - 1]![hash >>> 3]! & (1 << (hash & 7))) !== 0;
  }

  #blockAt(pattern: string, at: number): number {
    const high = word(pattern, at, 4);
    const low = word(pattern, at + 4, 4);
    const known = this.blocks.get(high, low);
    if (known !== 0) return known;
    this.blocks.put(high, low, this.blocks.size + 1);
    return this.blocks.size;
  }

  #child(node: number, symbol: number): number {
    const known = this.#edges.get(node, symbol);
    if (known !== 0) return known;
    const child = this.#nodes++;
    if (child >= this.#depth.length) this.#grow();
    this.#edges.put(node, symbol, child);
    this.#children[node] = 1;
    this.#depth[child] = this.#depth[node]! + 1;
    this.#parent[child] = node;
    this.#symbol[child] = symbol;
    return child;
  }

  #failOf(node: number): number {
    const parent = this.#parent[node]!;
    if (parent === ROOT) return ROOT;
    return this.step(this.#fail[parent]!, this.#symbol[node]!);
  }

  /** Counting sort: suffixes are shorter, so they come first. */
  #byDepth(): Int32Array {
    let deepest = 0;
    for (let node = 0; node < this.#nodes; node++) deepest = Math.max(deepest, this.#depth[node]!);
    const starts = new Int32Array(deepest + 2);
    for (let node = 0; node < this.#nodes; node++) starts[this.#depth[node]! + 1]!++;
    for (let depth = 1; depth < starts.length; depth++) starts[depth]! += starts[depth - 1]!;
    const order = new Int32Array(this.#nodes);
    for (let node = 0; node < this.#nodes; node++) order[starts[this.#depth[node]!]!++] = node;
    return order;
  }

  #grow(): void {
    const wider = (old: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> => {
      const next = new Int32Array(old.length * 2);
      next.set(old);
      return next;
    };
    this.#fail = wider(this.#fail);
    this.#depth = wider(this.#depth);
    this.#parent = wider(this.#parent);
    this.#symbol = wider(this.#symbol);
    this.#whole = wider(this.#whole);
    this.#tailNode = wider(this.#tailNode);
    this.#hold = wider(this.#hold);
    const children = new Uint8Array(this.#children.length * 2);
    children.set(this.#children);
    this.#children = children;
  }
}

/** Up to 4 bytes as a number, big-endian, as the scanner's window holds them. */
function word(pattern: string, at: number, length: number): number {
  let value = 0;
  for (let index = 0; index < length; index++) value = (value << 8) | pattern.charCodeAt(at + index);
  return value | 0;
}

function prefixHash(length: number, byteAt: (index: number) => number): number {
  let hash = 0;
  for (let at = 0; at < length; at++) hash = (Math.imul(hash, 257) + byteAt(at)) & 0xffff;
  return hash;
}

/** Pairs of 32-bit numbers to positive numbers, by open addressing in typed arrays; 0 is "none". */
export class PairTable {
  #keys = new Int32Array(128);
  #values = new Int32Array(64);
  #mask = 63;
  size = 0;

  get(first: number, second: number): number {
    for (let slot = this.#slot(first, second); ; slot = (slot + 1) & this.#mask) {
      const value = this.#values[slot]!;
      if (value === 0) return 0;
      if (this.#keys[slot * 2] === first && this.#keys[slot * 2 + 1] === second) return value;
    }
  }

  put(first: number, second: number, value: number): void {
    if (this.size * 2 > this.#mask) this.#grow();
    let slot = this.#slot(first, second);
    while (this.#values[slot] !== 0) {
      if (this.#keys[slot * 2] === first && this.#keys[slot * 2 + 1] === second) break;
      slot = (slot + 1) & this.#mask;
    }
    if (this.#values[slot] === 0) this.size++;
    this.#keys[slot * 2] = first;
    this.#keys[slot * 2 + 1] = second;
    this.#values[slot] = value;
  }

  #slot(first: number, second: number): number {
    let hash = Math.imul(first, 0x9e3779b1) ^ Math.imul(second, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15), 0xc2b2ae35);
    return (hash ^ (hash >>> 13)) & this.#mask;
  }

  #grow(): void {
    const keys = this.#keys;
    const values = this.#values;
    const slots = values.length * 2;
    this.#keys = new Int32Array(slots * 2);
    this.#values = new Int32Array(slots);
    this.#mask = slots - 1;
    this.size = 0;
    for (let slot = 0; slot < values.length; slot++) {
      if (values[slot] !== 0) this.put(keys[slot * 2]!, keys[slot * 2 + 1]!, values[slot]!);
    }
  }
}
