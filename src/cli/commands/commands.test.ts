import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { completionScript } from '../completion.ts';
import { flagsOf } from '../parse/flags.ts';
import { variableOf } from '../parse/variables.ts';
import { referencePage } from '../reference.ts';
import { entries } from './index.ts';

const commands = await Promise.all(entries.map(async (entry) => ({ entry, command: await entry.load() })));

test.each(commands)('$entry.path: the entry and the command agree', ({ entry, command }) => {
  expect(command.path).toBe(entry.path);
  expect(command.summary).toBe(entry.summary);
  expect(existsSync(join(import.meta.dirname, `${entry.path.replaceAll(' ', '-')}.ts`))).toBe(true);
  expect(command.examples.every(({ line }) => line.includes('skycap'))).toBe(true);
});

test.each(commands)('$entry.path: names and letters of flags are given once', ({ command }) => {
  const names = flagsOf(command).flatMap((flag) => [flag.name, ...(flag.aliases ?? [])]);
  const shorts = flagsOf(command).flatMap((flag) => flag.short ?? []);
  expect(new Set(names).size).toBe(names.length);
  expect(new Set(shorts).size).toBe(shorts.length);
});

test('no two commands answer to one line', () => {
  const lines = entries.flatMap((entry) => [entry.path, ...entry.aliases]);
  expect(new Set(lines).size).toBe(lines.length);
});

test('a variable means the same kind of value wherever it is read', () => {
  const types = new Map<string, Set<string>>();
  for (const { command } of commands) {
    for (const flag of flagsOf(command)) {
      const variable = variableOf(command.path, flag);
      expect(variable).toMatch(/^SKYCAP_[A-Z0-9_]+$/);
      types.set(variable, (types.get(variable) ?? new Set()).add(flag.type));
    }
  }
  const mixed = [...types].filter(([, kinds]) => kinds.size > 1).map(([variable]) => variable);
  expect(mixed).toEqual([]);
});

test('docs/cli.md is what the declarations say (npm run docs writes it)', async () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/cli.md'), 'utf8');
  expect(page).toBe(await referencePage(entries));
});

describe('completion', () => {
  test.each(['bash', 'zsh', 'fish'])('%s knows every command and flag', async (shell) => {
    const script = await completionScript(shell, entries);
    for (const { command } of commands) {
      for (const word of command.path.split(' ')) {
        expect(script).toContain(word);
      }
      for (const flag of command.flags) {
        expect(script).toContain(flag.name);
      }
    }
  });

  test.each([
    ['bash', /^ {4}\*:--output\|\*:-o\) COMPREPLY=.*\bjson\b/m],
    ['zsh', /^ {4}\*:--output\|\*:-o\) compadd -- .*\bjson\b/m],
    ['fish', /-l output -s o -x -a '[^']*\bjson\b/],
  ])('%s knows -o and its values', async (shell, offered) => {
    expect(await completionScript(shell, entries)).toMatch(offered);
  });

  test('bash offers each command the values that it takes', async () => {
    const script = await completionScript('bash', entries);
    const offered = (line: string): string[] => {
      const words = line.split(' ');
      const asked = `${script}\nCOMP_WORDS=(${words.join(' ')} ''); COMP_CWORD=${words.length}; _skycap; echo "\${COMPREPLY[*]}"`;
      return execFileSync('bash', ['-c', asked], { encoding: 'utf8' }).trim().split(' ');
    };
    for (const { command } of commands) {
      for (const flag of command.flags) {
        if (flag.choices === undefined) continue;
        expect([command.path, ...offered(`skycap ${command.path} --${flag.name}`)]).toEqual([
          command.path,
          ...flag.choices,
        ]);
      }
    }
    expect(offered('skycap lint -o')).toContain('sarif');
    expect(offered('skycap list -o')).not.toContain('sarif');
  });

  test('another shell is named, with the nearest', async () => {
    await expect(completionScript('bsh', entries)).rejects.toMatchObject({
      code: 'USAGE',
      hint: 'did you mean bash?',
    });
  });
});
