import { interval } from './sample.ts';
import type { Judged, Outcome, RoomScore } from './types.ts';

export const LIMIT = 0.8;

export interface Score {
  readonly killed: number;
  /** Without the equivalent ones. */
  readonly of: number;
  readonly share: number;
  readonly low: number;
  readonly high: number;
}

export function scoreOf(judged: readonly Judged[]): Score {
  const counted = judged.filter(({ outcome }) => outcome !== 'equivalent');
  const killed = counted.filter(({ outcome }) => outcome === 'killed').length;
  const [low, high] = interval(killed, counted.length);
  return { killed, of: counted.length, share: counted.length === 0 ? 0 : killed / counted.length, low, high };
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

export function scoreLine(score: Score): string {
  return `${percent(score.share)} (${score.killed} of ${score.of}; at 95 %: ${percent(score.low)} to ${percent(score.high)})`;
}

/** For a table's cell: one line, no bar, no end of the code mark. */
function code(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  const short = line.length > 80 ? `${line.slice(0, 77)}...` : line;
  return `\`${short.replaceAll('`', "'").replaceAll('|', '\\|')}\``;
}

function list(room: RoomScore, outcome: Outcome): readonly string[] {
  return room.judged
    .filter((one) => one.outcome === outcome)
    .map(
      ({ file, line, column, was, is, why }) =>
        `| ${file.replace(`src/oci/`, '')}:${line}:${column} | ${code(was)} | ${code(is)} | ${outcome === 'equivalent' ? `equivalent: ${why}` : outcome} |`,
    );
}

export function page(version: string, scores: readonly RoomScore[]): string {
  const rows = scores.map((room) => {
    const score = scoreOf(room.judged);
    const count = (outcome: Outcome) => room.judged.filter((one) => one.outcome === outcome).length;
    return `| \`oci/${room.room}\` | **${percent(score.share)}** | ${percent(score.low)} to ${percent(score.high)} | ${room.judged.length} of ${room.mutants} | ${room.files} | ${room.tests} | ${count('survived')} | ${count('not reached')} | ${count('equivalent')} | ${room.seed} | ${room.date} |`;
  });
  return `# Mutation score

Skycap ${version}. Written by \`npm run mutation\`, which fails where a room is under ${percent(LIMIT)}.

Stryker changes one place of the source at a time (a condition, an operator, a text, a whole block), and the tests of the room are to fail. A sample of all changes is judged, spread over the files in their order; the same seed chooses the same ones. The score is the share that was found; what no test reaches counts as not found, what ran out of time twice as found. Changes that nothing can tell from the source are left out, each with its reason.

| room | score | at 95 % | sample | files | tests | survived | not reached | equivalent | seed | date |
|---|---|---|---|---|---|---|---|---|---|---|
${rows.join('\n')}
${scores
  .map(
    (room) => `
## What was not found in \`oci/${room.room}\`

| where | was | made | outcome |
|---|---|---|---|
${[...list(room, 'survived'), ...list(room, 'not reached'), ...list(room, 'equivalent')].join('\n')}
`,
  )
  .join('')}`;
}
