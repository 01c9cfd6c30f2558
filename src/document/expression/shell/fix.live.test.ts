import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { applyEdits } from '../../index.ts';
import { evaluate, names, parseTemplate, stringify, value } from '../index.ts';
import { bindScript } from './bind.ts';
import { renderPrologue } from './prologue.ts';
import { REFUSALS, type Refusal } from './refusals.fixture.ts';

let dir = '';
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'skycap-fix-'));
  // Stand-ins that do what the real ones do with their arguments: ssh and su hand one text to a shell.
  for (const [name, text] of Object.entries({
    ssh: '#!/bin/sh\nshift\nif [ $# -eq 0 ]; then exec env -i PATH="$PATH" sh; fi\nexec env -i PATH="$PATH" sh -c "$*"\n',
    su: '#!/bin/sh\n[ "$1" = -c ] && exec env -i PATH="$PATH" sh -c "$2"\nexec sh\n',
  }))
    writeFileSync(join(dir, name), text, { mode: 0o755 });
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const TEXTS = [
  'plain',
  "it's",
  '"q"',
  '$(touch canary)',
  '`touch canary`',
  'a b  *',
  "';touch canary;'",
  '\\',
  'a\\nb',
  '&/|.[x]^',
  'two\nlines',
  '-n',
  '--',
  'EOF',
  'ä€',
  '$HOME',
];
const NUMBERS = ['7', '12'];
const NAMES = ['abc', 'X_1'];

function valuesOf(it: Refusal): readonly string[] {
  return it.kind === 'number'
    ? NUMBERS
    : it.kind === 'name'
      ? NAMES
      : it.kind === 'file'
        ? ['file']
        : it.kind === 'command'
          ? ['cmd']
          : TEXTS.filter((v) => !it.not?.includes(v));
}

test.each(REFUSALS.filter((it) => it.run !== false))('$name: after the fix the value arrives', (it) => {
  const shell = it.shell ?? 'sh';
  const before = bindScript(it.script, { shell });
  const mended = applyEdits(it.script, before.fix?.replaceInScript ?? []);
  const bound = bindScript(mended, { shell });
  for (const v of valuesOf(it)) {
    const cwd = mkdtempSync(join(dir, 'run-'));
    const scope = names({ bundle: names({ x: value(v) }) });
    const env = Object.fromEntries(
      Object.entries(before.fix?.addEnv ?? {}).map(([name, text]) => [
        name,
        stringify(evaluate(parseTemplate(text), scope).value),
      ]),
    );
    const prologue = renderPrologue(
      bound.bindings.map((b) => ({
        variable: b.variable,
        value: stringify(evaluate(b.template, scope).value),
      })),
    );
    writeFileSync(join(cwd, 'script'), bound.shebang + prologue + bound.body);
    writeFileSync(join(cwd, 'file'), 'printf sourced > out\n');
    writeFileSync(join(cwd, 'cmd'), '#!/bin/sh\nprintf ran > out\n', { mode: 0o755 });
    writeFileSync(join(cwd, 'in'), 'a\n');
    const program =
      bound.interpreter === 'python' ? 'python3' : bound.interpreter === 'perl' ? 'perl' : shell;
    const result = spawnSync(program, ['script'], {
      cwd,
      input: 'line\n',
      timeout: 300_000,
      env: { ...env, PATH: `${dir}:${cwd}:${process.env.PATH}`, LC_ALL: 'C.UTF-8' },
    });
    const out = existsSync(join(cwd, 'out')) ? readFileSync(join(cwd, 'out'), 'utf8') : undefined;
    const canary = readdirSync(cwd).includes('canary');
    const redirected = existsSync(join(cwd, v)) && it.kind === 'redirect' ? 'made' : undefined;
    rmSync(cwd, { recursive: true, force: true });
    const expected = it.expected === undefined ? v : it.expected(v);
    expect({
      v,
      out: redirected ?? out,
      canary,
      why: out === expected ? '' : result.stderr.toString(),
      mended: '',
    }).toEqual({ v, out: expected, canary: false, why: '', mended: out === expected ? '' : mended });
  }
});
