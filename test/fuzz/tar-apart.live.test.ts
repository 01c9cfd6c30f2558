import { describe, expect, it } from 'vitest';
import { target as tar } from './targets/tar.ts';
import { RULES, type Rule, rewrite } from './targets/tar-apart.ts';
import { base256, extension, filled, header, octal, paxRecord } from './targets/tar-bytes.ts';

// With GNU tar.
const body = (text: string): Buffer => filled(Buffer.from(text, 'latin1'));
const sized = (text: string): string => octal(text.length, 11);
const file = (name: string): Buffer => Buffer.concat([header({ name, size: sized(name) }), body(name)]);
const records = (...all: readonly (readonly [string, string])[]): Buffer =>
  extension('x', all.map(([key, value]) => paxRecord(key, value)).join(''));
const of = (...parts: readonly Buffer[]): Buffer => Buffer.concat([...parts, file('last')]);
const map = (value: string, pieces = 1): readonly (readonly [string, string])[] => [
  ['GNU.sparse.size', '2000'],
  ['GNU.sparse.numblocks', `${pieces}`],
  ['GNU.sparse.map', value],
];
const short = header({ name: 's', size: octal(3, 11) });

const CASES: Readonly<Record<Rule, readonly Buffer[]>> = {
  global: [of(extension('g', paxRecord('path', 'all')))],
  owner: [
    of(header({ name: 'a', uid: base256(2n ** 40n, 8), gid: base256(-1n, 8) })),
    of(records(['uid', `${2 ** 33}`]), header({ name: 'a' })),
  ],
  device: [of(header({ name: 'a', type: '3', major: base256(-1n, 8), minor: base256(2n ** 32n, 8) }))],
  empty: [of(header({ name: '' })), of(header({ name: 'a', type: '1', link: '' }))],
  room: [
    of(header({ name: 'd', type: '5', size: octal(512, 11) })),
    of(records(['size', '512']), header({ name: 'd', type: '2', link: 'x' })),
    of(header({ name: 'd/', type: '\0', magic: '', size: octal(512, 11) })),
  ],
  slash: [
    of(header({ name: 'a/' })),
    of(header({ name: '/', type: '\0', magic: 'ustar 00' })),
    of(extension('L', 'a//\0'), header({ name: 'cut', prefix: 'p', size: sized('xyz') }), body('xyz')),
  ],
  number: [
    of(header({ name: 'a', uid: '\0\0  17\0' })),
    of(header({ name: 'a', mode: '        ' })),
    of(header({ name: 'x', type: 'L', size: `\0\0\0${octal(2, 8)}` }), body('b\0'), header({ name: 'cut' })),
  ],
  nothing: [
    of(records(['path', ''], ['size', '']), file('a')),
    of(extension('L', '\0'), file('a')),
    of(extension('L', 'b\0'), extension('L', ''), file('a')),
  ],
  repeated: [of(records(['mtime', 'x'], ['mtime', '5']), file('a'))],
  unread: [of(records(['atime', 'x']), file('a'))],
  earlier: [],
  fraction: [of(records(['mtime', '-1.0000000001']), file('a'))],
  prefix: [of(header({ name: 'a', magic: 'ustar  \0', prefix: 'p' }))],
  end: [
    of(
      Buffer.concat([header({ name: 'x', type: 'L', size: octal(1, 11) }), body('bc')]),
      header({ name: 'cut' }),
    ),
  ],
  pieces: [of(records(...map('0,1,5,2', 2)), short, body('abc'))],
  older: [of(records(...map('5,3')), header({ name: 's', magic: '', size: octal(3, 11) }), body('abc'))],
  map: [of(records(...[...map('5,3')].reverse()), short, body('abc'))],
};

async function verdict(bytes: Buffer, change: object = {}): Promise<string> {
  const read = await tar.parse(bytes);
  const last = read.at(-1);
  const value = [...read.slice(0, -1), { ...last, ...change, entry: { ...last?.entry, ...change } }];
  const said = await tar.peer?.judge(value as never, bytes);
  return said === undefined ? 'the same' : 'apart' in said ? said.apart : 'a problem';
}

describe('where GNU tar reads otherwise on purpose', () => {
  const cases = Object.entries(CASES).flatMap(([rule, all]) =>
    all.map((bytes, at): [string, Buffer] => [`${rule} ${at + 1}`, bytes]),
  );

  it.each(cases)('it is known by its name, and hides nothing else: %s', async (what, bytes) => {
    const rule = what.split(' ')[0] as Rule;
    expect(await verdict(bytes)).toBe(RULES[rule]);
    expect(await verdict(bytes, { uid: 7 })).toBe('a problem');
    expect(await verdict(bytes, { body: Buffer.from('LAST') })).toBe('a problem');
    expect(await verdict(bytes, { path: 'other' })).toBe('a problem');
    const { changing } = rewrite(bytes, new Set([rule]));
    expect(changing).toEqual([rule]);
  });

  it('two at once are known, too', async () => {
    const both = of(header({ name: 'a/' }), header({ name: 'd', type: '5', size: octal(512, 11) }));
    expect(await verdict(both)).toBe('several of these at once');
    expect(await verdict(both, { gid: 7 })).toBe('a problem');
  });

  it('one that alone makes no sense is passed over', async () => {
    const bytes = of(records(['uid', 'x'], ['uid', `${2 ** 33}`]), header({ name: 'a' }));
    expect(await verdict(bytes)).toBe('several of these at once');
  });

  it('nothing is, where it reads the same', async () => {
    const plain = of(records(['path', 'p'], ['mtime', '1.5'], ...map('0,3')), short, body('abc'), file('f'));
    expect(await verdict(plain)).toBe('the same');
    expect(await verdict(plain, { uid: 7 })).toBe('a problem');
    expect(rewrite(plain, new Set(Object.keys(RULES) as Rule[]))).toMatchObject({ changing: [] });
  });
});
