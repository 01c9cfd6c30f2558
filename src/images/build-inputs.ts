import type { ImageSource } from '../bundle/index.ts';

/** The bytes that `build:` and `bake:` would be made from, as digests; reading them is the caller's. */
export interface BuildInputs {
  build(source: Extract<ImageSource, { kind: 'build' }>): Promise<{
    readonly context: string;
    readonly dockerfile: string;
    /** References in `FROM` lines, stages of the same file not among them. */
    readonly bases: readonly string[];
  }>;
  file(path: string): Promise<string>;
}

/**
 * The base images of a Dockerfile: `FROM` references after `ARG` defaults and given args are filled in; names of
 * earlier stages and `scratch` are none.
 */
export function baseImages(dockerfile: string, args: Readonly<Record<string, string>>): readonly string[] {
  const values = new Map<string, string>();
  const stages = new Set<string>(['scratch']);
  const bases = new Set<string>();
  for (const line of logicalLines(dockerfile)) {
    const arg = /^ARG\s+([A-Za-z_][A-Za-z0-9_]*)(?:=(.*))?$/i.exec(line);
    if (arg?.[1] !== undefined && bases.size === 0 && stages.size === 1) {
      values.set(arg[1], args[arg[1]] ?? (arg[2] ?? '').trim().replace(/^(["'])(.*)\1$/, '$2'));
      continue;
    }
    const from = /^FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?\s*$/i.exec(line);
    if (from?.[1] === undefined) continue;
    const image = from[1].replace(
      /\$(?:\{([A-Za-z_]\w*)(?::-([^}]*))?\}|([A-Za-z_]\w*))/g,
      (_, braced, fallback, bare) => {
        return values.get(braced ?? bare) || (fallback ?? '');
      },
    );
    if (!stages.has(image.toLowerCase())) bases.add(image);
    if (from[2] !== undefined) stages.add(from[2].toLowerCase());
  }
  return [...bases];
}

function logicalLines(text: string): readonly string[] {
  return text
    .split(/\r?\n/)
    .filter((line) => !/^\s*#/.test(line))
    .join('\n')
    .replace(/\\[ \t]*\n/g, ' ')
    .split('\n')
    .map((line) => line.trim());
}
