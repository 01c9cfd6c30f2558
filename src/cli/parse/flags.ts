import { didYouMean } from '../../document/index.ts';
import { usage } from '../errors.ts';
import type { Command, Flag, Flags, FlagValue, Invocation } from '../types.ts';
import { globalFlags } from './globals.ts';
import { parseValue } from './values.ts';
import { variableOf } from './variables.ts';

export interface ParseInput {
  readonly command: Command;
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Called for a flag that the command does not know; throws if Porter has it. */
  readonly onUnknown?: (name: string) => void;
}

interface Given {
  readonly value: FlagValue;
  readonly from: 'line' | 'variable';
}

/** A command's flags and the global ones; the command's own win. */
export function flagsOf(command: Command): readonly Flag[] {
  const names = new Set(command.flags.map((flag) => flag.name));
  const shared = globalFlags.filter(
    (flag) => !names.has(flag.name) && !(command.raw === true && flag.name === 'output'),
  );
  return [...command.flags, ...shared];
}

/**
 * Reads a command line as Porter's flag library does: `--name value`, `--name=value`, `-n value`, `-nvalue`, switches
 * with `=true` and `=false`, flags and arguments in any order, `--` ends the flags. The line wins over variables.
 * @throws USAGE naming the word that is wrong and the nearest that is right
 */
export function parseInvocation(input: ParseInput): Invocation {
  const flags = flagsOf(input.command);
  const given = new Map<string, Given>();
  const positional: string[] = [];
  const words = [...input.words];
  while (words.length > 0) {
    const word = words.shift() as string;
    if (word === '--') {
      positional.push(...words.splice(0));
    } else if (word.startsWith('--')) {
      readLong(word, { words, flags, given, input });
    } else if (word.startsWith('-') && word !== '-') {
      readShort(word, { words, flags, given, input });
    } else {
      positional.push(word);
    }
  }
  readVariables(input, flags, given);
  const invocation = { command: input.command, arguments: positional, flags: flagReader(flags, given) };
  if (given.get('help')?.value !== true) {
    checkArguments(input.command, positional);
  }
  return invocation;
}

interface Reading {
  readonly words: string[];
  readonly flags: readonly Flag[];
  readonly given: Map<string, Given>;
  readonly input: ParseInput;
}

function readLong(word: string, reading: Reading): void {
  const equals = word.indexOf('=');
  const name = word.slice(2, equals === -1 ? undefined : equals);
  const flag = reading.flags.find((f) => f.name === name || (f.aliases ?? []).includes(name));
  if (flag === undefined) {
    throw unknownFlag(`--${name}`, reading);
  }
  take(flag, `--${name}`, equals === -1 ? undefined : word.slice(equals + 1), reading);
}

function readShort(word: string, reading: Reading): void {
  const letter = word[1] as string;
  const flag = reading.flags.find((f) => f.short === letter || (f.aliases ?? []).includes(`-${letter}`));
  if (flag === undefined) {
    throw unknownFlag(`-${letter}`, reading);
  }
  const after = word.slice(2);
  if (after.startsWith('=')) {
    take(flag, `-${letter}`, after.slice(1), reading);
  } else if (after !== '' && (flag.type === 'switch' || flag.type === 'optional')) {
    take(flag, `-${letter}`, undefined, reading);
    readShort(`-${after}`, reading);
  } else {
    take(flag, `-${letter}`, after === '' ? undefined : after, reading);
  }
}

function take(flag: Flag, spelled: string, inline: string | undefined, reading: Reading): void {
  let text = inline;
  if (text === undefined) {
    if (flag.type === 'switch') {
      text = 'true';
    } else if (flag.type === 'optional') {
      text = '';
    } else {
      text = reading.words.shift();
    }
  }
  if (text === undefined) {
    throw usage(`${spelled} needs a value`, `write ${spelled} ${flag.value ?? 'VALUE'}`);
  }
  const value = parseFlag(flag, text, spelled);
  const before = reading.given.get(flag.name);
  const merged =
    Array.isArray(value) && before !== undefined ? [...(before.value as readonly string[]), ...value] : value;
  reading.given.set(flag.name, { value: merged, from: 'line' });
}

/** Porter took `true` and `false` for `--allow-docker-host-access`, so an `optional` flag does too. */
function parseFlag(flag: Flag, text: string, source: string): FlagValue {
  if (flag.type === 'optional' && (text === 'true' || text === 'false')) {
    return text === 'true' ? [] : false;
  }
  const value = parseValue(flag, text, source);
  return flag.type === 'list' ? [value as string] : value;
}

function readVariables(input: ParseInput, flags: readonly Flag[], given: Map<string, Given>): void {
  for (const flag of flags) {
    const variable = variableOf(input.command.path, flag);
    const text = input.env[variable];
    if (text === undefined || given.has(flag.name) || (text === '' && flag.type !== 'optional')) {
      continue;
    }
    const value =
      flag.type === 'list'
        ? text
            .split('\n')
            .filter((item) => item !== '')
            .flatMap((item) => parseFlag(flag, item, variable) as string[])
        : parseFlag(flag, text, variable);
    given.set(flag.name, { value, from: 'variable' });
  }
}

function unknownFlag(spelled: string, reading: Reading): Error {
  reading.input.onUnknown?.(spelled);
  const known = reading.flags.filter((flag) => flag.hidden !== true).map((flag) => `--${flag.name}`);
  const near = spelled.startsWith('--') ? didYouMean(spelled, known) : undefined;
  const { path } = reading.input.command;
  return usage(
    `skycap ${path} has no flag ${spelled}`,
    near === undefined ? `run skycap ${path} --help to see its flags` : `did you mean ${near}?`,
  );
}

function checkArguments(command: Command, positional: readonly string[]): void {
  const required = command.arguments.filter((argument) => argument.required);
  const missing = required[positional.length];
  if (missing !== undefined) {
    throw usage(
      `skycap ${command.path} needs ${missing.name}: ${missing.summary}`,
      `write skycap ${usageLine(command)}`,
    );
  }
  const isOpen = command.arguments.some((argument) => argument.variadic === true);
  const extra = positional[command.arguments.length];
  if (!isOpen && extra !== undefined) {
    throw usage(
      `skycap ${command.path} does not know what to do with ${JSON.stringify(extra)}`,
      `write skycap ${usageLine(command)}`,
    );
  }
  for (const [index, argument] of command.arguments.entries()) {
    const value = positional[index];
    if (value !== undefined && argument.choices !== undefined && !argument.choices.includes(value)) {
      const near = didYouMean(value, argument.choices);
      throw usage(
        `${argument.name}: ${JSON.stringify(value)} is none of ${argument.choices.join(', ')}`,
        near === undefined ? `write skycap ${usageLine(command)}` : `did you mean ${near}?`,
      );
    }
  }
}

/** `install [INSTALLATION] [flags]`. */
export function usageLine(command: Command): string {
  const words = command.arguments.map(({ name, required, variadic }) => {
    const word = variadic === true ? `${name}...` : name;
    return required ? word : `[${word}]`;
  });
  return [command.path, ...words, '[flags]'].join(' ');
}

function flagReader(flags: readonly Flag[], given: ReadonlyMap<string, Given>): Flags {
  const read = new Set<string>();
  const get = (name: string, ...types: readonly Flag['type'][]): FlagValue | undefined => {
    const flag = flags.find((f) => f.name === name);
    if (flag === undefined || !types.includes(flag.type)) {
      throw new Error(`flag ${name} is not declared as ${types.join(' or ')}`);
    }
    read.add(name);
    return given.get(name)?.value;
  };
  return {
    switch: (name) => get(name, 'switch') === true,
    string: (name) => get(name, 'string') as string | undefined,
    integer: (name) => get(name, 'integer') as number | undefined,
    duration: (name) => get(name, 'duration') as number | undefined,
    list: (name) => (get(name, 'list') as readonly string[] | undefined) ?? [],
    optional: (name) => {
      const value = get(name, 'optional');
      return value === undefined || value === false ? undefined : (value as readonly string[]);
    },
    given: (name) => {
      read.add(name);
      return given.has(name);
    },
    unread: () =>
      [...given].filter(([name, { from }]) => from === 'line' && !read.has(name)).map(([name]) => name),
  };
}
