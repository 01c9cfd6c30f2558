import { type Command, EXPANSION, HOLE, type Language, type Stage, type Word } from './types.ts';

/** Words of a command whose text some program would evaluate. */
export interface Evaluated {
  /** Index in the command's words. */
  readonly word: number;
  readonly program: string;
  readonly language: Language;
  /** Only because the value could be taken for an option: `--` in front makes it an operand. */
  readonly option?: boolean;
}

interface Interpreter {
  readonly language: Language;
  /** Letters of options whose argument is program text, and long ones. */
  readonly code: RegExp;
  /** Options that take an argument of another kind. */
  readonly takes?: RegExp;
  /** Options go on behind the code (and, with `permutes`, behind operands). */
  readonly goesOn?: boolean;
  readonly permutes?: boolean;
  /** Without an option for code the first operand is the code (awk, sed), or a file to be run. */
  readonly operand: 'code' | 'file';
}

const SHELLS: Interpreter = {
  language: 'shell',
  code: /^-[A-Za-z]*c[A-Za-z]*$/,
  takes: /^(?:[-+][A-Za-z]*[oO]|--rcfile|--init-file)$/,
  goesOn: true,
  operand: 'file',
};

const INTERPRETERS: Readonly<Record<string, Interpreter>> = {
  ...Object.fromEntries(
    ['sh', 'bash', 'dash', 'ash', 'ksh', 'mksh', 'zsh', 'rbash', 'fish'].map((name) => [name, SHELLS]),
  ),
  perl: { language: 'perl', code: /^-[A-Za-z0-9]*[eE]$/, takes: /^-[I]$/, goesOn: true, operand: 'file' },
  python: { language: 'python', code: /^-[A-Za-z]*c$/, takes: /^-[WX]$/, operand: 'file' },
  node: {
    language: 'node',
    code: /^(?:-p?e|-p|--eval|--print)$/,
    takes: /^(?:-r|--require|--import|-C)$/,
    goesOn: true,
    operand: 'file',
  },
  ruby: { language: 'ruby', code: /^-[A-Za-z]*e$/, takes: /^-[rIC]$/, goesOn: true, operand: 'file' },
  php: { language: 'php', code: /^-[rRBE]$/, takes: /^-[dcz]$/, goesOn: true, operand: 'file' },
  lua: { language: 'other', code: /^-e$/, takes: /^-l$/, goesOn: true, operand: 'file' },
  tclsh: { language: 'other', code: /^-c$/, operand: 'file' },
  pwsh: { language: 'other', code: /^-[cC]/, goesOn: true, operand: 'file' },
  awk: { language: 'awk', code: /^(?:-e|--source)$/, takes: /^-[vF]$/, operand: 'code' },
  sed: {
    language: 'sed',
    code: /^(?:-[A-Za-z]*e|--expression)$/,
    takes: /^(?:-l|--line-length)$/,
    goesOn: true,
    permutes: true,
    operand: 'code',
  },
};

const ALIASES: Readonly<Record<string, string>> = {
  nodejs: 'node',
  gawk: 'awk',
  mawk: 'awk',
  nawk: 'awk',
  gsed: 'sed',
};

/** Programs every argument of which is evaluated, or decides what is. */
const EVALUATORS: Readonly<Record<string, Language>> = {
  eval: 'shell',
  trap: 'shell',
  alias: 'shell',
  su: 'shell',
  runuser: 'shell',
  watch: 'shell',
  script: 'shell',
  parallel: 'shell',
  xargs: 'argument',
  let: 'arithmetic',
  read: 'name',
  unset: 'name',
  mapfile: 'name',
  readarray: 'name',
  getopts: 'name',
  declare: 'argument',
  typeset: 'argument',
  source: 'file',
  '.': 'file',
  enable: 'other',
  complete: 'other',
  compgen: 'other',
  bind: 'other',
  fc: 'other',
  m4: 'other',
  dc: 'other',
  expect: 'other',
};

/** Programs that run the command that stands behind their own options; the number is that of their own operands. */
const WRAPPERS: Readonly<Record<string, { readonly takes: RegExp; readonly operands: number }>> = {
  sudo: { takes: /^-[ugpCDhRrTtU]$/, operands: 0 },
  doas: { takes: /^-[uC]$/, operands: 0 },
  exec: { takes: /^-a$/, operands: 0 },
  command: { takes: /^$/, operands: 0 },
  builtin: { takes: /^$/, operands: 0 },
  nohup: { takes: /^$/, operands: 0 },
  setsid: { takes: /^$/, operands: 0 },
  busybox: { takes: /^$/, operands: 0 },
  time: { takes: /^-[fo]$/, operands: 0 },
  nice: { takes: /^-n$/, operands: 0 },
  ionice: { takes: /^-[cnp]$/, operands: 0 },
  stdbuf: { takes: /^-[ioe]$/, operands: 0 },
  timeout: { takes: /^-[ks]$/, operands: 1 },
  chroot: { takes: /^$/, operands: 1 },
  flock: { takes: /^-[wE]$/, operands: 1 },
  gosu: { takes: /^$/, operands: 1 },
  'su-exec': { takes: /^$/, operands: 1 },
  sshpass: { takes: /^-[pfdeP]$/, operands: 0 },
  unshare: { takes: /^-[RwSG]$/, operands: 0 },
  env: { takes: /^(?:-[uC])$/, operands: 0 },
};

/** Parts of a shell: in a command line without one, these names are other programs that evaluate nothing. */
const BUILTINS: ReadonlySet<string> = new Set([
  ...Object.entries(EVALUATORS).flatMap(([name, language]) => (language === 'name' ? [name] : [])),
  ...[
    'eval',
    'trap',
    'alias',
    'let',
    'declare',
    'typeset',
    'source',
    '.',
    'enable',
    'complete',
    'compgen',
    'bind',
    'fc',
    'printf',
    'test',
    '[',
    'local',
    'export',
    'readonly',
  ],
]);

/** As `evaluatedWords`, for a command line that no shell reads. */
export function evaluatedArguments(words: readonly Word[]): readonly Evaluated[] {
  return BUILTINS.has(programName(words[0]) ?? '') ? [] : evaluatedWords(words);
}

const isLiteral = (word: Word | undefined): boolean =>
  word !== undefined && !word.value.includes(EXPANSION) && !word.value.includes(HOLE);
const hasHole = (word: Word | undefined): boolean => word?.value.includes(HOLE) ?? false;
/** Could the value make an option of this word? */
const mayBeOption = (word: Word): boolean => /^-*[\0]/.test(word.value) || /^-+[\w-]*\0/.test(word.value);

function programName(word: Word | undefined): string | undefined {
  if (word === undefined || !isLiteral(word)) return undefined;
  const base = word.value.slice(word.value.lastIndexOf('/') + 1);
  return /^python[\d.]*$/.test(base) ? 'python' : (ALIASES[base] ?? base);
}

/** The words of a command that would be evaluated, with the program that does it. */
export function evaluatedWords(words: readonly Word[], from = 0): readonly Evaluated[] {
  const name = programName(words[from]);
  const rest = (program: string, language: Language, start = from + 1): Evaluated[] =>
    words
      .slice(start)
      .flatMap((word, i) =>
        hasHole(word) || word.holes[1] > word.holes[0] ? [{ word: start + i, program, language }] : [],
      );
  if (name === undefined) return unknownProgram(words, from);
  const wrapper = WRAPPERS[name];
  if (wrapper !== undefined) return wrapped(words, from, name);
  const interpreter = INTERPRETERS[name];
  if (interpreter !== undefined) return interpreted(words, from, name, interpreter);
  const language = EVALUATORS[name];
  if (language !== undefined) return rest(name, language);
  if (name === 'ssh') return ssh(words, from);
  if (name === 'test' || name === '[') return tested(words, from, name);
  if (name === 'printf') return printed(words, from);
  if (name === 'find') return found(words, from);
  if (name === 'local' || name === 'export' || name === 'readonly') return declared(words, from, name);
  if (name === 'make' || name === 'gmake') return rest(name, 'other');
  return hidden(words, from);
}

/** `$SHELL -c "…"`: a program that is not known here, with an option that usually brings code. */
function unknownProgram(words: readonly Word[], from: number): Evaluated[] {
  const option = words.findIndex((word, i) => i > from && /^-[a-zA-Z]*[ce]$/.test(word.value));
  if (option < 0) return [...hidden(words, from)];
  return words.flatMap((word, i) =>
    i > option && hasHole(word) ? [{ word: i, program: 'this program', language: 'other' as const }] : [],
  );
}

/** `kubectl exec pod -- sh -c "…"`: an interpreter with code, wherever it stands. */
function hidden(words: readonly Word[], from: number): readonly Evaluated[] {
  for (let i = from + 1; i < words.length; i++) {
    const name = programName(words[i]);
    const interpreter = name === undefined ? undefined : INTERPRETERS[name];
    if (interpreter === undefined || name === undefined) continue;
    if (words.slice(i + 1).some((word) => interpreter.code.test(word.value)))
      return interpreted(words, i, name, interpreter);
  }
  return [];
}

function wrapped(words: readonly Word[], from: number, name: string): readonly Evaluated[] {
  const { takes, operands } = WRAPPERS[name] as { takes: RegExp; operands: number };
  const refused: Evaluated[] = [];
  let left = operands;
  for (let i = from + 1; i < words.length; i++) {
    const word = words[i] as Word;
    if (name === 'env' && /^[A-Za-z_]\w*=/.test(word.value)) {
      if (hasHole(word) && SPECIAL_VARIABLES.has(word.value.slice(0, word.value.indexOf('='))))
        refused.push({ word: i, program: name, language: 'other' });
      continue;
    }
    if (name === 'env' && /^(?:-S|--split-string)/.test(word.value)) {
      for (let j = i; j < words.length; j++)
        if (hasHole(words[j])) refused.push({ word: j, program: 'env -S', language: 'other' });
      return refused;
    }
    if (word.value === '--') {
      if (left-- > 0) continue;
      return [...refused, ...inner(words, i + 1)];
    }
    if (takes.test(word.value)) {
      i++;
      continue;
    }
    if (word.value.startsWith('-') && !mayBeOption(word)) continue;
    if (left-- > 0) {
      if (mayBeOption(word)) refused.push({ word: i, program: name, language: 'argument', option: true });
      // `flock FILE -c TEXT`
      continue;
    }
    if (name === 'flock' && word.value === '-c') continue;
    return [...refused, ...inner(words, i)];
  }
  return refused;
}

/** The command behind a wrapper: its own name counts as "the command itself". */
function inner(words: readonly Word[], from: number): readonly Evaluated[] {
  const word = words[from];
  if (word === undefined) return [];
  if (hasHole(word))
    return [
      { word: from, program: 'the command itself', language: 'argument' },
      ...unknownProgram(words, from),
    ];
  return evaluatedWords(words, from);
}

function interpreted(
  words: readonly Word[],
  from: number,
  program: string,
  it: Interpreter,
): readonly Evaluated[] {
  const { language } = it;
  const refused: Evaluated[] = [];
  let coded = false;
  let wanted = false;
  for (let i = from + 1; i < words.length; i++) {
    const word = words[i] as Word;
    const hole = hasHole(word) || word.holes[1] > word.holes[0];
    if (wanted) {
      if (hole) refused.push({ word: i, program, language });
      wanted = false;
      coded = true;
      if (!it.goesOn || language === 'shell') return refused;
      continue;
    }
    if (word.value === '--') return [...refused, ...operands(words, i + 1, program, it, coded)];
    if (it.code.test(word.value)) {
      // A shell takes the code from the first operand; options may stand between.
      if (language === 'shell') return [...refused, ...shellCode(words, i + 1, program)];
      wanted = true;
      continue;
    }
    if (it.takes?.test(word.value)) {
      i++;
      if (hasHole(words[i]) && language !== 'awk' && language !== 'sed')
        refused.push({ word: i, program, language: 'other' });
      continue;
    }
    if (/^(?:-f|--file)/.test(word.value) && it.operand === 'code') {
      const file = word.value === '-f' || word.value === '--file' ? ++i : i;
      if (hasHole(words[file])) refused.push({ word: file, program, language: 'file' });
      coded = true;
      continue;
    }
    if (/^[-+]/.test(word.value) && isLiteral(word) && word.value !== '-') continue;
    if (/^-[vF]/.test(word.value) && language === 'awk') continue;
    if (hole && mayBeOption(word) && (coded || it.operand === 'file')) {
      refused.push({ word: i, program, language: coded ? 'argument' : 'file', option: coded });
      if (!it.permutes) return refused;
      continue;
    }
    if (!it.permutes || !coded) {
      const rest = operands(words, i, program, it, coded);
      if (!it.permutes) return [...refused, ...rest];
      refused.push(...rest);
      coded = true;
    }
  }
  return refused;
}

/** From the first operand: it is the code, a file to run, or (when there was code) data like all that follows. */
function operands(
  words: readonly Word[],
  first: number,
  program: string,
  it: Interpreter,
  coded: boolean,
): Evaluated[] {
  const word = words[first];
  if (coded || word === undefined || word.holes[1] === word.holes[0]) return [];
  return [{ word: first, program, language: it.operand === 'code' ? it.language : 'file' }];
}

/** Behind `-c`: further options, then the code; all that follows are its `$0`, `$1`, … */
function shellCode(words: readonly Word[], from: number, program: string): Evaluated[] {
  for (let i = from; i < words.length; i++) {
    const word = words[i] as Word;
    if (/^[-+]./.test(word.value) && isLiteral(word)) {
      if (word.value === '--') continue;
      if (/^[-+][A-Za-z]*[oO]$/.test(word.value)) i++;
      continue;
    }
    return word.holes[1] > word.holes[0] ? [{ word: i, program: `${program} -c`, language: 'shell' }] : [];
  }
  return [];
}

function ssh(words: readonly Word[], from: number): Evaluated[] {
  const refused: Evaluated[] = [];
  let host = false;
  for (let i = from + 1; i < words.length; i++) {
    const word = words[i] as Word;
    const hole = word.holes[1] > word.holes[0];
    if (host) {
      if (hole) refused.push({ word: i, program: 'ssh', language: 'shell' });
    } else if (/^-[a-zA-Z]*[BbcDEeFIiJLlmOoPpQRSWw]$/.test(word.value)) {
      i++;
      if (hasHole(words[i]) && !/[pli]$/.test(word.value))
        refused.push({ word: i, program: 'ssh', language: 'other' });
    } else if (word.value === '--') {
      host = words[++i] !== undefined;
    } else if (hole && mayBeOption(word)) {
      refused.push({ word: i, program: 'ssh', language: 'argument', option: true });
      host = true;
    } else if (!word.value.startsWith('-')) host = true;
    else if (hole) refused.push({ word: i, program: 'ssh', language: 'other' });
  }
  return refused;
}

/** In `[`, a value beside a word that is not known could come to be `-v`, whose operand bash evaluates. */
function tested(words: readonly Word[], from: number, program: string): Evaluated[] {
  return words.flatMap((word, i): Evaluated[] => {
    if (i <= from || word.holes[1] === word.holes[0]) return [];
    const [before, after] = [words[i - 1] as Word, words[i + 1]];
    if (/^-[vR]$/.test(before.value))
      return [{ word: i, program: `${program} ${before.value}`, language: 'name' }];
    const alone = (i - 1 === from || isLiteral(before)) && (after === undefined || isLiteral(after));
    // Behind an operator that is known, or before one, the value is an operand and nothing else.
    const operand = OPERATORS.test(before.value) || (after !== undefined && BINARY.test(after.value));
    return alone || operand ? [] : [{ word: i, program, language: 'other' }];
  });
}

const BINARY = /^(?:=|==|!=|<|>|-(?:eq|ne|lt|le|gt|ge|nt|ot|ef))$/;
const OPERATORS = /^(?:=|==|!=|<|>|-(?:eq|ne|lt|le|gt|ge|nt|ot|ef|[a-hknprstuwxzGLNOS]))$/;

function printed(words: readonly Word[], from: number): Evaluated[] {
  const refused: Evaluated[] = [];
  for (let i = from + 1; i < words.length; i++) {
    const word = words[i] as Word;
    const hole = word.holes[1] > word.holes[0];
    if (word.value === '--') return refused;
    if (/^-v/.test(word.value)) {
      const name = word.value === '-v' ? i + 1 : i;
      if (hasHole(words[name])) refused.push({ word: name, program: 'printf -v', language: 'name' });
      i = name;
      continue;
    }
    if (hole && hasHole(word) && mayBeOption(word))
      refused.push({ word: i, program: 'printf', language: 'argument', option: true });
    return refused;
  }
  return refused;
}

function found(words: readonly Word[], from: number): readonly Evaluated[] {
  const refused: Evaluated[] = [];
  for (let i = from + 1; i < words.length; i++) {
    if (!/^-(?:exec|execdir|ok|okdir)$/.test((words[i] as Word).value)) continue;
    const start = i + 1;
    let end = start;
    while (end < words.length && !/^[;+]$/.test((words[end] as Word).value)) end++;
    const inside = words.slice(0, end);
    const deeper = evaluatedWords(inside, start);
    const known = new Set(deeper.map((e) => e.word));
    refused.push(...deeper);
    for (let j = start; j < end; j++)
      if (hasHole(words[j]) && !known.has(j))
        refused.push({ word: j, program: `find ${words[i]?.value}`, language: 'argument' });
    i = end;
  }
  return refused;
}

/** `local`, `export` and `readonly`: a value as a name, or one that options turn into more than text. */
function declared(words: readonly Word[], from: number, program: string): Evaluated[] {
  const options = words
    .slice(from + 1)
    .some((word) => /^[-+]/.test(word.value) || /^[\0\x01]/.test(word.value));
  return words.flatMap((word, i): Evaluated[] => {
    if (i <= from || word.holes[1] === word.holes[0]) return [];
    const name = /^([A-Za-z_]\w*)\+?=/.exec(word.value)?.[1];
    if (name === undefined) return [{ word: i, program, language: 'name' }];
    const plain = !options || /^-[prgx]*$/.test(words[from + 1]?.value ?? '');
    return plain ? [] : [{ word: i, program, language: 'argument' }];
  });
}

/** Variables whose value a shell evaluates, or takes for a number, by itself. */
export const SPECIAL_VARIABLES: ReadonlySet<string> = new Set([
  'PS0',
  'PS1',
  'PS2',
  'PS3',
  'PS4',
  'PROMPT_COMMAND',
  'BASH_ENV',
  'ENV',
  'RANDOM',
  'SRANDOM',
  'SECONDS',
  'LINENO',
  'OPTIND',
  'HISTCMD',
  'EPOCHSECONDS',
  'EPOCHREALTIME',
  'BASH_ARGV0',
  'MAILPATH',
]);

/** Does this command read its program from standard input? In which language? */
export function readsProgram(command: Command): Language | undefined {
  const { words } = command;
  let from = 0;
  for (
    let name = programName(words[from]);
    name !== undefined && WRAPPERS[name] !== undefined;
    name = programName(words[from])
  ) {
    let left = WRAPPERS[name]?.operands ?? 0;
    from++;
    while (from < words.length) {
      const { value } = words[from] as Word;
      if (WRAPPERS[name]?.takes.test(value)) from += 2;
      else if (value.startsWith('-') || /^\w+=/.test(value) || left-- > 0) from++;
      else break;
    }
  }
  const name = programName(words[from]);
  if (name === undefined) return undefined;
  const rest = words.slice(from + 1).map((word) => word.value);
  if (name === 'su' || name === 'runuser')
    return rest.some((word) => /^(?:-\w*c|--command)/.test(word)) ? undefined : 'shell';
  if (name === 'ssh') return sshHasCommand(rest) ? undefined : 'shell';
  if (name === 'xargs')
    return /^(?:sh|bash|dash|ash)$/.test(rest.find((w) => !w.startsWith('-')) ?? '') ? 'shell' : undefined;
  if (name === 'source' || name === '.') return rest[0] === '/dev/stdin' ? 'shell' : undefined;
  if (name === 'm4' || name === 'dc' || name === 'parallel') return 'other';
  const interpreter = INTERPRETERS[name];
  if (interpreter === undefined) return hiddenReader(words, from);
  return fromStandardInput(rest, interpreter) ? interpreter.language : undefined;
}

/** `docker exec -i app sh`, `kubectl exec -i pod -- sh`: an interpreter as the last word. */
function hiddenReader(words: readonly Word[], from: number): Language | undefined {
  if (!/^(?:docker|podman|kubectl|oc|nerdctl|lxc|nsenter|crictl)$/.test(programName(words[from]) ?? ''))
    return undefined;
  const last = words.findIndex((word, i) => i > from && INTERPRETERS[programName(word) ?? ''] !== undefined);
  const interpreter = last < 0 ? undefined : INTERPRETERS[programName(words[last]) ?? ''];
  if (interpreter === undefined) return undefined;
  return fromStandardInput(
    words.slice(last + 1).map((word) => word.value),
    interpreter,
  )
    ? interpreter.language
    : undefined;
}

function fromStandardInput(rest: readonly string[], it: Interpreter): boolean {
  if (it.operand === 'code')
    return rest.some(
      (word, i) =>
        /^-f(?:-|\/dev\/stdin)$/.test(word) ||
        (word === '-f' && /^(?:-|\/dev\/stdin)$/.test(rest[i + 1] ?? '')),
    );
  if (rest.some((word) => it.code.test(word))) return false;
  for (let i = 0; i < rest.length; i++) {
    const word = rest[i] as string;
    if (word === '-' || word === '/dev/stdin') return true;
    if (it.language === 'shell' && /^-[a-z]*s/.test(word)) return true;
    if (it.language === 'python' && word === '-m') return false;
    if (it.takes?.test(word)) i++;
    else if (!/^[-+]/.test(word)) return false;
  }
  return true;
}

function sshHasCommand(rest: readonly string[]): boolean {
  let operandCount = 0;
  for (let i = 0; i < rest.length; i++) {
    if (/^-[a-zA-Z]*[BbcDEeFIiJLlmOoPpQRSWw]$/.test(rest[i] as string)) i++;
    else if (!(rest[i] as string).startsWith('-')) operandCount++;
  }
  return operandCount > 1;
}

export interface Piped {
  readonly holes: readonly [number, number];
  readonly program: string;
  readonly language: Language;
  /** The evaluated text, as far as it can be seen. */
  readonly text: string;
}

/** What stands in a heredoc of, or is piped into, a program that evaluates its standard input. */
export function pipedPrograms(stages: readonly Stage[]): readonly Piped[] {
  const piped: Piped[] = [];
  for (const [i, { command }] of stages.entries()) {
    const language = command === undefined ? undefined : readsProgram(command);
    if (command === undefined || language === undefined) continue;
    const program = command.words.find((word) => programName(word) !== undefined)?.value ?? 'a program';
    for (const { body } of command.heredocs)
      if (body !== undefined) piped.push({ holes: body.holes, program, language, text: body.value });
    for (const before of stages.slice(0, i)) {
      if (before.holes !== undefined) piped.push({ holes: before.holes, program, language, text: '' });
      for (const word of before.command?.words ?? [])
        piped.push({ holes: word.holes, program, language, text: word.value });
      for (const { body } of before.command?.heredocs ?? [])
        if (body !== undefined) piped.push({ holes: body.holes, program, language, text: body.value });
    }
  }
  return piped;
}
