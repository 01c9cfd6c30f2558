import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../../testkit/coded.ts';
import { cpuSeconds } from '../../../testkit/cpu.ts';
import { fc } from '../../../testkit/property.ts';
import { parseChallenges } from './challenge.ts';
import { nextLink } from './link.ts';
import { manifestMediaType } from './manifest.ts';
import { backOff, isTransientStatus, RETRY, retryAfter } from './retry.ts';

describe('parseChallenges', () => {
  const bearer = (params: object): object => ({ scheme: 'bearer', params });
  const LINES: readonly (readonly [readonly string[], readonly object[]])[] = [
    [['Basic realm="x"'], [{ scheme: 'basic', params: { realm: 'x' } }]],
    [['BEARER Realm="https://a/t",SERVICE=s'], [bearer({ realm: 'https://a/t', service: 's' })]],
    [
      ['Bearer realm="a", scope="repository:x:pull,push repository:y:pull"'],
      [bearer({ realm: 'a', scope: 'repository:x:pull,push repository:y:pull' })],
    ],
    [
      ['Negotiate, Basic realm="x", Bearer realm="y"'],
      [
        { scheme: 'negotiate', params: {} },
        { scheme: 'basic', params: { realm: 'x' } },
        bearer({ realm: 'y' }),
      ],
    ],
    [['Negotiate dG9rZW4=, Bearer realm="y"'], [{ scheme: 'negotiate', params: {} }, bearer({ realm: 'y' })]],
    [
      ['Basic realm="a\\"b\\\\c, Bearer realm=d"'],
      [{ scheme: 'basic', params: { realm: 'a"b\\c, Bearer realm=d' } }],
    ],
    [
      ['Digest realm="d"', 'Bearer realm = "y" , service = z'],
      [{ scheme: 'digest', params: { realm: 'd' } }, bearer({ realm: 'y', service: 'z' })],
    ],
    [['Bearer realm="a",realm="b"'], [bearer({ realm: 'a' })]],
    [['Bearer realm="unterminated'], [bearer({})]],
    [['Bearer realm="a",,, service="s"'], [bearer({ realm: 'a', service: 's' })]],
    [['Bearer realm="a" junk "quoted"'], [bearer({ realm: 'a' }), { scheme: 'junk', params: {} }]],
    [['', '   ', ',,'], []],
    [['="x"'], []],
  ];
  it.each(LINES)('R1 R3 %j', (lines, challenges) => {
    expect(parseChallenges(lines).map(({ scheme, params }) => ({ scheme, params: { ...params } }))).toEqual(
      challenges,
    );
  });

  it('ends for anything, soon', async () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom(...'Bearer Basic="\\,; \tx'), maxLength: 200 }), {
          maxLength: 3,
        }),
        (lines) => {
          for (const challenge of parseChallenges(lines)) expect(challenge.scheme).toMatch(/^\S+$/);
        },
      ),
      { numRuns: 3000 },
    );
    const long = [`Bearer realm="${'\\"'.repeat(200_000)}`, 'a '.repeat(200_000), ', '.repeat(200_000)];
    expect(await cpuSeconds(() => parseChallenges(long))).toBeLessThan(5);
  });
});

describe('retryAfter', () => {
  const now = Date.UTC(2026, 0, 1);
  it.each([
    ['5', '', 5000],
    [' 0 ', '', 0],
    ['Thu, 01 Jan 2026 00:00:07 GMT', '', 7000],
    ['Thu, 01 Jan 2025 00:00:07 GMT', '', 0],
    ['soon', '', undefined],
    [undefined, 'retry-after: 92.5µs, allowed: 44000/minute', 0.0925],
    [undefined, 'retry-after: 503.4ms', 503.4],
    [undefined, 'Retry-After: 1m30s', 90_000],
    [undefined, 'retry-after: 1x', undefined],
    [undefined, 'retry-after: s', undefined],
    [undefined, '', undefined],
    ['2', 'retry-after: 9s', 2000],
    ['1.25', '', 1250],
    ['x1', '', undefined],
    [undefined, 'retry-after: 4ns', 4e-6],
    [undefined, 'retry-after: 8us', 0.008],
    [undefined, 'retry-after: 8μs', 0.008],
    [undefined, 'retry-after: 12.25s', 12_250],
    [undefined, 'retry-after: 2h', 7_200_000],
    [undefined, 'retry-after: 2h.', undefined],
  ])('%j and %j', (header, body, expected) => {
    expect(retryAfter(header, body, now)).toBe(expected);
  });

  it('waits longer each time, never shorter than asked', () => {
    expect([0, 1, 2, 20].map((attempt) => backOff(RETRY, attempt, { asked: undefined, random: 1 }))).toEqual([
      250, 500, 1000, 15_000,
    ]);
    expect(backOff(RETRY, 1, { asked: undefined, random: 0 })).toBe(250);
    expect(backOff(RETRY, 0, { asked: 9000, random: 1 })).toBe(9000);
  });
});

it('asks again after what may pass, and after nothing else', () => {
  const statuses = Array.from({ length: 500 }, (_, index) => 100 + index);
  expect(statuses.filter(isTransientStatus)).toEqual([408, 425, 429, 500, 502, 503, 504]);
});

describe('nextLink', () => {
  it.each([
    [['</v2/a/tags/list?last=b&n=2>; rel="next"'], '/v2/a/tags/list?last=b&n=2'],
    [['<x>; rel=next'], 'x'],
    [['<x>; rel="prev next"'], 'x'],
    [['<a>; rel="prev", <b>; title="x, y; rel=next"; rel="next"'], 'b'],
    [['<a>; rel="last"', '<b>;rel=Next'], 'b'],
    [['<a>'], undefined],
    [['a; rel="next"'], undefined],
    [[], undefined],
  ])('%j', (lines, target) => {
    expect(nextLink(lines)).toBe(target);
  });

  it('ends soon', async () => {
    const long = [`<a>${';a'.repeat(50_000)}`, `<a>${' ; a = "'.repeat(20_000)}`, '<'.repeat(100_000)];
    expect(await cpuSeconds(() => nextLink(long))).toBeLessThan(5);
  });
});

describe('manifestMediaType', () => {
  const image = 'application/vnd.oci.image.manifest.v1+json';
  const index = 'application/vnd.oci.image.index.v1+json';
  const list = 'application/vnd.docker.distribution.manifest.list.v2+json';
  const check = (body: unknown, sentAs?: string): string => {
    try {
      return manifestMediaType(
        Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
        sentAs,
        'x',
      );
    } catch (error) {
      return codeFrom(error);
    }
  };
  const config = { mediaType: 'x', digest: 'y', size: 1 };
  it.each([
    [{ schemaVersion: 2, config, layers: [] }, image, image],
    [{ schemaVersion: 2, config, layers: null }, image, image],
    [{ schemaVersion: 2, config }, `${image}; charset=utf-8`, image],
    [{ schemaVersion: 2, mediaType: image, config, layers: [] }, undefined, image],
    [{ schemaVersion: 2, manifests: [] }, index, index],
    [{ schemaVersion: 2, mediaType: list, manifests: [] }, list, list],
    [{ schemaVersion: 2, mediaType: image, config, layers: [] }, index, 'OCI_MANIFEST_INVALID'],
    [{ schemaVersion: 2, mediaType: image, config, layers: [] }, 'application/json', 'OCI_MANIFEST_INVALID'],
    [{ schemaVersion: 2, manifests: [], layers: [] }, index, 'OCI_MANIFEST_INVALID'],
    [{ schemaVersion: 2, manifests: [], config }, image, 'OCI_MANIFEST_INVALID'],
    [{ schemaVersion: 2, config, layers: [] }, index, 'OCI_MANIFEST_INVALID'],
    [{ schemaVersion: 2, manifests: [] }, image, 'OCI_MANIFEST_INVALID'],
    [{ schemaVersion: 2, config, layers: {} }, image, 'OCI_MANIFEST_INVALID'],
    [{ schemaVersion: 2, config, layers: [] }, undefined, 'OCI_MANIFEST_INVALID'],
    [{ schemaVersion: 2, config, layers: [] }, 'text/plain', 'OCI_MANIFEST_INVALID'],
    [{ schemaVersion: 2, mediaType: 7, config }, image, 'OCI_MANIFEST_INVALID'],
    [
      { schemaVersion: 1, name: 'x', fsLayers: [] },
      'application/vnd.docker.distribution.manifest.v1+prettyjws',
      'OCI_MANIFEST_INVALID',
    ],
    [{ config, layers: [] }, image, 'OCI_MANIFEST_INVALID'],
    ['{"schemaVersion":2,"manifests":[],"manifests":[]}', index, 'OCI_MANIFEST_INVALID'],
    [[], image, 'OCI_MANIFEST_INVALID'],
    ['null', image, 'OCI_MANIFEST_INVALID'],
    ['<!doctype html><title>Log in</title>', 'text/html', 'REGISTRY_ANSWER_INVALID'],
    ['{"schemaVersion":2', image, 'REGISTRY_ANSWER_INVALID'],
    ['', image, 'REGISTRY_ANSWER_INVALID'],
  ])('%j sent as %s', (body, sentAs, expected) => {
    expect(check(body, sentAs)).toBe(expected);
  });
});
