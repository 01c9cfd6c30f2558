import type { Grammar } from './grammar.ts';
import { pipedPrograms } from './piped.ts';
import { SPECIAL_VARIABLES } from './program-tables.ts';
import { evaluatedWords } from './programs.ts';
import type { ScriptSource } from './source.ts';
import { ALLOWED, type Command, type Heredoc, HOLE, type Hole } from './types.ts';

/** Turns places into refusals where a program, or the shell itself, would evaluate the value. */
export function refuseEvaluated(grammar: Grammar, source: ScriptSource): void {
  const { holes } = grammar;
  const refuse = ([from, to]: readonly [number, number], change: Partial<Hole>): void => {
    for (const hole of holes.slice(from, to)) {
      // A first reason stays, and a value inside quotes that were refused keeps the language for its fix.
      if (hole.place === 'comment') continue;
      const place = ALLOWED.has(hole.place)
        ? change.place
        : hole.place === 'option'
          ? 'evaluated'
          : hole.place;
      Object.assign(hole, change, { place });
    }
  };
  const commands = grammar.pipelines.flat().flatMap((stage) => stage.command ?? []);
  const aliases = aliasesOf(commands);
  for (const command of commands) {
    const words = withAlias(command, aliases);
    const shift = words.length - command.words.length;
    const name = command.words[0];
    // What a substitution gives is run when it stands in the place of a command.
    for (const hole of holes.slice(...(name?.holes ?? [0, 0])))
      if (ALLOWED.has(hole.place) && hole.place !== 'comment')
        Object.assign(hole, { place: 'evaluated', program: 'the shell, as a command,', language: 'other' });
    const seen = new Set<number>();
    for (const { word, program, language, option } of evaluatedWords(words)) {
      const found = words[word];
      if (found === undefined || word < shift) continue;
      seen.add(word);
      refuse(found.holes, {
        place: option ? 'option' : 'evaluated',
        program,
        language,
        word: found.start,
        command: words[0]?.start ?? 0,
      });
      noteCode(holes.slice(...found.holes), found.value);
    }
    if (seen.size === 0) noteArguments(command, holes, source);
  }
  for (const { heredocs } of commands) for (const heredoc of heredocs) noteHeredoc(heredoc, holes);
  for (const stages of grammar.pipelines)
    for (const { holes: range, program, language, text } of pipedPrograms(stages)) {
      refuse(range, { place: 'evaluated', program, language });
      noteCode(holes.slice(...range), text);
    }
  noteMaps(commands, holes);
  refuseSpecial(commands, refuse);
}

function noteHeredoc(heredoc: Heredoc, holes: readonly Hole[]): void {
  if (heredoc.quoted && heredoc.body !== undefined)
    for (const hole of holes.slice(...heredoc.body.holes)) hole.heredoc = heredoc;
}

/** Which hole of the evaluated text each one is; those in substitutions inside of it are not to be seen there. */
function noteCode(holes: readonly Hole[], text: string): void {
  if (text.split(HOLE).length - 1 !== holes.length) return;
  for (const [nth, hole] of holes.entries()) hole.code = { text, nth };
}

function noteMaps(commands: readonly Command[], holes: readonly Hole[]): void {
  const maps = new Set<string>();
  for (const { words } of commands) {
    if (!/^(?:declare|typeset|local|readonly)$/.test(words[0]?.value ?? '')) continue;
    if (words.some((word) => /^-[A-Za-z]*A/.test(word.value)))
      for (const word of words.slice(1)) maps.add(/^\w+/.exec(word.value)?.[0] ?? '');
  }
  for (const hole of holes)
    if (hole.place === 'subscript' && maps.has(hole.variable ?? '')) hole.isMap = true;
}

/** Assignments that a shell evaluates: to its own special variables, and to those declared as numbers. */
function refuseSpecial(
  commands: readonly Command[],
  refuse: (range: readonly [number, number], change: Partial<Hole>) => void,
): void {
  const numbers = new Set<string>();
  let any = false;
  for (const { words } of commands) {
    if (!/^(?:declare|typeset|local|export|readonly)$/.test(words[0]?.value ?? '')) continue;
    if (!words.some((word, i) => i > 0 && /^[-+][A-Za-z]*[in]/.test(word.value))) continue;
    for (const word of words.slice(1)) {
      const name = /^[A-Za-z_]\w*/.exec(word.value)?.[0];
      if (name !== undefined) numbers.add(name);
      else if (!/^[-+]/.test(word.value)) any = true;
    }
  }
  for (const { assignments } of commands)
    for (const { name, word } of assignments) {
      if (any || numbers.has(name))
        refuse(word.holes, {
          place: 'evaluated',
          program: `${name}=, which is declared as a number or reference`,
          language: 'arithmetic',
        });
      else if (SPECIAL_VARIABLES.has(name))
        refuse(word.holes, { place: 'evaluated', program: `${name}=`, language: 'other' });
    }
}

function aliasesOf(commands: readonly Command[]): ReadonlyMap<string, string> {
  const aliases = new Map<string, string>();
  for (const { words } of commands) {
    if (words[0]?.value !== 'alias') continue;
    for (const word of words.slice(1)) {
      const match = /^([^=\s]+)=\s*(.*)$/s.exec(word.value);
      if (match !== null) aliases.set(match[1] as string, match[2] as string);
    }
  }
  return aliases;
}

function withAlias(command: Command, aliases: ReadonlyMap<string, string>): Command['words'] {
  const first = command.words[0];
  const alias = first === undefined ? undefined : aliases.get(first.value);
  if (first === undefined || alias === undefined) return command.words;
  const words = alias
    .split(/\s+/)
    .filter((word) => word !== '')
    .map((value) => ({ ...first, value, holes: [0, 0] as const }));
  return [...words, ...command.words.slice(1)];
}

const BUILTINS = new Set([
  'echo',
  'printf',
  'test',
  '[',
  'export',
  'local',
  'readonly',
  'set',
  'cd',
  'return',
  'exit',
  'shift',
  ':',
  'true',
  'false',
  'pwd',
  'wait',
  'kill',
  'umask',
  'break',
  'continue',
  'type',
  'hash',
]);

function noteArguments(command: Command, holes: readonly Hole[], source: ScriptSource): void {
  const name = command.words[0]?.value ?? '';
  if (BUILTINS.has(name)) return;
  for (const word of command.words.slice(1))
    for (const hole of holes.slice(...word.holes)) {
      const programs = source.programs.get(hole.index) ?? new Set<string>();
      source.programs.set(hole.index, programs.add(/^[\w./+-]+$/.test(name) ? name : 'a program'));
    }
}
