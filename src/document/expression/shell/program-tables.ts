import { EXPANSION, HOLE, type Language, type Word } from './types.ts';

export interface Interpreter {
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

export const INTERPRETERS: Readonly<Record<string, Interpreter>> = {
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
export const EVALUATORS: Readonly<Record<string, Language>> = {
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
export const WRAPPERS: Readonly<Record<string, { readonly takes: RegExp; readonly operands: number }>> = {
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

export const isLiteral = (word: Word | undefined): boolean =>
  word !== undefined && !word.value.includes(EXPANSION) && !word.value.includes(HOLE);

/** The bare name of a program, versions and other names set aside; undefined when it is not plain text. */
export function programName(word: Word | undefined): string | undefined {
  if (word === undefined || !isLiteral(word)) return undefined;
  const base = word.value.slice(word.value.lastIndexOf('/') + 1);
  return /^python[\d.]*$/.test(base) ? 'python' : (ALIASES[base] ?? base);
}
