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
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fc } from '../../../testkit/property.ts';
import { evaluate, names, stringify, value } from '../index.ts';
import { type BoundScript, bindScript } from './bind.ts';
import { MARK, PLACES, REC, VALUES, X } from './places.fixture.ts';
import { renderPrologue } from './prologue.ts';

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
    timeout: 300_000,
    killSignal: 'SIGKILL',
    input: '',
    env: { PATH: join(dir, 'bin'), LC_ALL: 'C.UTF-8', ...env },
  });
  const canary = readdirSync(cwd).some((name) => name.startsWith('canary'));
  const out = existsSync(join(cwd, 'out')) ? readFileSync(join(cwd, 'out'), 'utf8') : '';
  rmSync(cwd, { recursive: true, force: true });
  return { out, canary, stderr: result.stderr.toString() };
}

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
  });
});

test('places put together in any way', () => {
  const noise = fc.constantFrom(
    ': # it\'s "a comment',
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
        if (
          script.findings.length > 0 ||
          script.bindings[0]?.template.source !== X ||
          script.bindings[1] !== undefined
        ) {
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
