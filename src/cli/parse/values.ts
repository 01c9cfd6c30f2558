import { usage } from '../errors.ts';
import type { Flag, FlagValue } from '../types.ts';

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `90s`, `1h30m`, `7d`. @returns milliseconds, or undefined if it is none */
export function parseDuration(text: string): number | undefined {
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(text)) {
    return undefined;
  }
  let total = 0;
  for (const [, number, , unit] of text.matchAll(/(\d+(\.\d+)?)(ms|s|m|h|d)/g)) {
    total += Number(number) * unitMs[unit as keyof typeof unitMs];
  }
  return total;
}

/** One value of a flag, checked. `source` names it in messages: `--limit` or `SKYCAP_LIMIT`. */
export function parseValue(flag: Flag, text: string, source: string): FlagValue {
  if (flag.choices !== undefined && !flag.choices.includes(text)) {
    throw usage(
      `${source}: ${JSON.stringify(text)} is none of the allowed values`,
      `use one of ${flag.choices.join(', ')}`,
    );
  }
  if (flag.type === 'switch') {
    return parseSwitch(text, source);
  }
  if (flag.type === 'integer') {
    if (!/^\d{1,15}$/.test(text)) {
      throw usage(
        `${source}: ${JSON.stringify(text)} is not a whole number`,
        `write ${source} as digits, for example 10`,
      );
    }
    return Number(text);
  }
  if (flag.type === 'duration') {
    const milliseconds = parseDuration(text);
    if (milliseconds === undefined) {
      throw usage(
        `${source}: ${JSON.stringify(text)} is not a duration`,
        'write it as 90s, 10m, 1h30m or 7d',
      );
    }
    return milliseconds;
  }
  return flag.type === 'optional' ? text.split(',').filter((item) => item !== '') : text;
}

/** As Go's `strconv.ParseBool`, which Porter uses. */
function parseSwitch(text: string, source: string): boolean {
  if (['1', 't', 'T', 'true', 'TRUE', 'True'].includes(text)) {
    return true;
  }
  if (['0', 'f', 'F', 'false', 'FALSE', 'False'].includes(text)) {
    return false;
  }
  throw usage(
    `${source}: ${JSON.stringify(text)} is neither true nor false`,
    `write ${source}=true or ${source}=false, or leave the value out`,
  );
}
