import { describe, expect, it } from 'vitest';
import { type ConsentRequest, consentFor } from './consent.ts';
import { mergeRules } from './registries.ts';
import type { Consent, RegistryRule } from './types.ts';

const rule = (prefix: string, more: Partial<RegistryRule> = {}): RegistryRule => ({
  prefix,
  mirrors: [],
  insecure: false,
  blocked: false,
  ...more,
});

describe('mergeRules', () => {
  it('puts the user’s before the machine’s, of each the first of a prefix, and marks what is the machine’s', () => {
    const user = [rule('a'), rule('a', { insecure: true })];
    const machine = [rule('a', { blocked: true }), rule('b'), rule('b', { insecure: true })];
    expect(mergeRules(user, machine)).toEqual([
      rule('a'),
      rule('a', { blocked: true, machine: true }),
      rule('b', { machine: true }),
    ]);
  });
});

describe('consentFor', () => {
  const request: ConsentRequest = {
    kind: 'docker',
    bundle: { repository: 'r.example/acme/app', digest: 'sha256:1', directory: '/srv/app' },
    image: { name: 'docker-tools', repository: 'ghcr.io/acme/docker-tools' },
    step: 'build',
    asked: true,
  };
  const standing = (more: Partial<Consent>): readonly Consent[] => [{ kind: 'docker', step: '*', ...more }];
  const granted = (consents: readonly Consent[], more: Partial<ConsentRequest> = {}): boolean =>
    consentFor({ consents }, {}, { ...request, ...more }).granted;

  it('is refused by default, with the flag that would allow it', () => {
    expect(consentFor({ consents: [] }, {}, request)).toMatchObject({
      granted: false,
      flag: '--allow-docker-host-access=docker-tools',
    });
  });
  it('a bare flag reaches only what asked; a flag with names reaches the named images', () => {
    expect(consentFor({ consents: [] }, { docker: true }, request).granted).toBe(true);
    expect(consentFor({ consents: [] }, { docker: true }, { ...request, asked: false }).granted).toBe(false);
    expect(
      consentFor({ consents: [] }, { docker: ['docker-tools'] }, { ...request, asked: false }).granted,
    ).toBe(true);
    expect(consentFor({ consents: [] }, { docker: ['other'] }, request).granted).toBe(false);
    expect(consentFor({ consents: [] }, { hostNetwork: true }, request).granted).toBe(false);
  });
  it.each<[Partial<Consent>, Partial<ConsentRequest>, boolean]>([
    [{ bundle: 'r.example/acme/app' }, {}, true],
    [{ bundle: '/srv/app' }, {}, true],
    [{ digest: 'sha256:1' }, {}, true],
    [{ bundle: 'r.example/acme/app', digest: 'sha256:2' }, {}, false],
    [{ bundle: 'r.example/acme/other' }, {}, false],
    [{}, {}, false],
    [{ digest: 'sha256:1' }, { asked: false }, false],
    [{ digest: 'sha256:1', image: 'docker-tools' }, { asked: false }, true],
    [{ digest: 'sha256:1', image: 'ghcr.io/acme/docker-tools' }, {}, true],
    [{ digest: 'sha256:1', image: 'docker' }, {}, false],
    [{ digest: 'sha256:1', step: 'build' }, {}, true],
    [{ digest: 'sha256:1', step: 'other' }, {}, false],
    [{ digest: 'sha256:1', kind: 'privileged' }, {}, false],
  ])('standing consent %j and request %j: %s', (consent, more, expected) => {
    expect(granted(standing(consent), more)).toBe(expected);
  });
});
