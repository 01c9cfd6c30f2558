/** Numbers that come again for the same seed. */
export interface Random {
  /** 0 up to, and without, `end`. */
  below(end: number): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  text(alphabet: string, length: number): string;
}

/** Mulberry32: 32 bits of state are enough to choose mutations with. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (end: number): number => Math.floor(next() * end);
  return {
    below,
    chance: (probability) => next() < probability,
    pick: (list) => list[below(list.length)] as (typeof list)[number],
    text: (alphabet, length) => Array.from({ length }, () => alphabet[below(alphabet.length)]).join(''),
  };
}
