import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { fc } from '../../testkit/property.ts';
import { parsePlainYaml } from './fast.ts';
import { parseWithLibrary } from './yaml.ts';

/** Both readers on one text: where the plain one has an answer it is the library's, to the last offset. */
function compare(source: string): boolean {
  const plain = parsePlainYaml(source);
  if (plain === undefined) return false;
  const library = parseWithLibrary(source, { file: 't.yaml' });
  expect(library.problems, JSON.stringify(source)).toEqual([]);
  expect(plain, JSON.stringify(source)).toEqual(library.root);
  return true;
}

const plainOnes = [
  'a: 1\nb: two\n',
  'a:\n  b:\n    - x\n    - y: 1\n      z: 2\n  c: []\nd: {}\n',
  'a:\n- x\n- y\nb: 1',
  'a: # comment\n  b: 1 # other\n\n# end\n',
  "a: \"q\\n\\u0041\" # c\nb: 'it''s'\n",
  'a: [x, "y", 1, {b: c, d: [e]}]\n',
  'run: |\n  one\n\n    two\n  three\nnext: 1\n',
  'run: |-\n  one\n\nnext: 1\n',
  'a:\nb: ~\nc: true\nd: 1.50\ne: 007\nf: -3\ng: .5\nh: 1.2.3\n',
  '- - a\n  - b\n-\n  c: d\n- e: f\n',
  'a: ${ bundle.parameters.x }\nb: echo ${HOME} $(x) a;b\n',
  'list:\n  - name: a\n    image: x.example/a:1@sha256:abc\n  # between\n  - name: b\n',
  'a: x:y\nb: http://x.example/y#z\n',
  'command: [helm, upgrade, --install, -n, --set=a.b, -1, ./chart]\n',
];

test.each(plainOnes)('%j is read plainly', (source) => {
  expect(compare(source)).toBe(true);
});

test.each([
  'a: &x 1\nb: *x\n',
  'a: >\n  folded\n',
  'a: one\n  two\n',
  'a: "one\n  two"\n',
  '---\na: 1\n',
  'a: 1\na: 2\n',
  'a: [x,\n  y]\n',
  'a: ${ x: y }\n',
  'a: [${ x }]\n',
  'a:\n\t b: 1\n',
  '? a\n: b\n',
  'a: !!str 1\n',
  'a: 0x10\n',
  '',
  '# only\n',
])('%j is left to the library', (source) => {
  expect(parsePlainYaml(source)).toBeUndefined();
});

const text = fc.oneof(
  fc.constantFrom(
    'a',
    'x y',
    '1',
    '007',
    'true',
    'null',
    '',
    '- a',
    'a: b',
    'a #b',
    '${ x }',
    '{{ x }}',
    "it's",
    '"q"',
    '1e3',
    'a:b',
    '.5',
    '-1',
    '--flag',
    '-f',
    '~',
    '*x',
    '&y',
    '|',
    'é',
    'line\nother\n',
    'x\n\ny',
    '  lead\nx\n',
    '@',
    '%',
    'a\tb',
    '[x]',
    ',',
  ),
  fc.string({ maxLength: 8 }),
);
const tree = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.integer(),
    fc.double({ noNaN: true }),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.stringMatching(/^[a-zA-Z_.$-]{1,8}$/), text), tie('value'), {
      maxKeys: 4,
      noNullPrototype: true,
    }),
  ),
})).value;

test('what the library writes is read alike', () => {
  let plainly = 0;
  fc.assert(
    fc.property(
      fc.dictionary(fc.stringMatching(/^[a-z]{1,6}$/), tree, {
        minKeys: 1,
        maxKeys: 4,
        noNullPrototype: true,
      }),
      fc.constantFrom(0, 80),
      fc.boolean(),
      (value, lineWidth, indentSeq) => {
        if (compare(stringify(value, { lineWidth, indentSeq }))) plainly++;
      },
    ),
    { numRuns: 3000 },
  );
  expect(plainly).toBeGreaterThan(500);
});

test('texts put together from pieces of YAML are read alike', () => {
  const piece = fc.constantFrom(
    'a',
    'b',
    'key',
    ':',
    ': ',
    ' ',
    '  ',
    '\n',
    '\n  ',
    '\n    ',
    '- ',
    '-',
    '#',
    ' # c',
    '"',
    "'",
    '[',
    ']',
    '{',
    '}',
    ', ',
    ',',
    '|',
    '|-',
    '|+',
    '>',
    '&x',
    '*x',
    '!',
    '?',
    '%',
    '@',
    '`',
    '~',
    '1',
    '0',
    '.',
    '$',
    '${ a }',
    '\\',
    '---',
    '...',
    '\t',
    '=',
    '(',
    '^',
    '<',
    '+',
    ';',
  );
  const line = fc
    .tuple(
      fc.constantFrom('', '  ', '    ', '- ', '  - '),
      fc.constantFrom('a: ', 'b:', 'c: |', '', 'd: "', 'e: ['),
      fc.array(piece, { maxLength: 5 }),
    )
    .map(([a, b, c]) => a + b + c.join(''));
  fc.assert(
    fc.property(
      fc.oneof(
        fc.array(piece, { maxLength: 14 }).map((p) => p.join('')),
        fc.array(line, { maxLength: 6 }).map((l) => l.join('\n')),
      ),
      (source) => {
        compare(source);
      },
    ),
    { numRuns: 20000 },
  );
});
