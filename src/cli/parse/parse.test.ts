import { describe, expect, test } from 'vitest';
import { entries } from '../commands/index.ts';
import type { Command } from '../types.ts';
import { parseInvocation } from './flags.ts';
import { resolveCommand } from './resolve.ts';
import { parseDuration } from './values.ts';

const command: Command = {
  path: 'test',
  summary: 'a command',
  arguments: [
    { name: 'ONE', required: true, summary: 'one' },
    { name: 'TWO', required: false, summary: 'two' },
  ],
  flags: [
    { name: 'force', short: 'F', type: 'switch', own: true, summary: 's' },
    { name: 'dry-run', type: 'switch', summary: 's' },
    { name: 'engine', short: 'd', aliases: ['driver'], type: 'string', summary: 's' },
    { name: 'param', type: 'list', summary: 's' },
    { name: 'limit', type: 'integer', summary: 's' },
    { name: 'grace', type: 'duration', summary: 's' },
    { name: 'allow', type: 'optional', summary: 's' },
    { name: 'kind', type: 'string', choices: ['a', 'b'], summary: 's' },
  ],
  examples: [],
  run: () => Promise.resolve(0),
};

function parse(line: string, env: Record<string, string> = {}) {
  return parseInvocation({ command, words: line.split(' ').filter((word) => word !== ''), env });
}

describe('values of flags', () => {
  test.each([
    ['x --engine docker', 'docker'],
    ['x --engine=docker', 'docker'],
    ['x --driver docker', 'docker'],
    ['x -d docker', 'docker'],
    ['x -ddocker', 'docker'],
    ['x -d=docker', 'docker'],
    ['-d docker x', 'docker'],
    ['x -Fd docker', 'docker'],
    ['x --engine=', ''],
    ['x --engine one --engine two', 'two'],
  ])('string: %s', (line, value) => {
    const { flags, arguments: words } = parse(line);
    expect(flags.string('engine')).toBe(value);
    expect(words).toEqual(['x']);
  });

  test.each([
    ['x --force', true],
    ['x --force=true', true],
    ['x --force=false', false],
    ['x -F', true],
    ['x -F=0', false],
    ['x', false],
  ])('switch: %s', (line, value) => {
    expect(parse(line).flags.switch('force')).toBe(value);
  });

  test('a switch never swallows the next word', () => {
    const { flags, arguments: words } = parse('x --force true');
    expect(flags.switch('force')).toBe(true);
    expect(words).toEqual(['x', 'true']);
  });

  test.each([
    ['x --allow', []],
    ['x --allow=true', []],
    ['x --allow=false', undefined],
    ['x --allow=a,b', ['a', 'b']],
    ['x --allow=a --allow=b', ['a', 'b']],
    ['x', undefined],
  ])('optional: %s', (line, value) => {
    expect(parse(line).flags.optional('allow')).toEqual(value);
  });

  test('an optional value is taken after = only', () => {
    const { flags, arguments: words } = parse('--allow my-app');
    expect(flags.optional('allow')).toEqual([]);
    expect(words).toEqual(['my-app']);
  });

  test('a list keeps order, commas and equal signs', () => {
    expect(parse('x --param a=1,2 --param b=c=d').flags.list('param')).toEqual(['a=1,2', 'b=c=d']);
  });

  test('after -- everything is an argument', () => {
    expect(parse('x -- --force').arguments).toEqual(['x', '--force']);
  });

  test.each([
    ['1500ms', 1_500],
    ['90s', 90_000],
    ['1h30m', 5_400_000],
    ['7d', 604_800_000],
    ['0.5s', 500],
    ['10', undefined],
    ['', undefined],
    ['s', undefined],
    ['1h 30m', undefined],
    ['-1s', undefined],
  ])('duration %s', (text, value) => {
    expect(parseDuration(text)).toBe(value);
  });
});

describe('variables', () => {
  test('stand in for every kind of flag', () => {
    const { flags } = parse('x', {
      SKYCAP_ENGINE: 'docker',
      SKYCAP_TEST_FORCE: '1',
      SKYCAP_PARAM: 'a=1\nb=2',
      SKYCAP_LIMIT: '5',
      SKYCAP_GRACE: '3s',
      SKYCAP_ALLOW: 'a',
      SKYCAP_DRY_RUN: 'true',
    });
    expect(flags.string('engine')).toBe('docker');
    expect(flags.switch('force')).toBe(true);
    expect(flags.list('param')).toEqual(['a=1', 'b=2']);
    expect(flags.integer('limit')).toBe(5);
    expect(flags.duration('grace')).toBe(3_000);
    expect(flags.optional('allow')).toEqual(['a']);
    expect(flags.switch('dry-run')).toBe(true);
  });

  test('lose to the command line', () => {
    expect(
      parse('x --engine=a --dry-run=false', { SKYCAP_ENGINE: 'b', SKYCAP_DRY_RUN: '1' }).flags.string(
        'engine',
      ),
    ).toBe('a');
    expect(parse('x --dry-run=false', { SKYCAP_DRY_RUN: '1' }).flags.switch('dry-run')).toBe(false);
  });

  test('of an own flag carry the name of the command', () => {
    expect(parse('x', { SKYCAP_FORCE: '1' }).flags.switch('force')).toBe(false);
  });

  test('are not counted as ignored', () => {
    expect(parse('x', { SKYCAP_ENGINE: 'b' }).flags.unread()).toEqual([]);
    expect(parse('x --engine=a').flags.unread()).toEqual(['engine']);
  });
});

describe('what is wrong is named', () => {
  test.each([
    ['x --dryrun', 'no flag --dryrun', '--dry-run'],
    ['x --zzz', 'no flag --zzz', '--help'],
    ['x --engine', '--engine needs a value', '--engine VALUE'],
    ['x --limit=ten', '--limit: "ten" is not a whole number', 'digits'],
    ['x --limit=-1', 'is not a whole number', 'digits'],
    ['x --grace=5', '--grace: "5" is not a duration', '10m'],
    ['x --kind=c', '--kind: "c" is none', 'a, b'],
    ['x --force=maybe', '--force: "maybe" is neither', '--force=true'],
    ['', 'needs ONE', 'skycap test ONE [TWO]'],
    ['a b c', 'what to do with "c"', 'skycap test ONE [TWO]'],
    ['x -Z', 'no flag -Z', '--help'],
  ])('%s', (line, message, hint) => {
    let error: { message?: string; hint?: string; code?: string } = {};
    try {
      parse(line);
    } catch (caught) {
      error = caught as typeof error;
    }
    expect(error.code).toBe('USAGE');
    expect(error.message).toContain(message);
    expect(error.hint).toContain(hint);
  });

  test('also when a variable says it', () => {
    expect(() => parse('x', { SKYCAP_LIMIT: 'ten' })).toThrow('SKYCAP_LIMIT: "ten"');
  });
});

describe('which command is meant', () => {
  test.each([
    ['list', 'installation list', []],
    ['installations list', 'installation list', []],
    ['inst ls -o json', 'installation list', ['-o', 'json']],
    ['-o json list', 'installation list', ['-o', 'json']],
    ['show my-app', 'installation show', ['my-app']],
    ['bundles lint', 'lint', []],
    ['installation install my-app', 'install', ['my-app']],
    ['installations runs list x', 'run list', ['x']],
    ['installation outputs show NAME', 'output show', ['NAME']],
    ['logs -i list', 'run logs', ['-i', 'list']],
    ['log', 'run logs', []],
    ['installation logs show', 'run logs', []],
    ['install list', 'install', ['list']],
    ['images rm x', 'image rm', ['x']],
    ['run logs ID', 'run logs', ['ID']],
    ['runs', undefined, []],
    ['nonsense', undefined, ['nonsense']],
    ['--debug version', 'version', ['--debug']],
    ['-- list', undefined, ['--', 'list']],
  ])('%s', (line, path, rest) => {
    const resolved = resolveCommand(line.split(' '), entries);
    expect(resolved.entry?.path).toBe(path);
    expect(resolved.rest).toEqual(rest);
  });
});
