import { isDeepStrictEqual } from 'node:util';
import type { Reference } from '../../../src/oci/index.ts';
import {
  familiarReference,
  formatReference,
  parseReference,
  withDefaultTag,
} from '../../../src/oci/names/reference.ts';
import { mutateBytes } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { Case, Target } from '../types.ts';

/** The grammar of github.com/distribution/reference once more, as one expression: whatever we accept fits it. */
const LABEL = '(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])';
const HOST = `(?:${LABEL}(?:\\.${LABEL})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?`;
const COMPONENT = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';
const GRAMMAR = new RegExp(
  `^${HOST}/${COMPONENT}(?:/${COMPONENT})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}))?$`,
);

const WORD = 'abcdefghijklmnopqrstuvwxyz0123456789';
const SEPARATORS = ['.', '_', '__', '-', '---'];

function component(random: Random): string {
  let text = random.text(WORD, 1 + random.below(9));
  while (random.chance(0.3)) text += random.pick(SEPARATORS) + random.text(WORD, 1 + random.below(4));
  return text;
}

/** Written form, registry, and whether it may be. */
function host(random: Random): readonly [string, string, boolean] {
  const port = random.pick([1, 5000, 65535, 65536, 0, 100_000]);
  const withPort = (name: string): readonly [string, string, boolean] => [
    `${name}:${port}/`,
    `${name}:${port}`,
    port > 0 && port < 65536,
  ];
  switch (random.below(7)) {
    case 0:
      return ['', 'docker.io', true];
    case 1:
      return ['docker.io/', 'docker.io', true];
    case 2:
      return ['Registry.EXAMPLE/', 'registry.example', true];
    case 3:
      return withPort('[2001:db8::7]');
    case 4:
      return withPort('localhost');
    case 5: {
      const groups = random.pick([7, 8, 9]);
      const text = `[${Array.from({ length: groups }, () => random.text('0123456789abcdef', 1 + random.below(4))).join(':')}]`;
      return [`${text}/`, text, groups === 8];
    }
    default:
      return withPort(`${random.text(WORD, 3)}-x.example`);
  }
}

function make(random: Random): Case {
  const [written, registry, hostFits] = host(random);
  const path = Array.from({ length: 1 + random.below(3) }, () => component(random)).join('/');
  // A first component with a dot would be a host where none is written.
  const plain = written === '' || written === 'docker.io/' ? path.replace(/[._-]+/g, 'x') : path;
  const repository = registry === 'docker.io' && !plain.includes('/') ? `library/${plain}` : plain;
  const safe = plain === 'localhost' || plain.startsWith('localhost/') || /^[a-f0-9]{64}$/.test(plain);
  const tagLength = random.pick([0, 0, 1, 7, 127, 128, 129]);
  const tag = tagLength === 0 ? undefined : random.text('abcXYZ019_', tagLength);
  const hex = (length: number): string => random.text('0123456789abcdef', length);
  const digest = random.chance(0.3)
    ? random.pick([`sha256:${hex(64)}`, `sha512:${hex(128)}`, `sha256:${hex(63)}`])
    : undefined;
  const digestFits = digest === undefined || digest.length !== 'sha256:'.length + 63;
  const text = `${written}${plain}${tag === undefined ? '' : `:${tag}`}${digest === undefined ? '' : `@${digest}`}`;
  if (safe) return { bytes: Buffer.from(text) };
  const short = registry.length + 1 + repository.length <= 255;
  const accepted = hostFits && tagLength <= 128 && digestFits && short;
  const value = `${registry} ${repository} ${tag ?? '-'} ${digest ?? '-'}`;
  return { bytes: Buffer.from(text), accepted, ...(accepted ? { value } : {}) };
}

function judge(reference: Reference): string | undefined {
  const full = formatReference(reference);
  if (!GRAMMAR.test(full)) return `${full} is outside the grammar`;
  if (reference.registry.length + 1 + reference.repository.length > 255) return 'the name is too long';
  for (const text of [full, familiarReference(reference)]) {
    if (!isDeepStrictEqual(parseReference(text), reference)) return `${text} is not read as it was written`;
  }
  const tagged = withDefaultTag(reference);
  if (tagged.tag === undefined && tagged.digest === undefined) return 'there is no default tag';
  return undefined;
}

export const target: Target<Reference> = {
  name: 'reference',
  judgedBy: 'the grammar once more as one expression; both written forms, read again',
  sources: { 'src/oci/names/reference.ts': 'all' },
  planted: { file: 'src/oci/names/reference.ts', from: '{0,127}$/', to: '{0,128}$/' },
  make,
  seeds: () =>
    [
      '',
      'Alpine',
      'ghcr.io/a/B',
      'a//b',
      ':1',
      '@',
      `${'a/'.repeat(140)}b`,
      'f'.repeat(64),
      'sub.a/b@x:y',
    ].map((text) => Buffer.from(text)),
  mutate: mutateBytes,
  parse: (bytes) => parseReference(bytes.toString()),
  canonical: ({ registry, repository, tag, digest }) =>
    `${registry} ${repository} ${tag ?? '-'} ${digest ?? '-'}`,
  judge,
};
