import { didYouMean } from '../document/index.ts';
import { usage } from './errors.ts';
import { flagsOf } from './parse/flags.ts';
import type { CommandEntry, Flag } from './types.ts';

interface Row {
  /** Canonical words and each other way to say them. */
  readonly paths: readonly string[];
  readonly summary: string;
  readonly flags: readonly Flag[];
  readonly choices: readonly string[];
  readonly takesFiles: boolean;
}

const shells: Readonly<Record<string, (rows: readonly Row[]) => string>> = { bash, zsh, fish };

/** The script for a shell, made from the declarations. @throws USAGE for another shell */
export async function completionScript(shell: string, entries: readonly CommandEntry[]): Promise<string> {
  const write = shells[shell];
  if (write === undefined) {
    const near = didYouMean(shell, Object.keys(shells));
    throw usage(
      `there is no completion for ${JSON.stringify(shell)}`,
      near === undefined ? 'use bash, zsh or fish' : `did you mean ${near}?`,
    );
  }
  const rows = await Promise.all(
    entries.map(async (entry) => {
      const command = await entry.load();
      return {
        paths: [entry.path, ...entry.aliases],
        summary: entry.summary,
        flags: flagsOf(command).filter((flag) => flag.hidden !== true),
        choices: entry.path === 'completion' ? Object.keys(shells) : (command.arguments[0]?.choices ?? []),
        takesFiles: command.arguments.some((argument) => /FILE|FOLDER|PATH/.test(argument.name)),
      };
    }),
  );
  return write(rows);
}

/** What may follow each beginning of a command: `image` → `pull push …`. */
function tree(rows: readonly Row[]): Map<string, Map<string, string>> {
  const children = new Map<string, Map<string, string>>();
  for (const { paths, summary } of rows) {
    for (const path of paths) {
      const words = path.split(' ');
      for (const [depth, word] of words.entries()) {
        const parent = words.slice(0, depth).join(' ');
        const under = children.get(parent) ?? new Map<string, string>();
        const isWhole = depth === words.length - 1;
        if (isWhole || !under.has(word)) {
          under.set(word, isWhole ? summary : `commands of ${word}`);
        }
        children.set(parent, under);
      }
    }
  }
  return children;
}

function flagWords(flags: readonly Flag[]): string[] {
  return flags.flatMap((flag) => [`--${flag.name}`, ...(flag.short === undefined ? [] : [`-${flag.short}`])]);
}

function bash(rows: readonly Row[]): string {
  const groups = [...tree(rows)].map(
    ([path, words]) => `    '${path}') words='${[...words.keys()].join(' ')}' ;;`,
  );
  const commands = rows.map(({ paths, flags, choices }) => {
    const patterns = paths.map((path) => `'${path}'`).join('|');
    return `    ${patterns}) words='${choices.join(' ')}' flags='${flagWords(flags).join(' ')}' ;;`;
  });
  const values = choiceCases(rows).map(
    ([flags, words]) =>
      `    ${flags}) COMPREPLY=($(compgen -W '${words.join(' ')}' -- "$current")); return ;;`,
  );
  return `# bash completion for skycap
_skycap() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} path='' word words='' flags=''
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in -*) continue ;; esac
    _skycap_words "$path"
    case " $words " in
      *" $word "*) path="\${path:+$path }$word" ;;
    esac
  done
  case $path:$previous in
${values.join('\n')}
  esac
  _skycap_words "$path"
  # Flags only where one is begun: what else may stand there is a value, a name or a file, which are bash's to complete.
  case $current in -*) words=$flags ;; esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
_skycap_words() {
  words='' flags=''
  case $1 in
${groups.join('\n')}
${commands.join('\n')}
  esac
}
complete -o bashdefault -o default -F _skycap skycap
`;
}

/**
 * Flags with a fixed set of values as a shell's pattern for `COMMAND:FLAG`, each with its values: those of most commands
 * for all (`*:--output|*:-o`), and before them commands that take others (`'lint:--output'|'lint:-o'`).
 */
function choiceCases(rows: readonly Row[]): (readonly [string, readonly string[]])[] {
  const all = rows.flatMap((row) => row.flags);
  const names = new Set(all.flatMap((flag) => (flag.choices === undefined ? [] : flag.name)));
  return [...names].flatMap((name) => {
    const groups = new Map<string, { readonly choices: readonly string[]; readonly rows: Row[] }>();
    for (const row of rows) {
      const choices = row.flags.find((flag) => flag.name === name)?.choices;
      if (choices === undefined) continue;
      const key = choices.join(' ');
      groups.set(key, { choices, rows: [...(groups.get(key)?.rows ?? []), row] });
    }
    const [most, ...others] = [...groups.values()].sort((x, y) => y.rows.length - x.rows.length);
    const letters = new Set(all.flatMap((flag) => (flag.name === name ? (flag.short ?? []) : [])));
    // A letter that another command has for something else says nothing.
    const own = [...letters].filter((letter) =>
      all.every((flag) => flag.short !== letter || flag.name === name),
    );
    const words = [`--${name}`, ...own.map((letter) => `-${letter}`)];
    const special = others.map(({ rows: theirs, choices }) => {
      const places = theirs.flatMap(({ paths }) => paths);
      return [places.flatMap((at) => words.map((word) => `'${at}:${word}'`)).join('|'), choices] as const;
    });
    return [...special, [words.map((word) => `*:${word}`).join('|'), most?.choices ?? []] as const];
  });
}

function zsh(rows: readonly Row[]): string {
  const groups = [...tree(rows)].map(([path, words]) => {
    const items = [...words].map(([word, summary]) => `'${word}:${quote(summary)}'`).join(' ');
    return `    '${path}') items=(${items}) ;;`;
  });
  const commands = rows.map(({ paths, flags }) => {
    const patterns = paths.map((path) => `'${path}'`).join('|');
    const items = flags
      .flatMap((flag) => flagWords([flag]).map((word) => `'${word}:${quote(flag.summary)}'`))
      .join(' ');
    return `    ${patterns}) flags=(${items}) ;;`;
  });
  const values = choiceCases(rows).map(
    ([names, words]) => `    ${names}) compadd -- ${words.join(' ')}; return ;;`,
  );
  return `#compdef skycap
_skycap() {
  local path='' word candidate
  local -a items flags
  _skycap_fill ''
  for word in \${words[2,CURRENT-1]}; do
    [[ $word == -* ]] && continue
    candidate="\${path:+$path }$word"
    if (( \${items[(I)$word:*]} )); then
      path=$candidate
      _skycap_fill "$path"
    fi
  done
  case "\${path}:\${words[CURRENT-1]}" in
${values.join('\n')}
  esac
  (( $#items )) && _describe 'command' items
  (( $#flags )) && _describe 'flag' flags
  (( $#items )) || _files
}
_skycap_fill() {
  items=()
  flags=()
  case $1 in
${groups.join('\n')}
  esac
  case $1 in
${commands.join('\n')}
  esac
}
if [ "$funcstack[1]" = _skycap ]; then _skycap "$@"; else compdef _skycap skycap; fi
`;
}

function quote(text: string): string {
  return text.replaceAll("'", "'\\''").replaceAll(':', '\\:');
}

function fish(rows: readonly Row[]): string {
  const lines = ['# fish completion for skycap'];
  for (const [path, words] of tree(rows)) {
    const condition = path === '' ? '__fish_use_subcommand' : fishPath(path);
    for (const [word, summary] of words) {
      lines.push(`complete -c skycap -f -n '${condition}' -a '${word}' -d '${fishQuote(summary)}'`);
    }
  }
  for (const { paths, flags } of rows) {
    for (const flag of flags) {
      const short = flag.short === undefined ? '' : ` -s ${flag.short}`;
      const value =
        flag.type === 'switch' || flag.type === 'optional'
          ? ''
          : flag.choices === undefined
            ? ' -r'
            : ` -x -a '${flag.choices.join(' ')}'`;
      for (const path of paths) {
        lines.push(
          `complete -c skycap -n '${fishPath(path)}' -l ${flag.name}${short}${value} -d '${fishQuote(flag.summary)}'`,
        );
      }
    }
  }
  return `${lines.join('\n')}\n`;
}

function fishPath(path: string): string {
  return path
    .split(' ')
    .map((word) => `__fish_seen_subcommand_from ${word}`)
    .join('; and ');
}

function fishQuote(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll("'", "\\'");
}
