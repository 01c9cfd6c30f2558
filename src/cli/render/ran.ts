import type { ActionResult } from '../../installation/index.ts';
import { isBinary } from '../../run/index.ts';
import { binaryCell } from './binary.ts';
import { cellOf, hidden } from './installation.ts';
import { runDetailJson } from './run.ts';
import { table } from './table.ts';

type Ran = Extract<ActionResult, { readonly kind: 'ran' }>;

/** The result of an action for machines: the run, and its outputs that are not sensitive. */
export function ranJson({ run, result }: Ran, isDeleted: boolean): Record<string, unknown> {
  return {
    ...runDetailJson(run),
    outputs: [...result.outputs].map(([name, value]) => ({
      name,
      sensitive: value.sensitive,
      value: value.sensitive ? hidden : value.json,
      ...(!value.sensitive && isBinary(value) ? { encoding: 'base64' } : {}),
    })),
    ...(isDeleted ? { deleted: true } : {}),
  };
}

/** What an action gave; what it did was told by the events. */
export function ranText({ run, result }: Ran, isDeleted: boolean): string {
  const outputs = [...result.outputs];
  const head = `${run.action} of ${run.installation} ${result.state}, run ${run.id}\n`;
  const rows = outputs.map(([name, value]) => [
    name,
    value.sensitive
      ? hidden
      : isBinary(value)
        ? binaryCell(name, value.bytes.byteLength)
        : cellOf(value.json),
  ]);
  return (
    head +
    (rows.length === 0 ? '' : `\n${table(['OUTPUT', 'VALUE'], rows)}`) +
    (isDeleted ? `deleted installation ${run.installation}\n` : '')
  );
}
