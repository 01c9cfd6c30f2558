import type { Place } from '../kernel/index.ts';

export interface Lines {
  /** Line and column from 1; a column counts UTF-16 units. */
  readonly at: (offset: number) => { readonly line: number; readonly column: number };
  /** The text of a line, from 1, without its line break. */
  readonly text: (line: number) => string;
  readonly count: number;
  /** The offset at which a line (from 1) begins. */
  readonly start: (line: number) => number;
}

/** Breaks a source into lines once; each question after that is a binary search. */
export function linesOf(source: string): Lines {
  const starts = [0];
  for (let i = source.indexOf('\n'); i >= 0; i = source.indexOf('\n', i + 1)) starts.push(i + 1);
  const start = (line: number): number => starts[Math.min(Math.max(line, 1), starts.length) - 1] ?? 0;
  return {
    count: starts.length,
    start,
    text: (line) => source.slice(start(line), starts[line] ?? source.length).replace(/\r?\n$/, ''),
    at: (offset) => {
      const wanted = Math.min(Math.max(offset, 0), source.length);
      let low = 0;
      let high = starts.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if ((starts[middle] as number) <= wanted) low = middle;
        else high = middle - 1;
      }
      return { line: low + 1, column: wanted - (starts[low] as number) + 1 };
    },
  };
}

/** Longest piece of a line that an excerpt shows; a minified file must not fill the terminal. */
const EXCERPT_WIDTH = 160;

/** The place of an offset, with the line and a caret under the column. */
export function placeAt(lines: Lines, file: string, offset: number): Place {
  const { line, column } = lines.at(offset);
  return { file, line, column, excerpt: excerptOf(lines.text(line), column) };
}

function excerptOf(text: string, column: number): string {
  const from = column <= EXCERPT_WIDTH - 20 ? 0 : column - 1 - EXCERPT_WIDTH / 2;
  const shown = text.slice(from, from + EXCERPT_WIDTH);
  const lead = from > 0 ? '… ' : '';
  const tail = from + EXCERPT_WIDTH < text.length ? ' …' : '';
  // Tabs are kept in the caret line, so that the caret stands under its column at any tab width.
  const pad = shown.slice(0, column - 1 - from).replace(/[^\t]/g, ' ');
  return `${lead}${shown}${tail}\n${' '.repeat(lead.length)}${pad}^`;
}
