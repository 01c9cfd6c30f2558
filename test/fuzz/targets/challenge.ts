import { type Challenge, parseChallenges } from '../../../src/oci/registry/client/challenge.ts';
import { mutateBytes } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { Case, Target } from '../types.ts';

const TOKEN = "!#$%&'*+-.^_`|~abcXYZ019";
const TEXT = 'abc XYZ:/,=?&"\\\t;é';

type Written = readonly [scheme: string, params: readonly (readonly [string, string])[]];

/** A parameter is written as a token where it can be, else quoted; RFC 9110, 5.6.2 and 5.6.4. */
function parameter(random: Random, [name, value]: readonly [string, string]): string {
  const bare = value !== '' && [...value].every((one) => TOKEN.includes(one)) && random.chance(0.7);
  const gap = random.pick(['', '', ' ', '\t ']);
  return `${name}${gap}=${gap}${bare ? value : quote(value)}`;
}

function quote(value: string): string {
  return `"${value.replace(/["\\]/g, '\\$&')}"`;
}

function make(random: Random): Case {
  const lines = Array.from({ length: 1 + random.below(2) }, () =>
    Array.from({ length: 1 + random.below(3) }, (): Written => {
      const names = ['realm', 'Service', 'scope', 'error', random.text(TOKEN, 1 + random.below(5))];
      const params = names
        .filter(() => random.chance(0.5))
        .map((name) => {
          const alphabet = random.pick([TOKEN, TEXT]);
          return [name, random.text(alphabet, random.below(random.chance(0.1) ? 90 : 9))] as const;
        });
      return [random.pick(['Bearer', 'basic', 'Negotiate', random.text(TOKEN, 1 + random.below(4))]), params];
    }),
  );
  const text = lines
    .map((line) =>
      line
        .map(([scheme, params]) => {
          const body = params.map((one) => parameter(random, one)).join(random.pick([',', ', ', ' ,\t']));
          // A scheme alone may carry a token68, which nobody asks for.
          return body === '' ? `${scheme}${random.pick(['', ' YWJj=='])}` : `${scheme} ${body}`;
        })
        .join(random.pick([', ', ',', ' , ,'])),
    )
    .join('\n');
  const expected = lines.flat().map(([scheme, params]): Challenge => {
    const kept: Record<string, string> = Object.create(null) as Record<string, string>;
    for (const [name, value] of params) kept[name.toLowerCase()] ??= value;
    return { scheme: scheme.toLowerCase(), params: kept };
  });
  return { bytes: Buffer.from(text, 'latin1'), accepted: true, value: canonical(expected) };
}

function canonical(value: readonly Challenge[]): string {
  return JSON.stringify(value.map(({ scheme, params }) => [scheme, Object.entries(params)]));
}

function format({ scheme, params }: Challenge): string {
  const body = Object.entries(params).map(([name, value]) => `${name}=${quote(value)}`);
  return `${scheme} ${body.join(', ')}`;
}

function judge(value: readonly Challenge[]): string | undefined {
  for (const { scheme, params } of value) {
    for (const name of [scheme, ...Object.keys(params)]) {
      if (!/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name)) return `${JSON.stringify(name)} is no token`;
    }
  }
  const again = canonical(parseChallenges(value.map(format)));
  return again === canonical(value) ? undefined : `${canonical(value)} comes back as ${again}`;
}

export const target: Target<readonly Challenge[]> = {
  name: 'challenge',
  judgedBy: 'what was written; the challenges written again and read',
  sources: { 'src/oci/registry/client/challenge.ts': 'all' },
  planted: { file: 'src/oci/registry/client/challenge.ts', from: 'slice(1, -1)', to: 'slice(1, -2)' },
  make,
  seeds: () => ['', ',,', 'Bearer realm="x', '=a', 'Basic =', 'a b c=d e="'].map((text) => Buffer.from(text)),
  mutate: mutateBytes,
  parse: (bytes) => parseChallenges(bytes.toString('latin1').split('\n')),
  accepts: (value) => value.length > 0,
  canonical,
  judge,
};
