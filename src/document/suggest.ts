/** Longer names are not compared: a hostile name must not cost quadratic time. */
const LONGEST = 64;

/** Edit distance with transpositions (optimal string alignment); `limit + 1` when it is larger than `limit`. */
export function editDistance(a: string, b: string, limit = 3): number {
  if (a === b) return 0;
  if (a.length > LONGEST || b.length > LONGEST || Math.abs(a.length - b.length) > limit) return limit + 1;
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(
        (above[j] as number) + 1,
        (row[j - 1] as number) + 1,
        (above[j - 1] as number) + same,
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, (before[j - 2] as number) + 1);
      row.push(best);
    }
    before = above;
    above = row;
  }
  return Math.min(above[b.length] as number, limit + 1);
}

/**
 * The known name that was probably meant, or undefined. Case, `-` and `_` count nothing; up to three edits for
 * names of nine letters and more, two from five, one below.
 */
export function didYouMean(name: string, known: Iterable<string>): string | undefined {
  const bare = bareName(name);
  const limit = bare.length >= 9 ? 3 : bare.length >= 5 ? 2 : 1;
  let best: string | undefined;
  let bestDistance = limit + 1;
  for (const candidate of known) {
    if (candidate === name) continue;
    const distance = editDistance(bare, bareName(candidate), limit);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

function bareName(name: string): string {
  return name.toLowerCase().replace(/[-_]/g, '');
}
