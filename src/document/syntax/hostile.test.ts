import { expect, test } from 'vitest';
import { cpuSeconds } from '../../testkit/cpu.ts';
import { fc } from '../../testkit/property.ts';
import { parseJson, parseYaml } from './index.ts';

const bomb = (levels: number, width: number): string => {
  const lines = ['a0: &a0 x'];
  for (let i = 1; i <= levels; i++)
    lines.push(`a${i}: &a${i} [${Array.from({ length: width }, () => `*a${i - 1}`).join(', ')}]`);
  return lines.join('\n');
};

/** Text, the code that must be among the problems (undefined: none is asked for). */
const hostile: readonly (readonly [string, string, string | undefined])[] = [
  ['flow lists in each other', '['.repeat(50_000), 'yaml-limit'],
  ['flow maps in each other', '{a: '.repeat(30_000), 'yaml-limit'],
  ['lists in each other', '- '.repeat(30_000), 'yaml-limit'],
  ['odd keys in each other', '? '.repeat(30_000), 'yaml-limit'],
  ['deeper and deeper', Array.from({ length: 1500 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'), undefined],
  ['an alias bomb', bomb(30, 10), 'yaml-limit'],
  [
    'a merge bomb',
    Array.from(
      { length: 25 },
      (_, i) => `a${i}: &m${i} {${i > 0 ? `<<: [*m${i - 1}, *m${i - 1}], ` : ''}k${i}: 1}`,
    ).join('\n'),
    undefined,
  ],
  ['an alias in what it names', 'a: &x [*x]', 'yaml-alias'],
  ['an alias of nothing', 'a: *x', 'yaml-alias'],
  ['many keys', Array.from({ length: 20_000 }, (_, i) => `k${i}: 1`).join('\n'), undefined],
  ['one key many times', 'a: 1\n'.repeat(5_000), 'duplicate-key'],
  ['many errors', 'a: b: c\n'.repeat(3_000), 'yaml-syntax'],
  ['an open quote', `a: "${'x\n'.repeat(50_000)}`, 'yaml-syntax'],
  ['many anchors', '&a '.repeat(20_000), 'yaml-syntax'],
  ['commas', `[${','.repeat(20_000)}]`, 'yaml-syntax'],
  ['too long', `a: ${'x'.repeat(2 * 1024 * 1024)}`, 'yaml-limit'],
  ['NUL', 'a: \0', 'yaml-syntax'],
  ['two documents', 'a: 1\n---\nb: 2\n', 'yaml-several-documents'],
];

test.each(hostile)('%s ends soon', async (_, source, code) => {
  let problems: ReturnType<typeof parseYaml>['problems'] = [];
  const took = await cpuSeconds(() => {
    ({ problems } = parseYaml(source, { file: 't.yaml' }));
  });
  expect(took).toBeLessThan(15);
  if (code !== undefined) expect(problems.map((problem) => problem.code)).toContain(code);
  expect(problems.length).toBeLessThan(10_000);
});

test('any text at all gives problems or a tree, and every problem a place', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: 'binary', maxLength: 60 }),
        fc
          .array(
            fc.constantFrom(
              'a',
              ': ',
              '\n',
              '  ',
              '- ',
              '[',
              ']',
              '{',
              '}',
              '"',
              "'",
              '&a',
              '*a',
              '<<: ',
              '|',
              '>',
              '!t',
              '#',
              '${ x }',
              '%',
              '?',
              '\t',
            ),
            { maxLength: 25 },
          )
          .map((p) => p.join('')),
      ),
      (source) => {
        for (const parse of [parseYaml, parseJson])
          for (const problem of parse(source, { file: 't' }).problems) {
            expect(problem.place.line).toBeGreaterThan(0);
            expect(problem.place.excerpt).toContain('^');
          }
      },
    ),
    { numRuns: 3000 },
  );
});

test.each([
  ['a: [${ bundle.parameters.x }]', 'stands unquoted'],
  ['a: {b: ${bundle.parameters.x}}', 'stands unquoted'],
  ['a: ${ bundle.parameters.x ? "b: c" }', 'holds `: `'],
  ['a: ${ bundle.parameters.x == "b #c" }', 'holds ` #`'],
  ['- {{ bundle.parameters.x }}', 'stands unquoted'],
])('%j must be quoted, and the message says so', (source, why) => {
  const { problems } = parseYaml(source, { file: 't.yaml' });
  expect(problems.map((problem) => problem.code)).toEqual(['yaml-expression-quotes']);
  expect(problems[0]?.message).toContain(why);
  expect(problems[0]?.hint).toContain('quote the whole value');
});

test('JSON is strict', () => {
  expect(parseJson('{"a": [1, true, null, "x\\n"]}', { file: 't' }).problems).toEqual([]);
  for (const [source, code] of [
    ['{a: 1}', 'json-syntax'],
    ['[1,]', 'json-syntax'],
    ['{"a":1,"a":2}', 'duplicate-key'],
    ['['.repeat(500), 'json-limit'],
    ['"x', 'json-syntax'],
    ['1 2', 'json-syntax'],
  ] as const)
    expect(parseJson(source, { file: 't' }).problems[0]?.code, source).toBe(code);
});
