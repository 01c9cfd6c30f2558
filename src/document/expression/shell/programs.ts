import {
  EVALUATORS,
  INTERPRETERS,
  type Interpreter,
  isLiteral,
  programName,
  SPECIAL_VARIABLES,
  WRAPPERS,
} from './program-tables.ts';
import { HOLE, type Language, type Word } from './types.ts';

/** Words of a command whose text some program would evaluate. */
export interface Evaluated {
  /** Index in the command's words. */
  readonly word: number;
  readonly program: string;
  readonly language: Language;
  /** Only because the value could be taken for an option: `--` in front makes it an operand. */
  readonly option?: boolean;
}

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

const hasHole = (word: Word | undefined): boolean => word?.value.includes(HOLE) ?? false;
/** Could the value make an option of this word? */
const mayBeOption = (word: Word): boolean =>
  reaches(word) && (/^-*[\0\x01]/.test(word.value) || /^-+[\w-]*[\0\x01]/.test(word.value));
/** Does a value get into this word, if only through a substitution? */
const reaches = (word: Word): boolean => word.holes[1] > word.holes[0];

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
  if (reaches(word))
    return [
      { word: from, program: 'the command itself', language: hasHole(word) ? 'argument' : 'other' },
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
    if (word.value === '--') return refused;
    if (/^-v/.test(word.value)) {
      const name = word.value === '-v' ? i + 1 : i;
      if (hasHole(words[name])) refused.push({ word: name, program: 'printf -v', language: 'name' });
      i = name;
      continue;
    }
    if (mayBeOption(word)) refused.push({ word: i, program: 'printf', language: 'argument', option: true });
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
