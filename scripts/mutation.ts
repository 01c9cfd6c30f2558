import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { judge } from '../test/mutation/judge.ts';
import { LIMIT, page, scoreLine, scoreOf } from '../test/mutation/page.ts';
import { rooms } from '../test/mutation/rooms.ts';
import type { RoomScore } from '../test/mutation/types.ts';

/**
 * `npm run mutation [ROOM…] [-- --sample N] [--seed N] [--jobs N] [--in PATH]`: a sample of changes to the source of each room, one
 * at a time, and the share of them that its tests find. Each room's result is kept under .mutation/; when all rooms
 * have one, docs/mutation.md is written. Exit 1 where a room is under 80 %. `--page` writes the page and runs nothing.
 * `--in` takes the mutants of one folder or file of the room only, for whoever is writing its tests; nothing is kept.
 */
const ROOT = join(import.meta.dirname, '..');
const KEPT = join(ROOT, '.mutation');
const PAGE = join(ROOT, 'docs/mutation.md');

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: 'string', default: '150' },
    seed: { type: 'string' },
    jobs: { type: 'string', default: '2' },
    page: { type: 'boolean', default: false },
    in: { type: 'string' },
  },
});

function wholeNumber(text: string, flag: string): number {
  if (!/^[0-9]{1,9}$/.test(text)) throw new Error(`--${flag} ${text} is not a whole number`);
  return Number(text);
}

function kept(name: string): RoomScore | undefined {
  try {
    return JSON.parse(readFileSync(join(KEPT, `${name}.json`), 'utf8')) as RoomScore;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function run(name: string, seed: number): Promise<RoomScore> {
  const room = rooms[name];
  if (room === undefined) throw new Error(`no room is named ${name}: ${Object.keys(rooms).join(', ')}`);
  const count = wholeNumber(values.sample, 'sample');
  const score = await judge(name, room, {
    count,
    seed,
    jobs: wholeNumber(values.jobs, 'jobs'),
    within: values.in,
  });
  if (values.in === undefined) writeFileSync(join(KEPT, `${name}.json`), JSON.stringify(score, undefined, 1));
  for (const one of score.judged)
    if (one.outcome === 'survived' || one.outcome === 'not reached')
      console.log(
        `${one.outcome}: ${one.file}:${one.line}:${one.column}: ${JSON.stringify(one.was)} made ${JSON.stringify(one.is)}`,
      );
  return score;
}

// Stryker works in the working directory.
process.chdir(ROOT);
mkdirSync(KEPT, { recursive: true });
const seed = values.seed === undefined ? Date.now() % 2 ** 31 : wholeNumber(values.seed, 'seed');
console.log(`seed ${seed}`);
let good = true;
for (const name of positionals.length > 0 ? positionals : Object.keys(rooms)) {
  const room = values.page ? kept(name) : await run(name, seed);
  if (room === undefined) throw new Error(`${name} was never run`);
  const score = scoreOf(room.judged);
  const met = score.share >= LIMIT;
  console.log(
    `${met ? 'ok' : 'FAILED'}: ${name}: ${scoreLine(score)}, a sample of ${room.judged.length} from ${room.mutants}, seed ${room.seed}`,
  );
  good = good && met;
}
const all = Object.keys(rooms).flatMap((name) => kept(name) ?? []);
if (all.length === Object.keys(rooms).length) {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  writeFileSync(PAGE, page(version, all));
}
process.exitCode = good ? 0 : 1;
