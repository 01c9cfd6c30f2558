import { expect, test } from 'vitest';
import { fc } from '../../../testkit/property.ts';
import { checkArgv } from './argv.ts';
import { mayEvaluate } from './may-evaluate.ts';

const hole = '${ bundle.parameters.x }';
const word = fc.oneof(
  fc.constantFrom(
    'sh',
    '/bin/bash',
    'python3.11',
    'tini',
    'env',
    'xargs',
    'ssh',
    'make',
    'eval',
    'find',
    'awk',
  ),
  fc.constantFrom('helm', 'upgrade', '--', '-c', '-e', '-exec', '--set', '', '$X', 'a/b', './tool'),
  fc.constantFrom(hole, `a${hole}`, `-${hole}`, `x=${hole}`, `/bin/${hole}`),
);

test('a command line that is let through has no finding', () => {
  let through = 0;
  let findings = 0;
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 6 }), (argv) => {
      const found = checkArgv(argv, { delimiters: 'dollar' }).length;
      if (found > 0) findings++;
      if (mayEvaluate(argv)) return;
      through++;
      expect(found, argv.join(' ')).toBe(0);
    }),
    { numRuns: 20_000 },
  );
  expect(Math.min(through, findings)).toBeGreaterThan(200);
});

test.each([
  [['helm', 'upgrade', '--set', `image=${hole}`], false],
  [['kubectl', 'exec', 'pod', '--', 'sh', '-c', hole], true],
  [[hole], true],
])('%j', (argv, expected) => {
  expect(mayEvaluate(argv)).toBe(expected);
});
