import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { evaluate, names, stringify, value } from '../index.ts';
import { type BoundScript, bindScript } from './bind.ts';
import { renderPrologue } from './prologue.ts';

const X = '${ bundle.parameters.x }';
let dir = '';

/** Which reader each script bound for a shell is run with; `sh` has to hold in all of them. */
const RUNNERS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  sh: [['dash'], ['busybox', 'sh'], ['bash', '--posix']],
  dash: [['dash']],
  ash: [['busybox', 'ash']],
  bash: [['bash']],
};

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'skycap-shells-'));
  mkdirSync(join(dir, 'bin'));
  for (const tool of [
    'touch',
    'cat',
    'sleep',
    'env',
    'sh',
    'true',
    'false',
    'tr',
    'find',
    'xargs',
    'awk',
    'sed',
  ])
    symlinkSync('/bin/busybox', join(dir, 'bin', tool));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function missing(program: string): boolean {
  const found = spawnSync(program, ['--help'], { stdio: 'ignore' }).error === undefined;
  if (!found && process.env.SKYCAP_REQUIRE_ENGINES === '1') throw new Error(`${program} is not installed`);
  if (!found) console.warn(`NOT TESTED: ${program} is not installed`);
  return !found;
}

interface Ran {
  readonly out: string;
  readonly canary: boolean;
  readonly stderr: string;
}

function run(
  bound: BoundScript,
  values: Readonly<Record<string, string>>,
  runner: readonly string[],
  env: Record<string, string> = {},
): Ran {
  const cwd = mkdtempSync(join(dir, 'run-'));
  const scope = names({
    bundle: names({
      parameters: names(Object.fromEntries(Object.entries(values).map(([k, v]) => [k, value(v)]))),
    }),
  });
  const prologue = renderPrologue(
    bound.bindings.map(({ variable, template }) => ({
      variable,
      value: stringify(evaluate(template, scope).value),
    })),
  );
  writeFileSync(join(cwd, 'script'), prologue + bound.body);
  writeFileSync(join(cwd, 'out'), '');
  const [program, ...args] = runner as [string, ...string[]];
  const result = spawnSync(`/bin/${program}`, [...args, 'script'], {
    cwd,
    timeout: 20_000,
    killSignal: 'SIGKILL',
    input: '',
    env: { PATH: join(dir, 'bin'), LC_ALL: 'C.UTF-8', ...env },
  });
  const canary = readdirSync(cwd).some((name) => name.startsWith('canary'));
  const out = existsSync(join(cwd, 'out')) ? readFileSync(join(cwd, 'out'), 'utf8') : '';
  rmSync(cwd, { recursive: true, force: true });
  return { out, canary, stderr: result.stderr.toString() };
}

const REC = 'rec() { for a in "$@"; do printf \'%s\\000\' "$a" >> out; done; }\n';

/** Script text, and what has to arrive for a value. */
type Place = readonly [
  name: string,
  script: string,
  expected: (v: string) => string,
  shells?: readonly string[],
];
const MARK = '<<mark>>';
const one = (v: string): string => `${v}\0`;
const PLACES: readonly Place[] = [
  ['word', `rec ${X}`, one],
  ['two words', `rec ${X} ${X}`, (v) => `${v}\0${v}\0`],
  ['part of a word', `rec a${X}b`, (v) => `a${v}b\0`],
  ['beside quotes', `rec 'q '${X}"z"`, (v) => `q ${v}z\0`],
  ['behind a glob', `rec nothing*${X}`, (v) => `nothing*${v}\0`],
  ['behind a tilde', `rec ~${X}`, (v) => `~${v}\0`],
  ['behind a variable', `B=b; rec $B${X}`, (v) => `b${v}\0`],
  ['before name letters', `rec ${X}abc`, (v) => `${v}abc\0`],
  ['double quotes', `rec "${X}"`, one],
  ['part of double quotes', `rec "it's \\"a\\" $((1+1)) ${X}."`, (v) => `it's "a" 2 ${v}.\0`],
  ['assignment', `A=${X}; rec "$A"`, one],
  ['assignment, part', `A=x${X}y"${X}"; rec "$A"`, (v) => `x${v}y${v}\0`],
  ['assignment, quoted', `A="${X}"; rec "$A"`, one],
  ['export', `export A=${X}; rec "$A"`, one],
  ['readonly', `readonly A=${X}; rec "$A"`, one],
  ['local', `f() { local a=${X}; rec "$a"; }; f`, one],
  ['for one command', `A=${X} sh -c 'printf "%s\\000" "$A" >> out'`, one],
  ['argument of sh -c', `sh -c 'printf "%s\\000" "$1" >> out' _ ${X}`, one],
  ['argument of env', `env A=${X} sh -c 'printf "%s\\000" "$A" >> out'`, one],
  ['for word', `for i in ${X} z; do rec "$i"; done`, (v) => `${v}\0z\0`],
  ['for word, part', `for i in a${X}"b"; do rec "$i"; done`, (v) => `a${v}b\0`],
  [
    'case subject',
    `case ${X} in nothing) rec no;; *) rec yes;; esac`,
    (v) => (v === 'nothing' ? 'no\0' : 'yes\0'),
  ],
  ['case subject, equal', `A="${X}"; case ${X} in "$A") rec yes;; *) rec no;; esac`, () => 'yes\0'],
  ['heredoc', `cat <<EOF >> out\n[${X}]\n'"$((1+1))\nEOF\nrec end`, (v) => `[${v}]\n'"2\nend\0`],
  ['heredoc, tabs', `\tcat <<-EOF >> out\n\t\t${X}!\n\tEOF\nrec end`, (v) => `${v}!\nend\0`],
  ['heredocs, two', `cat <<A >> out; cat <<B >> out\n${X}\nA\n<${X}>\nB\n`, (v) => `${v}\n<${v}>\n`],
  [
    'heredoc, substitution',
    `cat <<EOF >> out\n$(printf '%s' ${X}; echo)x\nEOF`,
    (v) => `${v.replace(/\n+$/, '')}x\n`,
  ],
  ['substitution', `A=$(printf '%sx' ${X}); rec "\${A%x}"`, one],
  ['substitution in quotes', `rec "$(printf '%s"x' "${X}")"`, (v) => `${v}"x\0`],
  ['heredoc in substitution', `A=$(cat <<EOF\n${X}.\nEOF\n); rec "$A"`, (v) => `${v}.\0`],
  ['positional', `set -- ${X} b; rec "$@"`, (v) => `${v}\0b\0`],
  ['pipe', `printf '%s' ${X} | cat >> out`, (v) => v],
  ['subshell', `( rec ${X} )`, one],
  ['group', `{ rec ${X}; }`, one],
  ['if', `if test x = x; then rec ${X}; else rec no; fi`, one],
  ['elif', `if false; then :; elif true; then rec ${X}; fi`, one],
  ['while', `while :; do rec ${X}; break; done`, one],
  ['case body', `case a in b) ;; a|c) rec ${X} ;; esac`, one],
  ['function', `f() { rec "$1" ${X}; }\nf 1`, (v) => `1\0${v}\0`],
  ['and, or', `true && rec ${X} || rec no`, one],
  ['not', `! rec ${X}`, one],
  ['background', `rec ${X} & wait`, one],
  ['continued line', `rec a \\\n  ${X}`, (v) => `a\0${v}\0`],
  ['comment', `# it's ${X}\nrec ${X} # "${X}`, one],
  [
    'test',
    `if [ "x${X}" = "x" ]; then rec empty; else rec full; fi`,
    (v) => (v === '' ? 'empty\0' : 'full\0'),
  ],
  [
    'test, bare',
    `if [ -n ${X} ]; then rec full; else rec empty; fi`,
    (v) => (v === '' ? 'empty\0' : 'full\0'),
  ],
  ['nested', `rec "$(rec ${X}; printf %s "$(printf '%sx' "${X}")")"`, (v) => `${v}\0${v}x\0`],
  ['array', `a=(${X} "b ${X}"); rec "\${a[@]}"`, (v) => `${v}\0b ${v}\0`, ['bash']],
  ['array, element', `a[2]=${X}; rec "\${a[2]}"`, one, ['bash']],
  ['array, numbered', `a=([1]=${X} c); rec "\${a[@]}"`, (v) => `${v}\0c\0`, ['bash']],
  ['array, export', `a=(1); export a=${X}; rec "$a"`, one, ['bash']],
  ['array, local', `a=(1); f() { local a=${X}; rec "$a"; }; f`, one, ['bash']],
  ['appended', `A=a; A+=${X}; rec "$A"`, (v) => `a${v}\0`, ['bash']],
  ['process', `cat <(printf '%s' ${X}) >> out`, (v) => v, ['bash']],
  ['select of braces', `rec {a,${X}}`, (v) => `a\0${v}\0`, ['bash']],
  ['function keyword', `function f { rec ${X}; }; f`, one, ['bash']],
];

const VALUES: readonly string[] = [
  '',
  'plain',
  "it's",
  '"',
  `'"'"'`,
  '$(touch canary)',
  '`touch canary`',
  '";touch canary;"',
  "';touch canary;'",
  ';touch canary',
  '\ntouch canary\n',
  'a\nb',
  'a\n\n',
  '\n',
  '-n',
  '-e',
  '--',
  '-',
  '-v',
  '*',
  '?',
  '[a-z]*',
  '~',
  '~root',
  '$HOME',
  '${HOME}',
  '${x:-$(touch canary)}',
  '\\',
  '\\n',
  'a\\',
  '\\\\',
  '!x',
  '#x',
  ' x #y',
  '  a  b  ',
  '\t',
  'EOF',
  'EOF\ntouch canary\n',
  'A\n',
  ')',
  '}',
  '(touch canary)',
  '($(touch canary))',
  '([$(touch canary)]=1)',
  'a[$(touch canary)]',
  '{a,b}',
  'äöü€😀',
  'ÀÁÂÃÄÅÆÇ\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088',
  '\x01\x02\x7f',
  '\r\n',
  '%s%n',
  '&',
  '|',
  '<canary',
  '>canary',
  'nothing',
  'true',
  '=',
  ']',
  'é'.repeat(3000),
];

describe.each(Object.keys(RUNNERS))('%s', (shell) => {
  const runners = (RUNNERS[shell] ?? []).filter(([program]) => !missing(program as string));
  const places = PLACES.filter(([, , , only]) => only === undefined || only.includes(shell));
  test('every value arrives in every place byte for byte, and nothing runs', () => {
    let count = 0;
    for (const [name, script, expected] of places) {
      // All values in one process: a subshell and a mark for each keep them apart.
      const lines = VALUES.map(
        (_, i) =>
          `(\n${script.replaceAll('parameters.x', `parameters.v${i}`)}\n)\nwait; printf '${MARK}' >> out`,
      );
      const bound = bindScript(REC + lines.join('\n'), { shell });
      expect(bound.findings, name).toEqual([]);
      const values = Object.fromEntries(VALUES.map((v, i) => [`v${i}`, v]));
      for (const runner of runners) {
        const { out, canary, stderr } = run(bound, values, runner);
        const got = out.split(MARK);
        for (const [i, v] of VALUES.entries()) {
          expect({ name, v, runner, out: got[i], stderr: got[i] === expected(v) ? '' : stderr }).toEqual({
            name,
            v,
            runner,
            out: expected(v),
            stderr: '',
          });
          count++;
        }
        expect({ name, runner, canary }).toEqual({ name, runner, canary: false });
      }
    }
    expect(count).toBe(places.length * VALUES.length * runners.length);
    console.info(
      `${shell}: ${VALUES.length} values × ${places.length} places × ${runners.length} readers = ${count} runs`,
    );
  }, 600_000);

  test('a megabyte arrives', () => {
    const v = `${"'\n$(touch canary)".repeat(60_000)}.`;
    for (const runner of runners) {
      const { out, canary } = run(bindScript(`printf '%s' ${X} >> out`, { shell }), { x: v }, runner);
      expect(out === v).toBe(true);
      expect(canary).toBe(false);
    }
  }, 60_000);
});

test('places put together in any way', () => {
  const noise = fc.constantFrom(
    '# it\'s "a comment',
    ': \'a"b\' "c\'d"',
    ': "${HOME:-x}" $((1 + (2)))',
    "cat <<'E' >/dev/null\n$( ` \" '\nE",
    ': `:` $(: ")" \')\')',
    'case z in (y) ;; z) :;; esac',
    ': "a\\"b" \\\' \\\\',
    'A=b;',
  );
  const wrap = fc.constantFrom<[string, string]>(
    ['if true; then\n', '\nfi'],
    ['( ', '\n)'],
    ['{ ', '\n}'],
    ['for _ in 1; do ', '\ndone'],
    ['case x in x) ', '\n;; esac'],
    ['while :; do ', '\nbreak; done'],
    [': "$( ', '\n)"'],
    ['{ ', '\n} | cat'],
    ['true && {\n', '\n}'],
    ['g() { ', '\n}; g'],
  );
  const leaf = fc.record({
    place: fc.constantFrom(
      ...PLACES.filter(
        ([name, , , only]) => only === undefined && !/readonly|background|positional/.test(name),
      ),
    ),
    which: fc.constantFrom('x', 'y'),
  });
  type Node = { script: string; expected: (values: Readonly<Record<string, string>>) => string };
  const { node } = fc.letrec<{ node: Node; list: Node }>((tie) => ({
    node: fc.oneof(
      { maxDepth: 4 },
      leaf.map(
        ({ place: [, script, expected], which }): Node => ({
          script: script.replaceAll('parameters.x', `parameters.${which}`),
          expected: (values) => expected(values[which] as string),
        }),
      ),
      noise.map((script): Node => ({ script, expected: () => '' })),
      fc.tuple(wrap, tie('list')).map(
        ([[before, after], inside]): Node => ({
          script: before + inside.script + after,
          expected: inside.expected,
        }),
      ),
    ),
    list: fc.array(tie('node'), { minLength: 1, maxLength: 4 }).map(
      (nodes): Node => ({
        script: nodes.map((n) => n.script).join('\n'),
        expected: (values) => nodes.map((n) => n.expected(values)).join(''),
      }),
    ),
  }));
  const hostile = fc.oneof(
    fc.constantFrom(...VALUES.filter((v) => v !== 'nothing')),
    fc
      .array(
        fc.constantFrom(
          "'",
          '"',
          '`',
          '$',
          '(',
          ')',
          'touch canary',
          '\n',
          ' ',
          '\\',
          ';',
          '*',
          '-',
          'x',
          '{',
          '}',
          '#',
          '&',
          '|',
          '<',
          'EOF',
        ),
        { maxLength: 12 },
      )
      .map((parts) => parts.join('')),
  );
  let count = 0;
  fc.assert(
    fc.property(node, hostile, hostile, fc.constantFrom('sh', 'dash', 'ash', 'bash'), (tree, x, y, shell) => {
      const bound = bindScript(REC + tree.script, { shell });
      expect(bound.findings).toEqual([]);
      for (const runner of RUNNERS[shell] ?? []) {
        const result = run(bound, { x, y }, runner);
        expect({
          ...result,
          stderr: '',
          why: result.out === tree.expected({ x, y }) ? '' : result.stderr,
        }).toEqual({ out: tree.expected({ x, y }), canary: false, stderr: '', why: '' });
        count++;
      }
    }),
    { numRuns: Number(process.env.SKYCAP_FUZZ_RUNS ?? 300) },
  );
  console.info(`${count} composed scripts ran`);
}, 600_000);

test('damaged scripts: whatever they are misread for, no value ever runs', () => {
  const token = fc.constantFrom(
    X,
    'a',
    "'",
    '"',
    '`',
    '$',
    '$(',
    '${',
    '$((',
    '))',
    ')',
    '(',
    '{',
    '}',
    '[',
    ']',
    '[[ ',
    ' ]]',
    ';',
    ';;',
    '\n',
    ' ',
    '|',
    '&',
    '<',
    '<<E',
    "<<'E'",
    '\nE\n',
    '\\',
    '\\\n',
    '#',
    '=',
    'b=',
    'case x in ',
    'esac',
    'x)',
    '\nif ',
    '\nfi\n',
    'for i in ',
    'do ',
    'done',
    'f()',
    '! ',
    '*',
    '@(',
    '~',
    'eval ',
    'e"v"al ',
    '$"',
    "$'",
    'b[',
    'b[1]=',
    'b=(',
    ':-',
    '%',
    'printf ',
    'test ',
    '-v ',
    'local ',
    '<(',
    '$[',
    '((',
    '<<<',
    'unset ',
    'let ',
    'time ',
    '-',
    '\t',
    '\r',
  );
  const pieces = PLACES.filter(([name]) => !/background/.test(name)).map(([, script]) => script);
  const evil = fc.constantFrom(
    '$(touch canary)',
    '`touch canary`',
    ';touch canary;',
    '\ntouch canary\n',
    "';touch canary;'",
    '";touch canary;"',
    'a[$(touch canary)]',
    '-va[$(touch canary)]',
    '(touch canary)',
    '($(touch canary))',
    '}; touch canary; {',
    'E\ntouch canary\n',
    '-v',
  );
  const damage = fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(3), token), {
    minLength: 1,
    maxLength: 4,
  });
  let [bound, refused] = [0, 0];
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 3 }),
      damage,
      evil,
      fc.constantFrom('sh', 'dash', 'ash', 'bash'),
      (scripts, edits, x, shell) => {
        let text = scripts.join('\n');
        for (const [where, length, inserted] of edits) {
          const at = Math.floor(where * text.length);
          text = text.slice(0, at) + inserted + text.slice(at + length);
        }
        const script = bindScript(REC + text, { shell });
        if (script.findings.length > 0 || script.bindings.length === 0) {
          refused++;
          return;
        }
        bound++;
        for (const runner of RUNNERS[shell] ?? []) expect(run(script, { x }, runner).canary).toBe(false);
      },
    ),
    { numRuns: Number(process.env.SKYCAP_FUZZ_RUNS ?? 400) * 3 },
  );
  console.info(`${bound} damaged scripts ran, ${refused} were refused or held no expression`);
  expect(bound).toBeGreaterThan(100);
}, 600_000);
