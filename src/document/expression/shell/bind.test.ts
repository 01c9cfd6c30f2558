import { expect, test } from 'vitest';
import { cpuSeconds } from '../../../testkit/cpu.ts';
import { fc } from '../../../testkit/property.ts';
import { applyEdits } from '../../index.ts';
import { checkArgv } from './argv.ts';
import { bindScript } from './bind.ts';
import { quoteForShell, renderPrologue } from './prologue.ts';
import { REFUSALS } from './refusals.fixture.ts';

const X = '${ bundle.x }';

test.each(REFUSALS)(
  '$name: refused, mended, clean, and a second fix changes nothing',
  ({ script, shell }) => {
    const options = { shell: shell ?? 'sh' };
    const bound = bindScript(script, options);
    const refused = bound.findings.filter((finding) => finding.severity === 'error');
    expect(refused.length).toBeGreaterThan(0);
    for (const { span, fixable } of refused) {
      expect(script.slice(span.start, span.end)).toBe(X);
      expect(fixable).toBe(true);
    }
    const mended = applyEdits(script, bound.fix?.replaceInScript ?? []);
    const again = bindScript(mended, { ...options, env: bound.fix?.addEnv ?? {} });
    expect(again.findings).toEqual([]);
    expect(again.fix).toBeUndefined();
  },
);

test.each([
  ['heredoc delimiter', `cat <<${X}\na\n${X}\n`],
  ['function name', `${X}() { :; }`],
  ['for variable', `for ${X} in a; do :; done`],
  ['special variable', `PS4=${X}`],
  ['make', `make X=${X}`],
  ['two unknown words in [', `[ ${X} ${X} ]`],
  ['an open quote', `echo ${X} "`],
  ['an open substitution', `echo ${X} $(`],
  ['other program', `#!/usr/bin/tclsh\nputs ${X}`],
  ['ssh host', `ssh -o ${X} host`],
])('%s: refused, and nothing mends it', (_, script) => {
  const bound = bindScript(script, { shell: 'sh' });
  expect(bound.findings.some((finding) => finding.severity === 'error' && !finding.fixable)).toBe(true);
});

test.each([
  [`echo ${X}`, 'echo "${_skycap_1}"'],
  [`echo a${X}b "c ${X}"`, 'echo a"${_skycap_1}"b "c ${_skycap_1}"'],
  [`export A=${X} B=c`, 'export A="${_skycap_1}" B=c'],
  [`cat <<EOF\n${X}\nEOF`, 'cat <<EOF\n${_skycap_1}\nEOF'],
  [`# ${X}\n:`, `# ${X}\n:`],
  ['# ${\n bundle.x }\n:', '# ${  bundle.x }\n:'],
  ['echo "$${bundle.x}" ${HOME}', 'echo "${bundle.x}" ${HOME}'],
  [`#!/bin/bash -e\na=(${X})`, 'a=("${_skycap_1}")'],
  [`sh -c 'echo "$1"' _ ${X}`, `sh -c 'echo "$1"' _ "\${_skycap_1}"`],
  [`_skycap_1=a; echo ${X}`, '_skycap_1=a; echo "${_skycap_x_1}"'],
  ['echo ${ bundle.x } ${bundle.y} ${bundle.x}', 'echo "${_skycap_1}" "${_skycap_2}" "${_skycap_1}"'],
])('%j', (script, body) => {
  const bound = bindScript(script, { shell: 'bash' });
  expect(bound.findings).toEqual([]);
  expect(bound.body).toBe(body);
});

// Quotes and substitutions inside of these hide where they end from a careless reader: the value would be evaluated.
test.each([
  `(( "$(echo ")")" + ${X} ))`,
  `echo $(( "$(echo ")")" + ${X} ))`,
  `a["$(echo "]=")" + ${X}]=1`,
  `a=(["$(echo "]=")" + ${X}]=1)`,
  `(((\`echo "))"\` + ${X})))`,
  `echo "\${a["$(echo "]")" + ${X}]}"`,
  `a+() { eval ${X}; }`,
  `$(echo ${X}) a`,
  `"$(echo "${X}")"`,
  `env $(echo ${X}) a`,
  `printf $(echo ${X}) b`,
  `[ $(echo ${X}) $b ]`,
  `cat <<$'E'\n${X}\nE`,
  `(( $(case x in x) echo 1;; esac) + ${X} ))`,
])('%s: refused', (script) => {
  expect(bindScript(script, { shell: 'bash' }).findings.length).toBeGreaterThan(0);
});

test('mustache, interpreters, arguments of programs', () => {
  expect(bindScript('echo {{ bundle.x }} ${HOME}', { delimiters: 'mustache' }).body).toBe(
    'echo "${_skycap_1}" ${HOME}',
  );
  expect(bindScript('echo ${{ bundle.x }}').body).toBe('echo "${_skycap_1}"');
  expect(bindScript('echo a${{ bundle.x }}', { delimiters: 'mustache' }).findings[0]?.message).toMatch(
    /dollar/,
  );
  expect(bindScript('#!/usr/bin/env -S bash -eu\n:').interpreter).toBe('bash');
  expect(bindScript('#!/bin/busybox sh\n:')).toMatchObject({
    interpreter: 'ash',
    shebang: '#!/bin/busybox sh\n',
    body: ':',
  });
  expect(bindScript('#!/usr/bin/fish\necho ${HOME}')).toMatchObject({ interpreter: 'other', findings: [] });
  expect(bindScript(`echo ${X}; helm install ${X}`).bindings[0]?.argumentOf).toEqual(['helm']);
  expect(bindScript('echo a\0b').findings[0]).toMatchObject({
    code: 'script-nul',
    span: { start: 6, end: 7 },
  });
});

test('command lines', () => {
  const elements = (argv: readonly string[], entrypoint?: readonly string[]) =>
    checkArgv(argv, entrypoint === undefined ? {} : { entrypoint }).map((finding) => finding.element);
  expect(elements(['sh', '-c', `echo ${X}`])).toEqual([2]);
  expect(elements(['sh', '-c', 'echo "$1"', '_', X])).toEqual([]);
  expect(elements(['-c', `echo ${X}`], ['/bin/bash'])).toEqual([1]);
  expect(elements(['/usr/bin/python3.11', '-c', X, X])).toEqual([2]);
  expect(elements(['env', 'A=b', 'perl', '-ne', X])).toEqual([4]);
  expect(elements(['awk', X, 'file'])).toEqual([1]);
  expect(elements(['kubectl', 'exec', 'pod', '--', 'sh', '-c', X])).toEqual([6]);
  expect(elements(['helm', 'install', X, '-e', X])).toEqual([]);
  expect(elements(['printf', X])).toEqual([]);
  expect(elements([X, '-c', X])).toEqual([2]);
});

test('the prologue refuses what no script can hold', () => {
  expect(renderPrologue([{ variable: 'a', value: "it's\n" }])).toBe("a='it'\\''s\n'\n");
  expect(() => renderPrologue([{ variable: 'a', value: 'a\0b' }])).toThrow(/NUL/);
  expect(() => renderPrologue([{ variable: 'a', value: '\ud800' }])).toThrow(/Unicode/);
  expect(quoteForShell('')).toBe("''");
});

test('any text is read without a crash, and fixes end', () => {
  const token = fc.constantFrom(
    X,
    '${',
    '$(',
    '$((',
    '`',
    "'",
    '"',
    '(',
    ')',
    '((',
    '[[',
    '<<E',
    '\nE\n',
    '\\',
    '\n',
    ' ',
    '#',
    'case a in',
    'esac',
    ';;',
    'if',
    'then',
    'fi',
    '{',
    '}',
    'for',
    'do',
    'eval',
    'a=(',
    'b[',
    "$'",
    '$[',
    'x',
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(token, { maxLength: 40 }).map((t) => t.join('')),
        fc.array(token, { maxLength: 20 }).map((t) => t.join(' ')),
      ),
      fc.constantFrom('sh', 'bash', 'dash', 'ash', 'python', 'zsh'),
      (script, shell) => {
        const bound = bindScript(script, { shell });
        const fix = bound.fix;
        if (fix === undefined) return;
        const mended = applyEdits(script, fix.replaceInScript);
        const again = bindScript(mended, { shell });
        const mendable = again.findings.filter((finding) => finding.fixable);
        if (bound.findings.every((finding) => finding.fixable)) expect(mendable).toEqual([]);
      },
    ),
    { numRuns: 3000 },
  );
});

test.each([
  ['$(', 60_000],
  ['(', 200_000],
  ['((', 100_000],
  ['"$(', 60_000],
  ['${a:-', 40_000],
  ['`', 200_001],
  ["'", 200_001],
  ['a=(', 60_000],
  ['b[', 100_000],
  ['case a in ', 20_000],
  ['<<E\n', 50_000],
  ['${ ', 80_000],
  ['if ', 80_000],
  ['$((1+', 40_000],
  ['\\', 250_000],
])('deep and long input ends: %j', async (piece, times) => {
  const took = await cpuSeconds(() => bindScript(`${X} ${piece.repeat(times)}`, { shell: 'bash' }));
  expect(took).toBeLessThan(20);
});
