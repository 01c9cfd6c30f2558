const DURATION = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;
const MILLISECONDS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Longest duration: what a timer of Node can hold (24.8 days). */
const LONGEST = 2 ** 31 - 1;

/** Milliseconds of `10m`, `1h30m`, `1.5s`, `250ms`, `2d`; undefined when it is none, or zero, or over 24 days. */
export function parseDuration(value: string): number | undefined {
  if (value.length > 64 || !DURATION.test(value)) return undefined;
  let total = 0;
  for (const [, amount, unit] of value.matchAll(PART))
    total += Number(amount) * (MILLISECONDS[unit as string] as number);
  const rounded = Math.round(total);
  return rounded > 0 && rounded <= LONGEST ? rounded : undefined;
}

const SIZE = /^(\d+(?:\.\d+)?)(k|K|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?(?:B)?$/;
const FACTORS: Readonly<Record<string, number>> = {
  k: 1e3,
  K: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

/** Bytes of `512Mi`, `1.5G`, `1048576`; undefined when it is none or not positive. */
export function parseSize(value: string): number | undefined {
  const match = SIZE.exec(value);
  if (match === null) return undefined;
  const bytes = Math.round(Number(match[1]) * (match[2] === undefined ? 1 : (FACTORS[match[2]] as number)));
  return bytes > 0 && Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** CPUs of `1`, `0.5`, `500m`; undefined when it is none or not positive. */
export function parseCpus(value: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(m)?$/.exec(value);
  if (match === null) return undefined;
  const cpus = Number(match[1]) / (match[2] === undefined ? 1 : 1000);
  return cpus > 0 && cpus <= 4096 ? cpus : undefined;
}
