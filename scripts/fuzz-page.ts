import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** docs/fuzzing.md is where the numbers of the last run of each parser are kept: a run replaces its own rows. */
const PAGE = join(import.meta.dirname, '../docs/fuzzing.md');

const HEADINGS = {
  runs: [
    '| Parser | Date | Seconds | Of them busy | Inputs | Accepted | Branches reached | Judged by | Peer asked of |',
    '| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |',
  ],
  apart: ['| Parser | Difference on purpose | Inputs |', '| --- | --- | ---: |'],
  planted: [
    '| Parser | Date | Fault | Inputs until found | Seconds | What is said of it |',
    '| --- | --- | --- | ---: | ---: | --- |',
  ],
} as const;

export type Table = keyof typeof HEADINGS;

/** Cells of one row; the first one is the parser. */
export type Row = readonly [parser: string, ...rest: string[]];

const TEXT = (tables: Readonly<Record<Table, string>>): string => `# Fuzzing

Made by \`npm run fuzz -- --page\`. Each parser of foreign bytes is fed for ten minutes from valid seeds, guided by the branches that inputs reach. A run is red on a crash, on an input that does not come back, on a wrong reading, under a fifth of inputs accepted and under 85 % of the parser's branches reached. What a correct parser says is known for the inputs that are made; for those that are mutated it is asked of the judge, and of a sample of them a peer. \`erofs\` reads images that we wrote, \`erofs-image\` checks a layer and makes an image of it. How it works: \`test/fuzz\`.

Seconds are those of the clock; where the machine does other things too, the process is busy for less.

${tables.runs}

## Where a peer differs on purpose

GNU tar lists what we read and gives the same bodies, but for these. Each is then written once more in the one way that has only one meaning, ours, and GNU tar must read just what we do of that. Whatever else differs makes a run red. \`fsck.erofs\` never differs: it finds no error in any image, and what it extracts of it (as root) is what the layer says, entry by entry.

${tables.apart}

## Planted faults

\`npm run fuzz -- --planted --page\`: an off-by-one is put into each parser while it is loaded, and must be found within a minute.

${tables.planted}
`;

function rowsOf(page: string, table: Table): readonly Row[] {
  const at = page.indexOf(HEADINGS[table][0]);
  if (at === -1) return [];
  const lines = page.slice(at).split('\n').slice(2);
  const end = lines.findIndex((line) => !line.startsWith('| '));
  return lines.slice(0, end).map((line) => line.slice(2, -2).split(' | ') as unknown as Row);
}

/** Puts rows in the place of those that these parsers have, in the order of `parsers`. */
export function writeRows(table: Table, rows: readonly Row[], parsers: readonly string[]): void {
  const page = existsSync(PAGE) ? readFileSync(PAGE, 'utf8') : '';
  const made = Object.fromEntries(
    (Object.keys(HEADINGS) as Table[]).map((one) => {
      const kept = rowsOf(page, one);
      const own =
        one === table ? [...kept.filter(([name]) => !rows.some(([other]) => other === name)), ...rows] : kept;
      const sorted = own.toSorted(([a], [b]) => parsers.indexOf(a) - parsers.indexOf(b));
      return [one, [...HEADINGS[one], ...sorted.map((row) => `| ${row.join(' | ')} |`)].join('\n')];
    }),
  ) as Record<Table, string>;
  writeFileSync(PAGE, TEXT(made));
}

/** A cell of a table has one line, and no bars or tags of its own. */
export function cell(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|').replaceAll('<', '&lt;').trim();
}
