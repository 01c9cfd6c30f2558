import { createHash } from 'node:crypto';

/** Everything in the order of its key, cut into as many parts as are wanted, and of each part one by the seed: spread over files, the same again for the same seed. */
export function sample<T>(
  all: readonly T[],
  key: (one: T) => string,
  by: { count: number; seed: number },
): T[] {
  const ordered = all
    .map((one) => ({ one, key: key(one) }))
    .sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  const count = Math.min(by.count, ordered.length);
  return Array.from({ length: count }, (_, part) => {
    const from = Math.floor((part * ordered.length) / count);
    const to = Math.floor(((part + 1) * ordered.length) / count);
    const random = createHash('sha256').update(`${by.seed} ${part}`).digest().readUIntBE(0, 6) / 2 ** 48;
    const chosen = ordered[from + Math.floor(random * (to - from))];
    if (chosen === undefined) throw new Error(`part ${part} of the sample is empty`);
    return chosen.one;
  });
}

/** Wilson's interval at 95 % for a share seen in a sample, both ends between 0 and 1. */
export function interval(part: number, whole: number): readonly [number, number] {
  if (whole === 0) return [0, 1];
  const z = 1.959964;
  const share = part / whole;
  const middle = (share + z ** 2 / (2 * whole)) / (1 + z ** 2 / whole);
  const half =
    (z / (1 + z ** 2 / whole)) * Math.sqrt((share * (1 - share)) / whole + z ** 2 / (4 * whole ** 2));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}
