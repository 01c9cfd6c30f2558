import { describe, expect, it } from 'vitest';
import type { RegistryRule } from '../../../settings/index.ts';
import { parseReference } from '../../names/index.ts';
import { apiHost, endpointsOf } from './endpoints.ts';

const rule = (prefix: string, more: Partial<RegistryRule> = {}): RegistryRule => ({
  prefix,
  mirrors: [],
  insecure: false,
  blocked: false,
  ...more,
});
const of = (text: string, ...rules: readonly RegistryRule[]) => endpointsOf(parseReference(text), rules);
const at = (text: string, ...rules: readonly RegistryRule[]): string => {
  const { host, repository } = of(text, ...rules).write;
  return `${host}/${repository}`;
};
const to = (prefix: string, location: string): RegistryRule => rule(prefix, { location });

describe('an endpoint', () => {
  it('is the place itself where no rule speaks of it', () => {
    const write = { host: 'r.test:5000', repository: 'a/b', insecure: false, mirror: false };
    expect(of('r.test:5000/a/b:1')).toEqual({ read: [write], write });
    expect(of('r.test:5000/a/b:1', rule('s.test', { insecure: true }))).toEqual({ read: [write], write });
  });

  it('says what the rule says of it, and of each mirror what that says', () => {
    const mirrors = [
      { location: 'm.test/x', insecure: true },
      { location: 'n.test', insecure: false },
    ];
    const write = { host: 's.test', repository: 'a', insecure: true, mirror: false };
    expect(of('r.test/a', rule('r.test', { location: 's.test', insecure: true, mirrors }))).toEqual({
      read: [
        { host: 'm.test', repository: 'x/a', insecure: true, mirror: true },
        { host: 'n.test', repository: 'a', insecure: false, mirror: true },
        write,
      ],
      write,
    });
  });

  it.each([
    ['docker.io', 'registry-1.docker.io'],
    ['index.docker.io', 'registry-1.docker.io'],
    ['registry-1.docker.io', 'registry-1.docker.io'],
    ['xindex.docker.io', 'xindex.docker.io'],
    ['docker.io:443', 'docker.io:443'],
  ])('of %s is asked at %s', (host, api) => {
    expect(apiHost(host)).toBe(api);
  });
});

describe('a rule', () => {
  it.each([
    // The whole host, or up to a part of the path, a tag or a digest.
    ['r.test/a', 'r.test', 'x.test/a'],
    ['r.test:5000/a', 'r.test:5000', 'x.test/a'],
    ['r.test/a/b', 'r.test/a', 'x.test/b'],
    ['r.test/a/b', 'r.test/a/', 'r.test/a/b'],
    ['r.test/ab', 'r.test/a', 'r.test/ab'],
    ['r.testing/a', 'r.test', 'r.testing/a'],
    ['s.r.test/a', 'r.test', 's.r.test/a'],
    // Only the host has no case.
    ['R.Test/a', 'r.TEST', 'x.test/a'],
    ['r.test/a/b', 'R.test/a', 'x.test/b'],
    ['r.test/a/b', 'r.test/A', 'r.test/a/b'],
    // A star for one or more names before the domain, whatever the port.
    ['a.r.test/x', '*.r.test', 'x.test/x'],
    ['a.b.r.test/x', '*.R.test', 'x.test/x'],
    ['a.r.test:5000/x', '*.r.test', 'x.test/x'],
    ['r.test/x', '*.r.test', 'r.test/x'],
    ['ar.test/x', '*.r.test', 'ar.test/x'],
    ['a.r.test.evil/x', '*.r.test', 'a.r.test.evil/x'],
    ['a.r.test/x', '*.test:5000', 'a.r.test/x'],
  ])('for %s with the prefix %s leads to %s', (text, prefix, place) => {
    expect(at(text, to(prefix, 'x.test'))).toBe(place);
  });

  it('gives way to a longer one, of equal ones the first counts, and a star is worth nothing', () => {
    const [short, long] = [to('r.test', 'short.test'), to('r.test/a', 'long.test')];
    expect([at('r.test/a/b', short, long), at('r.test/a/b', long, short)]).toEqual([
      'long.test/b',
      'long.test/b',
    ]);
    expect(at('r.test/a', to('r.test', 'one.test'), to('r.test', 'two.test'))).toBe('one.test/a');
    expect(at('a.r.test/x', to('*.r.test', 'star.test'), to('a.r.test', 'own.test'))).toBe('own.test/x');
  });

  it('may end its location in slashes', () => {
    expect(at('r.test/a', to('r.test', 'x.test/y//'))).toBe('x.test/y/a');
    expect(at('r.test/a', to('r.test', 'X.TEST/y'))).toBe('x.test/y/a');
  });

  it('changes nothing but what it says', () => {
    expect(at('r.test/a', rule('r.test', { insecure: true }))).toBe('r.test/a');
    expect(of('r.test/a', rule('r.test', { insecure: true })).write.insecure).toBe(true);
  });

  it.each(['https://x.test', 'x.test/A', 'x..test', '/x', '-x.test/y', 'x.test/y/../z'])(
    'with the location %j is refused',
    (location) => {
      expect(() => at('r.test/a', to('r.test', location))).toThrow(
        expect.objectContaining({
          code: 'REGISTRY_ADDRESS_REFUSED',
          message: `${JSON.stringify(location)} is not a location of the form host[:port][/path]`,
          hint: 'correct the location in the registries configuration',
        }),
      );
    },
  );
});

describe('what is blocked', () => {
  const MINE = 'remove the rule, or take the image from another registry';
  const MACHINE = "take the image from another registry, or ask this machine's administrator";
  const blocked = (text: string, prefix: string, hint: string, rules: readonly RegistryRule[]): void => {
    expect(() => of(text, ...rules)).toThrow(
      expect.objectContaining({
        code: 'REGISTRY_BLOCKED',
        message: `${text}: the configuration blocks "${prefix}"`,
        hint,
      }),
    );
  };
  const machine = rule('bad.test', { blocked: true, machine: true });

  it('is said with the rule and whom to ask', () => {
    blocked('bad.test/a:1', 'bad.test', MINE, [rule('bad.test', { blocked: true })]);
    blocked('bad.test/a:1', 'bad.test', MACHINE, [machine]);
    blocked('bad.test/a:1', 'bad.test', MACHINE, [rule('bad.test/a'), machine]);
    blocked('good.test/a:1', 'bad.test', MACHINE, [to('good.test', 'bad.test'), machine]);
    blocked('registry-1.docker.io/a/b:1', 'docker.io', MINE, [rule('docker.io', { blocked: true })]);
    // A rule for the name that was used, not for docker.io.
    const hub = 'registry-1.docker.io';
    blocked(`${hub}/a/b:1`, hub, MINE, [rule(hub, { blocked: true })]);
  });

  it('is not what a rule of the machine leads to, nor a mirror that is not for this', () => {
    const leading = rule('good.test', { location: 'bad.test', machine: true });
    expect(at('good.test/a:1', leading, machine)).toBe('bad.test/a');
    const mirrors = [{ location: 'bad.test', insecure: false, pullFromMirror: 'digest-only' as const }];
    expect(of('good.test/a:1', rule('good.test', { mirrors }), machine).read).toHaveLength(1);
  });
});
