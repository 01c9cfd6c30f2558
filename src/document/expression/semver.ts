/**
 * Versions and ranges as package managers write them (semver.org 2.0.0; ranges: `^ ~ > >= < <= =`, `1.x`, `*`,
 * `1.2 - 2.3`, `||`). Pre-releases match only where a comparator names the same three numbers, as is usual.
 */
interface Version {
  readonly numbers: readonly [number, number, number];
  readonly pre: readonly (number | string)[];
}
interface Comparator {
  readonly operator: '<' | '<=' | '>' | '>=' | '=';
  readonly version: Version;
}

const VERSION =
  /^[v=\s]*(0|[1-9]\d{0,14})\.(0|[1-9]\d{0,14})\.(0|[1-9]\d{0,14})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?\s*$/;
const PARTIAL =
  /^v?(?:(x|X|\*|0|[1-9]\d{0,14})(?:\.(x|X|\*|0|[1-9]\d{0,14})(?:\.(x|X|\*|0|[1-9]\d{0,14})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?)?)?)?$/;

/** True or false, or which of the two texts cannot be read. */
export function satisfies(version: string, range: string): boolean | 'bad-version' | 'bad-range' {
  const found = parseVersion(version.trim());
  if (found === undefined) return 'bad-version';
  if (range.length > 1000) return 'bad-range';
  let fits = false;
  for (const alternative of range.split('||')) {
    const comparators = parseAlternative(alternative.trim());
    if (comparators === undefined) return 'bad-range';
    fits ||= fitsAll(found, comparators);
  }
  return fits;
}

function parseVersion(text: string): Version | undefined {
  const match = VERSION.exec(text);
  if (match === null) return undefined;
  const pre = parsePre(match[4]);
  return pre && { numbers: [Number(match[1]), Number(match[2]), Number(match[3])], pre };
}

function parsePre(text: string | undefined): (number | string)[] | undefined {
  if (text === undefined) return [];
  const parts = text.split('.');
  if (parts.some((part) => part === '' || /^0\d+$/.test(part))) return undefined;
  return parts.map((part) => (/^\d{1,15}$/.test(part) ? Number(part) : part));
}

function fitsAll(version: Version, comparators: readonly Comparator[]): boolean {
  if (!comparators.every((c) => holds(compare(version, c.version), c.operator))) return false;
  if (version.pre.length === 0) return true;
  return comparators.some(
    (c) => c.version.pre.length > 0 && c.version.numbers.every((n, i) => n === version.numbers[i]),
  );
}

function holds(order: number, operator: Comparator['operator']): boolean {
  if (operator === '=') return order === 0;
  if (operator === '<') return order < 0;
  if (operator === '<=') return order <= 0;
  return operator === '>' ? order > 0 : order >= 0;
}

function compare(a: Version, b: Version): number {
  for (let i = 0; i < 3; i++) {
    const order = (a.numbers[i] as number) - (b.numbers[i] as number);
    if (order !== 0) return order;
  }
  if (a.pre.length === 0 || b.pre.length === 0) return Math.min(b.pre.length, 1) - Math.min(a.pre.length, 1);
  for (let i = 0; i < Math.max(a.pre.length, b.pre.length); i++) {
    const [x, y] = [a.pre[i], b.pre[i]];
    if (x === undefined || y === undefined) return x === undefined ? -1 : 1;
    if (x === y) continue;
    if (typeof x === typeof y) return x < y ? -1 : 1;
    return typeof x === 'number' ? -1 : 1;
  }
  return 0;
}

function parseAlternative(text: string): Comparator[] | undefined {
  const hyphen = /^(\S+)\s+-\s+(\S+)$/.exec(text);
  if (hyphen !== null) {
    const [low, high] = [bounds(hyphen[1] as string), bounds(hyphen[2] as string)];
    return (
      low &&
      high &&
      [...low.filter((c) => c.operator === '>=' || c.operator === '='), ...upTo(high)].map((c) =>
        c.operator === '=' ? { operator: '>=', version: c.version } : c,
      )
    );
  }
  const found: Comparator[] = [];
  for (const word of text
    .replace(/([<>]=?|[=^~])\s+/g, '$1')
    .split(/\s+/)
    .filter((w) => w !== '')) {
    const comparators = parseComparator(word);
    if (comparators === undefined) return undefined;
    found.push(...comparators);
  }
  return found.length > 0 ? found : [{ operator: '>=', version: of(0, 0, 0) }];
}

function upTo(high: readonly Comparator[]): Comparator[] {
  const exact = high.find((c) => c.operator === '=');
  if (exact !== undefined) return [{ operator: '<=', version: exact.version }];
  return high.filter((c) => c.operator === '<');
}

const LOWEST = [0];
function of(major: number, minor: number, patch: number, pre: readonly (number | string)[] = []): Version {
  return { numbers: [major, minor, patch], pre };
}

interface Partial {
  readonly numbers: readonly number[];
  readonly pre: readonly (number | string)[];
}

function parsePartial(text: string): Partial | undefined {
  const match = PARTIAL.exec(text);
  const pre = match === null ? undefined : parsePre(match[4]);
  if (match === null || pre === undefined) return undefined;
  const numbers: number[] = [];
  for (const part of match.slice(1, 4)) {
    if (part === undefined || /[xX*]/.test(part)) break;
    numbers.push(Number(part));
  }
  return { numbers, pre: numbers.length === 3 ? pre : [] };
}

/** What a version with missing parts covers: `1.2` is `>=1.2.0 <1.3.0-0`. */
function bounds(text: string): Comparator[] | undefined {
  const partial = parsePartial(text);
  return partial && span(partial, Math.max(partial.numbers.length - 1, 0));
}

/** From the version up to the next value of the number at `fixed`. */
function span(partial: Partial, fixed: number): Comparator[] {
  const [major = 0, minor = 0, patch = 0] = partial.numbers;
  if (partial.numbers.length === 0) return [{ operator: '>=', version: of(0, 0, 0) }];
  const low = of(major, minor, patch, partial.pre);
  if (fixed === 2) return [{ operator: '=', version: low }];
  return [
    { operator: '>=', version: low },
    { operator: '<', version: fixed === 0 ? of(major + 1, 0, 0, LOWEST) : of(major, minor + 1, 0, LOWEST) },
  ];
}

function parseComparator(word: string): Comparator[] | undefined {
  const operator = /^(?:[<>]=?|[=^]|~>?)?/.exec(word)?.[0] ?? '';
  const partial = parsePartial(word.slice(operator.length));
  if (partial === undefined) return undefined;
  const { numbers } = partial;
  const [major = 0, minor = 0, patch = 0] = numbers;
  const version = of(major, minor, patch, partial.pre);
  const whole = numbers.length === 3;
  if (operator === '' || operator === '=') return span(partial, Math.max(numbers.length - 1, 0));
  if (numbers.length === 0)
    return operator === '<' || operator === '>'
      ? [{ operator: '<', version: of(0, 0, 0, LOWEST) }]
      : span(partial, 0);
  if (operator === '~' || operator === '~>') return span(partial, numbers.length === 1 ? 0 : 1);
  if (operator === '^') {
    if (major > 0 || numbers.length === 1) return span(partial, 0);
    if (minor > 0 || numbers.length === 2) return span(partial, 1);
    return [
      { operator: '>=', version },
      { operator: '<', version: of(0, 0, patch + 1, LOWEST) },
    ];
  }
  if (whole) return [{ operator: operator as Comparator['operator'], version }];
  const next = numbers.length === 1 ? of(major + 1, 0, 0) : of(major, minor + 1, 0);
  if (operator === '>') return [{ operator: '>=', version: next }];
  if (operator === '<=') return [{ operator: '<', version: { ...next, pre: LOWEST } }];
  return [
    {
      operator: operator as Comparator['operator'],
      version: operator === '<' ? { ...version, pre: LOWEST } : version,
    },
  ];
}
