import type { Json } from '../document/index.ts';
import { planError } from './errors.ts';

/** More cells than this is a mistake in the file rather than a wish. */
const mostCells = 1024;

export interface Cell {
  /** `eu`, or `eu,prod` where the matrix has several keys. */
  readonly key: string;
  readonly values: Readonly<Record<string, Json>>;
}

/** Every combination of the values, the last key changing fastest. @throws MATRIX_INVALID */
export function matrixCells(step: string, axes: ReadonlyMap<string, readonly Json[]>): readonly Cell[] {
  let cells: Cell[] = [{ key: '', values: {} }];
  for (const [axis, values] of axes) {
    if (values.length === 0) {
      throw planError('MATRIX_INVALID', `step ${step}: matrix ${axis} has no values`, {
        hint: 'give at least one value, or guard the step with `when`',
      });
    }
    const next: Cell[] = [];
    for (const cell of cells) {
      for (const value of values) {
        const text = typeof value === 'string' ? value : JSON.stringify(value);
        next.push({
          key: cell.key === '' ? text : `${cell.key},${text}`,
          values: { ...cell.values, [axis]: value },
        });
      }
    }
    cells = next;
    if (cells.length > mostCells) {
      throw planError('MATRIX_INVALID', `step ${step}: the matrix has more than ${mostCells} cells`, {
        hint: 'split the step or give fewer values',
      });
    }
  }
  const seen = new Set<string>();
  for (const { key } of cells) {
    if (seen.has(key)) {
      throw planError('MATRIX_INVALID', `step ${step}: matrix value ${key} stands there twice`, {
        hint: 'give each value once',
      });
    }
    seen.add(key);
  }
  return cells;
}
