import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isSkycapError } from '../kernel/index.ts';
import { fc } from '../testkit/property.ts';
import { isAddress } from './parse-registries.ts';
import { readContainersRules } from './registries-conf.ts';
import type { RegistryRule } from './types.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skycap-registries-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function read(text: string): Promise<readonly RegistryRule[] | Error> {
  const file = join(directory, 'registries.conf');
  await writeFile(file, text, { mode: 0o600 });
  const env = { CONTAINERS_REGISTRIES_CONF: file };
  const input = { env, uid: process.getuid?.() ?? 0, containersFolder: directory };
  try {
    return (await readContainersRules(input, undefined)).user.map(({ rule }) => rule);
  } catch (error) {
    return error as Error;
  }
}

const FILE = `unqualified-search-registries = ["docker.io"]
[[registry]]
prefix = "*.example"
location = "mirror.test:5000/a"
insecure = true
[[registry.mirror]]
location = "near.test"
pull-from-mirror = "tag-only"
[[registry]]
location = "bad.test"
blocked = true
[registries.insecure]
registries = ["old.test:80"]
[registries.block]
registries = ['worse.test']
`;

const registry = (lines: string): string => `[[registry]]\n${lines}\n`;

describe('registries.conf, malformed', () => {
  it('a file that is right is read', async () => {
    expect(await read(FILE)).toMatchObject([
      { prefix: 'worse.test', blocked: true },
      { prefix: 'old.test:80', insecure: true },
      { prefix: 'bad.test', blocked: true },
      { prefix: '*.example', location: 'mirror.test:5000/a', mirrors: [{ pullFromMirror: 'tag-only' }] },
    ]);
  });

  it.each([
    ['no TOML', '[[registry'],
    ['another format', '{"registry": []}'],
    ['one key twice', registry('location = "a.test"\nlocation = "b.test"')],
    ['a table where a list is to be', '[registry]\nlocation = "a.test"'],
    ['neither prefix nor location', registry('insecure = true')],
    ['a location with a scheme', registry('location = "https://a.test"')],
    ['a location with a user', registry('location = "u:p@a.test"')],
    ['a location out of the path', registry('location = "a.test/../b"')],
    ['a prefix with a blank', registry('prefix = "a test"')],
    ['a star in the middle', registry('prefix = "a.*.test"')],
    ['a location that is a number', registry('location = 7')],
    ['a flag that is a text', registry('location = "a.test"\nblocked = "true"')],
    ['mirrors that are texts', registry('location = "a.test"\nmirror = ["b.test"]')],
    ['a mirror without a place', registry('location = "a.test"\n[[registry.mirror]]\ninsecure = true')],
    [
      'an unknown way to use a mirror',
      `${registry('location = "a.test"')}[[registry.mirror]]\nlocation = "b.test"\npull-from-mirror = "x"`,
    ],
    [
      'two ways to use a mirror',
      `${registry('location = "a.test"\nmirror-by-digest-only = true')}[[registry.mirror]]\nlocation = "b.test"\npull-from-mirror = "all"`,
    ],
    ['no address in the old format', '[registries.insecure]\nregistries = ["http://a test"]'],
    ['brackets without end', `a = ${'['.repeat(100_000)}`],
    ['tables without end', `a = ${'{a='.repeat(100_000)}`],
  ])('%s is refused with its file', async (_what, text) => {
    expect(await read(text)).toMatchObject({
      code: 'SETTINGS_INVALID',
      message: expect.stringContaining('registries.conf') as string,
    });
  });
});

it('no change of a registries.conf ends in anything but rules of the right form or a coded refusal', async () => {
  const change = fc.record({
    at: fc.nat(FILE.length),
    insert: fc.oneof(
      fc.string({ maxLength: 6 }),
      fc.constantFrom(
        '[[registry]]\n',
        '"',
        '\n',
        '=',
        '[',
        '{',
        '1979-05-27',
        '\\u0000',
        '\ud800',
        '..',
        '/',
        '*.',
      ),
    ),
    cut: fc.nat(20),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
      const text = changes.reduce(
        (sum, { at, insert, cut }) => sum.slice(0, at) + insert + sum.slice(at + cut),
        FILE,
      );
      const rules = await read(text);
      if (rules instanceof Error) {
        expect(isSkycapError(rules) ? rules.code : rules).toBe('SETTINGS_INVALID');
        return;
      }
      for (const { location, mirrors } of rules)
        for (const place of [
          ...(location === undefined ? [] : [location]),
          ...mirrors.map((one) => one.location),
        ])
          expect(isAddress(place, false), place).toBe(true);
    }),
    { numRuns: 400 },
  );
});
