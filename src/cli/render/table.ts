import { escapeLine } from '../../kernel/index.ts';
import { displayWidth, padEnd } from './width.ts';

/** A table without borders, three spaces between columns and the last one not padded, so that awk and cut can read it. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [header, ...rows.map((row) => row.map((cell) => (cell === '' ? '-' : escapeLine(cell))))];
  const widths = header.map((_, column) => Math.max(...cells.map((row) => displayWidth(row[column] ?? ''))));
  const lines = cells.map((row) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : padEnd(cell, widths[column] ?? 0)))
      .join('   ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}

/** `Name:        value` lines, names padded to one width; undefined values are left out. */
export function properties(entries: readonly (readonly [string, string | undefined])[]): string {
  const shown = entries.filter((entry): entry is [string, string] => entry[1] !== undefined);
  const width = Math.max(0, ...shown.map(([name]) => displayWidth(name))) + 1;
  return shown.map(([name, value]) => `${padEnd(`${name}:`, width)}  ${escapeLine(value)}\n`).join('');
}

/** A heading and what is below it, or nothing where there is nothing. */
export function section(title: string, body: string): string {
  return body === '' ? '' : `\n${title}:\n${body.replace(/^(?=.)/gm, '  ')}`;
}
