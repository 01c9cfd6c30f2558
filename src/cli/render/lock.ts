import type { LockChange } from '../../images/index.ts';
import { escapeLine } from '../../kernel/index.ts';
import { shortDigest } from './units.ts';

/** One line for each pin that came, moved or went. */
export function changesText(changes: readonly LockChange[]): string {
  return changes
    .map(({ kind, name, reference, from, to }) => {
      const digests = [from, to]
        .filter((digest) => digest !== undefined)
        .map(shortDigest)
        .join(' -> ');
      return `${kind.padEnd(7)} ${escapeLine(name)}  ${escapeLine(reference)}${digests === '' ? '' : `  ${digests}`}\n`;
    })
    .join('');
}
