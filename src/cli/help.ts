import { flagsOf, usageLine } from './parse/flags.ts';
import { globalFlags } from './parse/globals.ts';
import { variableOf } from './parse/variables.ts';
import { paint } from './render/style.ts';
import { displayWidth, padEnd } from './render/width.ts';
import type { Command, CommandEntry, Flag, Style } from './types.ts';

const groups: readonly (readonly [string, readonly string[]])[] = [
  ['Write a bundle', ['create', 'lint', 'lock', 'explain', 'schema']],
  ['Run it', ['install', 'upgrade', 'invoke', 'uninstall', 'step']],
  ['Look at what was run', ['installation', 'run', 'output']],
  ['Images and registries', ['image', 'login', 'logout', 'registry']],
  ['This machine', ['config', 'doctor', 'completion', 'version']],
];

export function overview(entries: readonly CommandEntry[], style: Style): string {
  const parts = ['Skycap runs deployment bundles whose every step has its own pinned container image.\n'];
  for (const [title, verbs] of groups) {
    const inGroup = entries.filter((entry) => verbs.includes(entry.path.split(' ')[0] as string));
    parts.push(
      `${paint(style, 'bold', title)}\n${columns(inGroup.map((entry) => [entry.path, entry.summary]))}`,
    );
  }
  parts.push('Run skycap COMMAND --help for its flags and examples.\n');
  return parts.join('\n');
}

export function groupHelp(path: string, entries: readonly CommandEntry[], style: Style): string {
  const inGroup = entries.filter((entry) => entry.path.startsWith(`${path} `));
  return `${paint(style, 'bold', `skycap ${path}`)}\n${columns(inGroup.map((entry) => [entry.path, entry.summary]))}`;
}

export function commandHelp(command: Command, aliases: readonly string[], style: Style): string {
  const parts = [
    `${command.summary}\n`,
    `${paint(style, 'bold', 'Usage')}\n  skycap ${usageLine(command)}\n`,
  ];
  if (command.description !== undefined) {
    parts.push(`${command.description}\n`);
  }
  if (aliases.length > 0) {
    parts.push(
      `${paint(style, 'bold', 'Also as')}\n${aliases.map((alias) => `  skycap ${alias}\n`).join('')}`,
    );
  }
  if (command.arguments.length > 0) {
    parts.push(
      `${paint(style, 'bold', 'Arguments')}\n${columns(command.arguments.map((a) => [a.name, argumentText(a)]))}`,
    );
  }
  const own = command.flags.filter((flag) => flag.hidden !== true);
  if (own.length > 0) {
    parts.push(
      `${paint(style, 'bold', 'Flags')}\n${columns(own.map((flag) => [flagSyntax(flag), flagText(flag)]))}`,
    );
  }
  const shared = flagsOf(command).filter((flag) => globalFlags.includes(flag));
  parts.push(
    `${paint(style, 'bold', 'Flags of every command')}\n${columns(shared.map((flag) => [flagSyntax(flag), flagText(flag)]))}`,
  );
  if (command.examples.length > 0) {
    const lines = command.examples.map(({ line, does }) => `  # ${does}\n  ${line}\n`);
    parts.push(`${paint(style, 'bold', 'Examples')}\n${lines.join('\n')}`);
  }
  const [example] = own.filter((flag) => flag.type !== 'switch');
  const name = example === undefined ? 'SKYCAP_OUTPUT' : variableOf(command.path, example);
  parts.push(`Every flag can be set by a variable, for example ${name}.\n`);
  return parts.join('\n');
}

function argumentText(argument: Command['arguments'][number]): string {
  return argument.choices === undefined
    ? argument.summary
    : `${argument.summary} (${argument.choices.join(', ')})`;
}

/** `-o, --output FORMAT`. */
function flagSyntax(flag: Flag): string {
  const short = flag.short === undefined ? '    ' : `-${flag.short}, `;
  return `${short}--${flag.name}${flagValueSyntax(flag)}`;
}

export function flagValueSyntax(flag: Flag): string {
  if (flag.type === 'switch') {
    return '';
  }
  return flag.type === 'optional' ? `[=${flag.value ?? 'VALUES'}]` : ` ${flag.value ?? 'VALUE'}`;
}

export function flagText(flag: Flag): string {
  const notes = [
    ...(flag.choices === undefined ? [] : [`one of ${flag.choices.join(', ')}`]),
    ...(flag.default === undefined ? [] : [`default ${flag.default}`]),
    ...(flag.type === 'list' ? ['may be repeated'] : []),
    ...(flag.aliases === undefined
      ? []
      : [`also ${flag.aliases.map((a) => (a.startsWith('-') ? a : `--${a}`)).join(', ')}`]),
  ];
  return notes.length === 0 ? flag.summary : `${flag.summary} (${notes.join('; ')})`;
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(0, ...rows.map(([name]) => displayWidth(name)));
  return rows.map(([name, text]) => `  ${padEnd(name, width)}   ${text}\n`).join('');
}
