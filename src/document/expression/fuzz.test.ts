import { satisfies as theirs, validRange } from 'semver';
import { expect, test } from 'vitest';
import { isSkycapError } from '../../kernel/index.ts';
import { cpuSeconds } from '../../testkit/cpu.ts';
import { fc } from '../../testkit/property.ts';
import type { Json } from '../types.ts';
import {
  checkTemplate,
  evaluate,
  evaluatePartially,
  evaluateTree,
  evaluateTreePartially,
  late,
  names,
  parseCondition,
  parseTemplate,
  printTemplate,
  value,
} from './index.ts';
import { satisfies } from './semver.ts';

const known = (a: Json, b: Json) =>
  names({ bundle: names({ a: value(a), b: value(b) }), env: names({}, { open: true }) });
const pieces = fc
  .array(
    fc.constantFrom(
      '${',
      '{{',
      '}',
      '}}',
      ' ',
      'bundle',
      '.a',
      '.b',
      'env.X',
      '"',
      "'",
      '(',
      ')',
      '[',
      ']',
      '!',
      '&&',
      '||',
      '==',
      'in',
      'default(',
      'upper(',
      'join(',
      ',',
      '1',
      'true',
      '$',
      '\\',
      '\n',
      'x',
      '#',
      '${ bundle.a }',
      '{{ bundle.b }}',
      '-',
    ),
    { maxLength: 30 },
  )
  .map((parts) => parts.join(''));

test('any text is read; what is evaluated fails only in our own ways', () => {
  fc.assert(
    fc.property(
      fc.oneof(pieces, fc.string()),
      fc.constantFrom<'dollar' | 'mustache'>('dollar', 'mustache'),
      fc.jsonValue(),
      (text, delimiters, a) => {
        const template = parseTemplate(text, { delimiters });
        // Parts cover the text without gaps.
        let at = 0;
        for (const part of template.parts) {
          expect(part.span.start).toBe(at);
          at = part.span.end;
        }
        expect(at).toBe(text.length);
        checkTemplate(template, known(null, null));
        checkTemplate(parseCondition(text, { delimiters }), known(null, null));
        try {
          evaluate(template, known(a as Json, 'b'));
        } catch (error) {
          if (!isSkycapError(error)) throw error;
        }
      },
    ),
    { numRuns: 5000 },
  );
});

const hostileText = fc.oneof(
  fc.string(),
  pieces,
  fc.constantFrom('$', '$$', '$${bundle.a}', '${bundle.a}', '{{ bundle.a }}', '${'),
);

test('a residual evaluates to what the original does, whatever the known values look like', () => {
  const template = fc
    .array(
      fc.constantFrom(
        '${ bundle.a }',
        '${ bundle.b }',
        '$',
        'x',
        '$${bundle.a}',
        '${ upper(bundle.a) }',
        '${ default(bundle.b, bundle.a) }',
        '${ [bundle.a, bundle.b] }',
        '${ bundle.a == bundle.b || bundle.a in [bundle.b, "q"] }',
      ),
      { minLength: 1, maxLength: 6 },
    )
    .map((p) => p.join(''));
  fc.assert(
    fc.property(template, hostileText, hostileText, fc.boolean(), (text, a, b, mustache) => {
      const delimiters = mustache ? 'mustache' : 'dollar';
      const source = mustache
        ? text.replaceAll('$${', '$').replaceAll('${', '{{').replaceAll(' }', ' }}')
        : text;
      const original = parseTemplate(source, { delimiters });
      const partial = evaluatePartially(original, names({ bundle: names({ a: value(a), b: late('b') }) }));
      const scope = known(a, b);
      if (partial.state === 'value') return;
      expect(evaluate(parseTemplate(partial.residual, { delimiters }), scope).value).toEqual(
        evaluate(original, scope).value,
      );
      expect(evaluate(parseTemplate(printTemplate(original), { delimiters }), scope).value).toEqual(
        evaluate(original, scope).value,
      );
    }),
    { numRuns: 3000 },
  );
});

test('a value never adds a key or an item, and is never read again', () => {
  fc.assert(
    fc.property(hostileText, fc.jsonValue(), (a, made) => {
      const b = JSON.parse(JSON.stringify(made)) as Json;
      const tree = { run: ['${ bundle.a }', 'x-${ bundle.a }'], 'k${ bundle.a }': { deep: '${ bundle.b }' } };
      expect(evaluateTree(tree, known(a, b)).value).toEqual({
        run: [a, `x-${a}`],
        [`k${a}`]: { deep: b },
      });
      const partial = evaluateTreePartially(
        { ...tree, late: '${ bundle.c }' },
        names({ bundle: names({ a: value(a), b: value(b), c: late('c') }) }),
      );
      if (partial.state !== 'late') throw new Error('not late');
      const all = names({ bundle: names({ a: value(a), b: value(b), c: value(1) }) });
      expect(evaluateTree(partial.residual, all).value).toEqual(
        evaluateTree({ ...tree, late: 1 }, all).value,
      );
    }),
    { numRuns: 2000 },
  );
});

test.each([
  ['${ !', 100_000],
  ['${ (', 100_000],
  ['${ bundle.a[', 50_000],
  ['${ "', 200_000],
  ['${ [', 100_000],
  ['${ bundle.a && ', 50_000],
  ['${', 500_000],
  ['$', 1_000_000],
  ['${#bundle.a', 50_000],
  ['${ upper(', 50_000],
])('deep and long input ends: %j', async (piece, times) => {
  const took = await cpuSeconds(() => {
    parseTemplate(piece.repeat(times));
    parseTemplate(`${piece.repeat(times)} }`);
  });
  expect(took).toBeLessThan(15);
});

test('versions and ranges agree with the reference implementation', () => {
  const number = fc.nat(3).map(String);
  const pre = fc.constantFrom('', '', '', '-a', '-a.1', '-1', '-rc.2');
  const version = fc.tuple(number, number, number, pre).map(([a, b, c, p]) => `${a}.${b}.${c}${p}`);
  const partial = fc.oneof(
    version,
    fc.tuple(number, number).map((n) => n.join('.')),
    number,
    fc.constantFrom('*', '1.x', '1.2.x', 'x'),
  );
  const comparator = fc
    .tuple(fc.constantFrom('', '^', '~', '>', '>=', '<', '<=', '=', '>= '), partial)
    .map((p) => p.join(''));
  const range = fc.oneof(
    comparator,
    fc.tuple(comparator, comparator).map((p) => p.join(' ')),
    fc.tuple(comparator, comparator).map((p) => p.join(' || ')),
    fc.tuple(partial, partial).map((p) => p.join(' - ')),
  );
  fc.assert(
    fc.property(version, range, (v, r) => {
      fc.pre(validRange(r) !== null);
      // The reference drops all alternatives but one that is `*` or as much, and then no pre-release fits.
      fc.pre(!(r.includes('||') && /[*x]|>= ?0(\.0){0,2}(?![.\d-])/.test(r)));
      expect(satisfies(v, r)).toBe(theirs(v, r));
    }),
    { numRuns: 5000 },
  );
});
