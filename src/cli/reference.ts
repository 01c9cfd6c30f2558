import { flagText, flagValueSyntax } from './help.ts';
import { usageLine } from './parse/flags.ts';
import { globalFlags } from './parse/globals.ts';
import { variableOf } from './parse/variables.ts';
import { refusedFlags, refusedGlobals, refusedVerbs } from './porter-flags.ts';
import type { Command, CommandEntry, Flag } from './types.ts';

/** docs/cli.md, made from the declarations; `npm run docs` writes it and a test compares. */
export async function referencePage(entries: readonly CommandEntry[]): Promise<string> {
  const commands = await Promise.all(entries.map(async (entry) => ({ entry, command: await entry.load() })));
  const parts = [
    '# Command line',
    'Made from the declarations in `src/cli/commands`; do not edit.',
    'Results go to stdout, events to stderr. Every flag has an environment variable; the command line wins. The value of a list is one item per line. Switches take `=true` and `=false`. Exit codes: 0 done, 1 a fault of Skycap, 2 wrong usage, secrets or settings, 10–19 bundle, 20–29 registry, 30–39 trust, 40–49 engine, 50 a step failed, 51 a step whose end is unknown, 60–69 state, 130 cancelled.',
    'Ctrl-C ends the running steps and lets `always` steps finish; a second Ctrl-C kills them; a third leaves at once.',
    `## Flags of every command\n\n${flagTable('', globalFlags)}`,
    ...commands.map(({ entry, command }) => commandSection(entry, command)),
    porterSection(),
  ];
  return `${parts.join('\n\n')}\n`;
}

function commandSection(entry: CommandEntry, command: Command): string {
  const visible = command.flags.filter((flag) => flag.hidden !== true);
  const parts = [
    `## skycap ${command.path}`,
    `${sentence(command.summary)}`,
    `\`\`\`\nskycap ${usageLine(command)}\n\`\`\``,
  ];
  if (command.description !== undefined) {
    parts.push(command.description);
  }
  if (entry.aliases.length > 0) {
    parts.push(`Also as ${entry.aliases.map((alias) => `\`skycap ${alias}\``).join(', ')}.`);
  }
  if (command.arguments.length > 0) {
    const rows = command.arguments.map((a) => {
      const choices = a.choices === undefined ? '' : ` (${a.choices.join(', ')})`;
      return `| \`${a.name}\` | ${a.required ? 'yes' : 'no'} | ${cell(a.summary + choices)} |`;
    });
    parts.push(['| argument | required | meaning |', '|---|---|---|', ...rows].join('\n'));
  }
  if (visible.length > 0) {
    parts.push(flagTable(command.path, visible));
  }
  if (command.examples.length > 0) {
    parts.push(
      `\`\`\`sh\n${command.examples.map(({ line, does }) => `# ${does}\n${line}`).join('\n')}\n\`\`\``,
    );
  }
  return parts.join('\n\n');
}

function flagTable(path: string, flags: readonly Flag[]): string {
  const rows = flags.map((flag) => {
    const short = flag.short === undefined ? '' : `\`-${flag.short}\`, `;
    return `| ${short}\`--${flag.name}${flagValueSyntax(flag)}\` | \`${variableOf(path, flag)}\` | ${cell(flagText(flag))} |`;
  });
  return ['| flag | variable | meaning |', '|---|---|---|', ...rows].join('\n');
}

function porterSection(): string {
  const verbs = Object.entries(refusedVerbs).map(
    ([verb, { because, use }]) => `| \`porter ${verb}\` | ${cell(because)} | ${cell(use)} |`,
  );
  const flags = Object.entries({ 'every command': refusedGlobals, ...refusedFlags }).flatMap(
    ([path, refused]) =>
      refused.map(
        ({ name, because, use }) => `| \`--${name}\` | ${path} | ${cell(because)} | ${cell(use)} |`,
      ),
  );
  return [
    '## What Porter has and Skycap does not',
    "Porter's other verbs, aliases and flags do here what they do there. These end with exit code 2 and say why.",
    ['| verb | because | instead |', '|---|---|---|', ...verbs].join('\n'),
    ['| flag | of | because | instead |', '|---|---|---|---|', ...flags].join('\n'),
  ].join('\n\n');
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
