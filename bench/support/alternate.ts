// Contenders by turns, so that what the machine does meanwhile hits all of them.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { median, run, type Timed } from './peers.ts';

export const ROUNDS = 3;
let worked = 0;

/** Runs every contender once a round, each in a fresh folder that stays. */
export async function alternate<Name extends string>(
  directory: string,
  contenders: Readonly<Record<Name, (work: string, round: number) => Promise<Timed>>>,
  rounds = ROUNDS,
): Promise<Readonly<Record<Name, readonly Timed[]>>> {
  const names = Object.keys(contenders) as Name[];
  const all = Object.fromEntries(names.map((name) => [name, [] as Timed[]])) as Record<Name, Timed[]>;
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      // Short: podman refuses a long name for what it keeps at run time.
      const work = join(directory, `w${worked++}`);
      await mkdir(work);
      await haveMemoryAtHand();
      all[name].push(await contenders[name](work, round));
    }
  }
  console.error(Object.fromEntries(names.map((name) => [name, all[name].map(({ ms }) => Math.round(ms))])));
  return all;
}

/**
 * The host of a virtual machine may take back what is free. A page is then waited for when it is next used (500 MB took
 * 6 s instead of 0.4), and who comes first pays for who comes next.
 */
async function haveMemoryAtHand(): Promise<void> {
  const file = '/dev/shm/skycap-bench';
  await run('sh', ['-c', `head -c 1500M /dev/zero >${file}; rm ${file}`]);
}

/** Of two contenders, round by round: a minute later the same file can take ext4 five times as long to make. */
export const ratio = (one: readonly Timed[], other: readonly Timed[]): number =>
  median(one.map(({ ms }, round) => ms / (other[round]?.ms ?? Number.NaN)));
