import { expect, test } from 'vitest';
import { fc } from '../testkit/property.ts';
import {
  applyEdits,
  didYouMean,
  editDistance,
  linesOf,
  locate,
  mergeFixes,
  parsePointer,
  placeAt,
  toSarif,
} from './index.ts';
import { parseYaml } from './syntax/index.ts';

test('a place has line and column from 1 and a caret under the column', () => {
  const source = 'name: x\n\tparametrs: 1\n';
  const place = placeAt(linesOf(source), 'porter.yaml', source.indexOf('parametrs'));
  expect(place).toEqual({ file: 'porter.yaml', line: 2, column: 2, excerpt: '\tparametrs: 1\n\t^' });
});

test('a long line is cut around the column', () => {
  const source = `${'x'.repeat(5000)}HERE${'y'.repeat(5000)}`;
  const [text = '', caret = ''] = (placeAt(linesOf(source), 'f', 5000).excerpt ?? '').split('\n');
  expect(text.length).toBeLessThan(200);
  expect(text.slice(caret.indexOf('^'), caret.indexOf('^') + 4)).toBe('HERE');
});

test.each([
  ['parametrs', 'parameters'],
  ['instal', 'install'],
  ['default_', 'default'],
  ['invocation-images', 'invocationImages'],
  ['xyz', undefined],
])('%s means %s', (name, meant) => {
  expect(didYouMean(name, ['parameters', 'install', 'default', 'invocationImages', 'name'])).toBe(meant);
});

test('the edit distance is a metric as far as its limit goes', () => {
  const word = fc.stringMatching(/^[abc]{0,5}$/);
  fc.assert(
    fc.property(word, word, (a, b) => {
      expect(editDistance(a, b, 9)).toBe(editDistance(b, a, 9));
      expect(editDistance(a, b, 9) === 0).toBe(a === b);
      expect(editDistance(a, b, 9)).toBeLessThanOrEqual(Math.max(a.length, b.length));
    }),
  );
  expect(editDistance('ab', 'ba')).toBe(1);
});

test('edits are made in one go, and fixes that overlap wait', () => {
  const edit = (start: number, end: number, text: string) => ({ span: { start, end }, text });
  expect(applyEdits('abcdef', [edit(4, 5, 'X'), edit(0, 1, 'Y'), edit(2, 2, '+')])).toBe('Yb+cdXf');
  const fixes = mergeFixes([[edit(0, 2, 'A')], [edit(1, 3, 'B')], [edit(4, 4, 'C')], [edit(4, 4, 'C')]]);
  expect(applyEdits('abcdef', fixes)).toBe('AcdCef');
});

test('a pointer leads to a node, or to the last one on its way', () => {
  const { root } = parseYaml('a:\n  b/c:\n    - x: 1\n', { file: 't' });
  if (root === undefined) throw new Error('no root');
  const found = locate(root, parsePointer('/a/b~1c/0/x') ?? []);
  expect(found.found && found.node.kind === 'scalar' && found.node.value).toBe(1);
  expect(locate(root, ['a', 'nothing', 'x'])).toMatchObject({ found: false, node: { kind: 'map' } });
});

test('SARIF names rule, level and region', () => {
  const log = toSarif(
    [
      {
        severity: 'warning',
        code: 'unknown-key',
        message: 'm',
        hint: 'h',
        place: { file: 'a b/porter.yaml', line: 3, column: 2 },
      },
    ],
    { version: '1.0.0' },
  );
  expect(log).toMatchObject({
    version: '2.1.0',
    runs: [
      {
        results: [
          {
            ruleId: 'unknown-key',
            level: 'warning',
            message: { text: 'm; h' },
            locations: [
              {
                physicalLocation: {
                  artifactLocation: { uri: 'a%20b/porter.yaml' },
                  region: { startLine: 3, startColumn: 2 },
                },
              },
            ],
          },
        ],
      },
    ],
  });
});
