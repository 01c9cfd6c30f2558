import { describe, expect, it } from 'vitest';
import { type ConsentRequest, consentFor } from './consent.ts';
import { resolveRegistry } from './registries.ts';
import type { Consent, RegistryRule } from './types.ts';

const rule = (prefix: string, more: Partial<RegistryRule> = {}): RegistryRule => ({
  prefix,
  mirrors: [],
  insecure: false,
  blocked: false,
  ...more,
});

describe('resolveRegistry', () => {
  const rules = [
    rule('ghcr.io', { location: '127.0.0.1:5000' }),
    rule('ghcr.io/acme', {
      location: 'cache.example/x',
      mirrors: [{ location: 'm.example', insecure: true }],
    }),
    rule('*.example', { location: 'wild.test' }),
    rule('bad.test', { blocked: true }),
    rule('loose.test:5000', { insecure: true }),
  ];
  it.each([
    ['ghcr.io/other/app', ['127.0.0.1:5000/other/app']],
    ['ghcr.io/acme/app', ['m.example/app', 'cache.example/x/app']],
    ['ghcr.io/acme', ['m.example', 'cache.example/x']],
    ['ghcr.io/acmeish/app', ['127.0.0.1:5000/acmeish/app']],
    ['ghcr.iox/app', ['ghcr.iox/app']],
    ['a.b.example:443/app', ['wild.test/app']],
    ['example/app', ['example/app']],
    ['.example/app', ['.example/app']],
    ['bad.test/app', []],
    ['loose.test:5000/app', ['loose.test:5000/app']],
    ['loose.test:50001/app', ['loose.test:50001/app']],
  ])('asks for %s at %j', (name, locations) => {
    expect(resolveRegistry(rules, name).endpoints.map((endpoint) => endpoint.location)).toEqual(locations);
  });
  it('keeps `insecure` to the address that it was said of', () => {
    expect(
      resolveRegistry(rules, 'ghcr.io/acme/app').endpoints.map(({ insecure, mirror }) => [insecure, mirror]),
    ).toEqual([
      [true, true],
      [false, false],
    ]);
    expect(resolveRegistry(rules, 'loose.test:5000/app').endpoints[0]?.insecure).toBe(true);
    expect(resolveRegistry(rules, 'bad.test/app').blocked).toBe(true);
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
