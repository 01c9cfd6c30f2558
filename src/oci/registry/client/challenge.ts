/** One challenge of a `WWW-Authenticate` header; scheme and parameter names in lower case. */
export interface Challenge {
  readonly scheme: string;
  readonly params: Readonly<Record<string, string>>;
}

const LONGEST = 16 * 1024;
const TOKEN = /[!#$%&'*+\-.^_`|~0-9A-Za-z]+/y;
const TOKEN68 = /[A-Za-z0-9\-._~+/]+=*(?=\s*(?:,|$))/y;

/**
 * All challenges of all header lines, in order (RFC 9110, 11.6.1): several in one line, quoted values with commas and
 * escapes, schemes without parameters. What cannot be read ends the line; what came before it counts.
 */
export function parseChallenges(lines: readonly string[]): readonly Challenge[] {
  return lines.flatMap((line) => parseLine(line.slice(0, LONGEST)));
}

function parseLine(line: string): Challenge[] {
  const found: { scheme: string; params: Record<string, string> }[] = [];
  let at = 0;
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const match = pattern.exec(line);
    if (match === null) return undefined;
    at = pattern.lastIndex;
    return match[0];
  };
  while (at < line.length) {
    take(/[\s,]+/y);
    const name = take(TOKEN);
    if (name === undefined) return found;
    const current = found.at(-1);
    if (current !== undefined && take(/\s*=\s*/y) !== undefined) {
      const value = line[at] === '"' ? unquote(take(/"(?:[^"\\]|\\.)*"/sy)) : take(TOKEN);
      if (value === undefined) return found;
      // The first of two equal names counts: a second one could be smuggled in behind it.
      if (!Object.hasOwn(current.params, name.toLowerCase())) current.params[name.toLowerCase()] = value;
      continue;
    }
    if (found.length > 0 && line[at] === '=') return found;
    found.push({ scheme: name.toLowerCase(), params: Object.create(null) as Record<string, string> });
    if (take(/ +(?=[^\s,])/y) !== undefined) take(TOKEN68);
  }
  return found;
}

function unquote(quoted: string | undefined): string | undefined {
  return quoted?.slice(1, -1).replace(/\\(.)/gs, '$1');
}
