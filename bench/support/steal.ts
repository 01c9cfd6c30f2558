// What the machine below this one takes away: time in which a virtual processor had work and did not run.
import { readFileSync } from 'node:fs';

/** proc_stat(5): ticks of all processors, those stolen and all together. */
function ticks(): { readonly stolen: number; readonly all: number } {
  const [, ...fields] = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').split(/ +/).map(Number);
  // The last two are part of the first two.
  return { stolen: fields[7] ?? 0, all: fields.slice(0, 8).reduce((sum, one) => sum + one, 0) };
}

/** Of so much stolen time a round says more about the neighbours than about us. */
const MOST_STOLEN = 0.02;

/**
 * Rounds of which little was stolen: the others are taken again, and said, but not for ever. Only for what is measured
 * in milliseconds; a ratio needs nothing of it.
 */
export function* calmRounds(rounds: number): Generator<{ keep(): boolean }> {
  let kept = 0;
  let thrown = 0;
  while (kept < rounds) {
    const before = ticks();
    yield {
      keep() {
        const now = ticks();
        const isCalm = now.stolen - before.stolen <= MOST_STOLEN * (now.all - before.all);
        if (!isCalm && thrown < 2 * rounds) {
          thrown += 1;
          return false;
        }
        kept += 1;
        return true;
      },
    };
  }
  if (thrown > 0) console.error(`${thrown} rounds taken again: the machine below had other work`);
}
