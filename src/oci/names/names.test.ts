import { describe, expect, it } from 'vitest';
import { isSkycapError } from '../../kernel/index.ts';
import { fc } from '../../testkit/property.ts';
import {
  createDigester,
  digestOf,
  digestParts,
  familiarReference,
  formatPlatform,
  formatReference,
  hostPlatform,
  isDigest,
  matchPlatform,
  parseDigest,
  parsePlatform,
  parseReference,
  repositoryOf,
  withDefaultTag,
} from './index.ts';

const SHA256 = `sha256:${'0123456789abcdef'.repeat(4)}`;
const SHA512 = `sha512:${'0123456789abcdef'.repeat(8)}`;
const codeOf = (call: () => unknown): string => {
  try {
    call();
  } catch (error) {
    return isSkycapError(error) ? error.code : `not coded: ${String(error)}`;
  }
  return 'accepted';
};

describe('parseReference', () => {
  it.each([
    ['alpine', 'docker.io/library/alpine'],
    ['alpine:3.19', 'docker.io/library/alpine:3.19'],
    ['docker.io/alpine', 'docker.io/library/alpine'],
    ['index.docker.io/alpine', 'docker.io/library/alpine'],
    ['index.docker.io/library/alpine', 'docker.io/library/alpine'],
    ['user/app', 'docker.io/user/app'],
    ['docker.io/user/app', 'docker.io/user/app'],
    ['library/alpine', 'docker.io/library/alpine'],
    ['localhost/app', 'localhost/app'],
    ['localhost:5000/app', 'localhost:5000/app'],
    ['localhost:5000/app:1', 'localhost:5000/app:1'],
    ['host:5000/a/b/c:tag', 'host:5000/a/b/c:tag'],
    ['host:5000', 'docker.io/library/host:5000'],
    ['127.0.0.1:5000/app', '127.0.0.1:5000/app'],
    ['[::1]:5000/app:1', '[::1]:5000/app:1'],
    ['[2001:db8::7]/app', '[2001:db8::7]/app'],
    ['GHCR.io/a/b', 'ghcr.io/a/b'],
    ['Upper:443/app', 'upper:443/app'],
    ['ghcr.io/a/b_c/d__e/f-g/h--i/j.k:T_a-g.1', 'ghcr.io/a/b_c/d__e/f-g/h--i/j.k:T_a-g.1'],
    [`ghcr.io/a/b@${SHA256}`, `ghcr.io/a/b@${SHA256}`],
    [`ghcr.io/a/b:1@${SHA512}`, `ghcr.io/a/b:1@${SHA512}`],
    ['a.b/c', 'a.b/c'],
    ['123.dkr.ecr.eu-west-1.amazonaws.com/x', '123.dkr.ecr.eu-west-1.amazonaws.com/x'],
  ])('%s is %s', (text, full) => {
    expect(formatReference(parseReference(text))).toBe(full);
  });

  it.each([
    '',
    ' ',
    '/',
    ':',
    '@',
    'alpine:',
    'alpine@',
    ':tag',
    '/alpine',
    'alpine/',
    'a//b',
    'a/../b',
    '../a',
    'a/./b',
    'Alpine',
    'docker.io/Alpine',
    'Upper/app',
    'ghcr.io/a/B',
    'a b',
    ' alpine',
    'alpine ',
    'alpine\n',
    'a\u0000b',
    'ä/b',
    '-a',
    'a-',
    '.a',
    'a.',
    '_a',
    'a_',
    'a..b',
    'a___b',
    'a._b',
    'alpine:-x',
    'alpine:.x',
    `alpine:${'x'.repeat(129)}`,
    'alpine:a:b',
    'https://ghcr.io/a/b',
    'host:0/a',
    'host:65536/a',
    'host:x/a',
    'host:/a',
    '-h.io/a',
    'h-.io/a',
    'h..io/a',
    '[::1/a',
    '[:::1]/a',
    '[1:2:3]/a',
    '[::1]x/a',
    '[1::2::3]/a',
    '[1::2::3:4:5:6:7:8]/a',
    '[]/a',
    '::1/a',
    'user@host/a',
    `${'f'.repeat(64)}`,
    `alpine@sha256:${'0'.repeat(63)}`,
    `alpine@sha256:${'0'.repeat(65)}`,
    `alpine@sha256:${'A'.repeat(64)}`,
    `alpine@md5:${'0'.repeat(32)}`,
    `alpine@sha384:${'0'.repeat(96)}`,
    `alpine@sha256:${'0'.repeat(64)}/../x`,
    `a@b@${SHA256}`,
    `${'a'.repeat(256)}`,
    `h.io/${'a'.repeat(251)}`,
  ])('refuses %j', (text) => {
    expect(codeOf(() => parseReference(text))).toBe('REFERENCE_INVALID');
  });

  it.each([
    ['ghcr.io/Acme/x:1', 'ghcr.io/acme/x'],
    ['Busybox', 'docker.io/library/busybox'],
  ])('%s is told to be perhaps %s, in the same registry', (text, suggestion) => {
    expect(() => parseReference(text)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining(`perhaps "${suggestion}"`) }),
    );
  });

  it('keeps the longest name', () => {
    expect(parseReference(`h.io/${'a'.repeat(250)}`).repository).toHaveLength(250);
  });

  it('shows the spelling that was written, without letting it drive the terminal', () => {
    expect(() => parseReference('Quay.io/Me/App')).toThrow('"Quay.io/Me/App"');
    expect(() => parseReference('a\u001b[2Jb')).toThrow('"a\\u001b[2Jb"');
    expect(() => parseReference('a\u202eb')).toThrow('\\u202e');
  });

  it('makes up no tag unless asked', () => {
    expect(parseReference('alpine')).not.toHaveProperty('tag');
    expect(withDefaultTag(parseReference('alpine')).tag).toBe('latest');
    expect(withDefaultTag(parseReference(`alpine@${SHA256}`))).not.toHaveProperty('tag');
    expect(withDefaultTag(parseReference('alpine:1')).tag).toBe('1');
  });

  it.each([
    ['docker.io/library/alpine:1', 'alpine:1'],
    ['docker.io/user/app', 'user/app'],
    ['docker.io/library/a/b', 'library/a/b'],
    ['docker.io/localhost/app', 'docker.io/localhost/app'],
    ['docker.io/a.b/app', 'docker.io/a.b/app'],
    [`docker.io/library/${'f'.repeat(64)}`, `docker.io/library/${'f'.repeat(64)}`],
    ['ghcr.io/a/b', 'ghcr.io/a/b'],
  ])('%s in short is %s', (full, short) => {
    expect(familiarReference(parseReference(full))).toBe(short);
  });
});

// The grammar of distribution/reference (reference.go), written down again as one expression.
const alnum = '[a-z0-9]+';
const pathComponent = `${alnum}(?:(?:[._]|__|[-]+)${alnum})*`;
const domainComponent = '(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])';
const domain = `(?:${domainComponent}(?:\\.${domainComponent})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?`;
const GRAMMAR = new RegExp(
  `^(?:${domain}/)?${pathComponent}(?:/${pathComponent})*(?::[\\w][\\w.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$`,
);

describe('references, for all', () => {
  const component = fc.stringMatching(new RegExp(`^${pathComponent}$`)).filter((text) => text.length < 40);
  const path = fc.array(component, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
  const label = fc.stringMatching(/^[a-zA-Z0-9]([a-zA-Z0-9-]{0,6}[a-zA-Z0-9])?$/);
  const host = fc.oneof(
    fc.array(label, { minLength: 2, maxLength: 3 }).map((labels) => labels.join('.')),
    fc.constant('localhost'),
    fc
      .ipV6()
      .filter((text) => !text.includes('.'))
      .map((text) => `[${text}]`),
  );
  const port = fc.option(fc.integer({ min: 1, max: 65535 }), { nil: undefined });
  const tag = fc.option(fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}$/), { nil: undefined });
  const digest = fc.option(fc.constantFrom(SHA256, SHA512), { nil: undefined });
  const spelling = fc
    .tuple(fc.option(host, { nil: undefined }), port, path, tag, digest)
    .map(([h, p, name, t, d]) => {
      // Without a host, a first component with a dot would be taken for one.
      if (h === undefined && /^[^/]*\./.test(name)) return `x/${name}`;
      const prefix = h === undefined ? '' : `${h}${p === undefined ? '' : `:${p}`}/`;
      return `${prefix}${name}${t === undefined ? '' : `:${t}`}${d === undefined ? '' : `@${d}`}`;
    })
    .filter((text) => !/^[a-f0-9]{64}/.test(text));

  it('what is accepted comes back from both forms', () => {
    fc.assert(
      fc.property(spelling, (text) => {
        const parsed = parseReference(text);
        expect(parseReference(formatReference(parsed))).toEqual(parsed);
        expect(parseReference(familiarReference(parsed))).toEqual(parsed);
        expect(formatReference(parsed).startsWith(repositoryOf(parsed))).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });

  it('nothing is accepted that the grammar refuses', () => {
    const damaged = fc
      .tuple(
        spelling,
        fc.nat(),
        fc.string({ minLength: 0, maxLength: 2, unit: fc.constantFrom(...'/:@.-_[]aA0 \n%\\?#\u0000é') }),
        fc.nat(2),
      )
      .map(([text, at, piece, cut]) => {
        const index = at % (text.length + 1);
        return text.slice(0, index) + piece + text.slice(index + cut);
      });
    let accepted = 0;
    fc.assert(
      fc.property(fc.oneof(damaged, fc.string({ maxLength: 40 })), (text) => {
        if (codeOf(() => parseReference(text)) !== 'accepted') return;
        accepted += 1;
        expect(text).toMatch(GRAMMAR);
      }),
      { numRuns: 5000 },
    );
    expect(accepted).toBeGreaterThan(500);
  });
});

describe('digests', () => {
  it('hashes bytes and strings, whole and in parts', () => {
    expect(digestOf('{}')).toBe('sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a');
    const parts = createDigester('sha512');
    parts.update(Buffer.from('{'));
    parts.update(Buffer.from('}'));
    expect(parts.digest()).toBe(digestOf(Buffer.from('{}'), 'sha512'));
    expect(digestParts(digestOf('{}'))).toEqual({ algorithm: 'sha256', hex: digestOf('{}').slice(7) });
  });

  it.each([
    '',
    'sha256:',
    SHA256.toUpperCase(),
    `${SHA256}\n`,
    ` ${SHA256}`,
    'sha256:../../x',
    `sha512:${'0'.repeat(64)}`,
  ])('refuses %j', (text) => {
    expect(isDigest(text)).toBe(false);
    expect(codeOf(() => parseDigest(text))).toBe('DIGEST_INVALID');
  });

  it('takes both registered algorithms', () => {
    expect([parseDigest(SHA256), parseDigest(SHA512)]).toEqual([SHA256, SHA512]);
  });
});

describe('platforms', () => {
  it.each([
    ['linux/amd64', 'linux/amd64'],
    ['linux/x86_64', 'linux/amd64'],
    ['Linux/AMD64/v1', 'linux/amd64'],
    ['linux/amd64/v3', 'linux/amd64/v3'],
    ['linux/aarch64', 'linux/arm64'],
    ['linux/arm64/v8', 'linux/arm64'],
    ['linux/arm64/8', 'linux/arm64'],
    ['linux/arm64/v9.0', 'linux/arm64/v9'],
    ['linux/arm', 'linux/arm/v7'],
    ['linux/arm/6', 'linux/arm/v6'],
    ['linux/armhf', 'linux/arm/v7'],
    ['linux/armel', 'linux/arm/v6'],
    ['linux/i386', 'linux/386'],
    ['macos/arm64', 'darwin/arm64'],
    ['__proto__/constructor', '__proto__/constructor'],
    ['windows(10.0.17763.1)/amd64', 'windows(10.0.17763.1)/amd64'],
  ])('%s is %s', (text, normal) => {
    expect(formatPlatform(parsePlatform(text))).toBe(normal);
    expect(formatPlatform(parsePlatform(normal))).toBe(normal);
  });

  it.each(['', 'linux', 'linux/', '/amd64', 'linux/amd64/v1/x', 'linux /amd64', 'a/../b'])(
    'refuses %j',
    (text) => {
      expect(codeOf(() => parsePlatform(text))).toBe('PLATFORM_INVALID');
    },
  );

  const pick = (offered: readonly string[], wanted: string): string | undefined => {
    const found = matchPlatform(
      offered.map((text) => ({ platform: parsePlatform(text) })),
      parsePlatform(wanted),
    );
    return found === undefined ? undefined : formatPlatform(found.platform);
  };

  it.each([
    [['linux/386', 'linux/amd64', 'linux/amd64/v3'], 'linux/amd64/v3', 'linux/amd64/v3'],
    [['linux/386', 'linux/amd64', 'linux/amd64/v3'], 'linux/amd64/v2', 'linux/amd64'],
    [['linux/386', 'linux/amd64/v2'], 'linux/amd64', 'linux/386'],
    [['linux/arm/v6', 'linux/arm/v7', 'linux/arm64'], 'linux/arm64', 'linux/arm64'],
    [['linux/arm/v6', 'linux/arm/v7'], 'linux/arm64', 'linux/arm/v7'],
    [['linux/arm/v5', 'linux/arm/v7'], 'linux/arm/v6', 'linux/arm/v5'],
    [['linux/arm/v7'], 'linux/arm/v6', undefined],
    [['linux/arm64', 'linux/arm64/v8.3', 'linux/arm64/v9'], 'linux/arm64/v9.1', 'linux/arm64/v9'],
    [['linux/arm64', 'linux/arm64/v8.3'], 'linux/arm64/v8.2', 'linux/arm64'],
    [['linux/arm64', 'linux/arm64/v8.5'], 'linux/arm64/v9', 'linux/arm64/v8.5'],
    [['windows/amd64'], 'linux/amd64', undefined],
    [['linux/riscv64'], 'linux/riscv64', 'linux/riscv64'],
    [
      ['windows(10.0.1.1)/amd64', 'windows(10.0.2.1)/amd64'],
      'windows(10.0.2.9)/amd64',
      'windows(10.0.2.1)/amd64',
    ],
  ])('of %j for %s takes %s', (offered, wanted, taken) => {
    expect(pick(offered, wanted)).toBe(taken);
  });

  it('takes the first of equals, and neither attestations nor children without a platform', () => {
    const platform = parsePlatform('linux/amd64');
    const attestation = {
      platform,
      annotations: { 'vnd.docker.reference.type': 'attestation-manifest' },
      id: 0,
    };
    const candidates = [
      attestation,
      { id: 1 },
      { platform: { os: 'unknown', architecture: 'unknown' }, id: 2 },
      { platform, id: 3 },
      { platform, id: 4 },
    ];
    expect(matchPlatform(candidates, platform)?.id).toBe(3);
    expect(matchPlatform([attestation], platform)).toBeUndefined();
  });

  it('knows the host', () => {
    expect(formatPlatform(hostPlatform({ platform: 'darwin', arch: 'arm64' }))).toBe('linux/arm64');
    expect(formatPlatform(hostPlatform({ platform: 'linux', arch: 'x64' }))).toBe('linux/amd64');
  });
});
