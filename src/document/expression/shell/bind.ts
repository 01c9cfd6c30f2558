import type { Span, TextEdit } from '../../types.ts';
import { printExpression } from '../print.ts';
import { parseTemplate } from '../template.ts';
import type { Expression, ExpressionFinding, ParseOptions, Template, TemplatePart } from '../types.ts';
import { fixScript } from './fix.ts';
import { Grammar } from './grammar.ts';
import { describePlace } from './places.ts';
import { evaluatedWords, pipedPrograms, SPECIAL_VARIABLES } from './programs.ts';
import { type ScriptInterpreter, shellOf } from './shebang.ts';
import { ALLOWED, type Command, HOLE, type Hole, type Shell, Unclear } from './types.ts';

export interface Binding {
  /** A plain shell variable, not exported. */
  readonly variable: string;
  /** One expression. Evaluate it, `stringify` the value, and give the text to `renderPrologue`. */
  readonly template: Template;
  /** Programs outside of the shell that get it as an argument, where the kernel's 128 KiB hold. */
  readonly argumentOf: readonly string[];
}

export interface ScriptFinding extends ExpressionFinding {
  /** True when `fix` of the script takes it away. */
  readonly fixable: boolean;
}

/** What `--fix` does: values move to variables of the step's `env:`. */
export interface ScriptFix {
  /** Replacements in the script's text (the text that `bindScript` got), sorted, not overlapping. */
  readonly replaceInScript: readonly TextEdit[];
  /** Entries for the step's `env:`: name to template text. */
  readonly addEnv: Readonly<Record<string, string>>;
}

export interface BoundScript {
  /** Who reads it; `other` is a program whose quoting is not known. */
  readonly interpreter: ScriptInterpreter;
  /** The first line with its line break when it is a `#!` line, else empty. */
  readonly shebang: string;
  /** The script without that line, each expression a plain shell variable. Refused ones stay as written. */
  readonly body: string;
  readonly bindings: readonly Binding[];
  /** Places only; names and syntax are `checkTemplate`'s. An error here means: do not run this. */
  readonly findings: readonly ScriptFinding[];
  /** All that can be mended, at once. */
  readonly fix?: ScriptFix;
}

export interface BindOptions extends ParseOptions {
  /** What `shell:` of the step says; a `#!` line says it too and wins. Default `sh`. */
  readonly shell?: string;
  /** Names that are taken in the step's `env:`, with their templates; the fix reuses equal ones. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Longer scripts with expressions in them are refused: reading them must never take long. */
const LONGEST_SCRIPT = 256 * 1024;

/**
 * Takes the expressions out of a script: each becomes a plain shell variable where the shell will take it for
 * exactly one value, and is refused everywhere else (docs/bundle.md, "Expressions", rule 3). The quoting is all
 * that is decided here: should a script be misread, a value arrives in wrong pieces and is still never run.
 * Never throws.
 */
export function bindScript(script: string, options: BindOptions = {}): BoundScript {
  const template = parseTemplate(script, options);
  const source = sourceOf(template);
  const { interpreter, shebang } = shellOf(source.text, options.shell);
  const shell: Shell | undefined = isShell(interpreter) ? interpreter : undefined;
  const holes = placesOf(source, shell);
  const prefix = freePrefix(script);
  const names = new Map<string, { variable: string; template: Template; argumentOf: Set<string> }>();
  const nameOf = (index: number): string => {
    const expression = source.expressions[index] as Expression;
    const printed = printExpression(expression);
    const found = names.get(printed) ?? {
      variable: `${prefix}${names.size + 1}`,
      template: single(printed, template),
      argumentOf: new Set<string>(),
    };
    names.set(printed, found);
    for (const program of source.programs.get(index) ?? []) found.argumentOf.add(program);
    return found.variable;
  };
  const pieces = source.text.split(HOLE);
  const body = pieces
    .map((piece, i) => {
      const hole = holes[i];
      if (hole === undefined) return piece;
      return (
        piece +
        (ALLOWED.has(hole.place) && hole.place !== 'comment' ? reference(hole, nameOf(i)) : source.written(i))
      );
    })
    .join('')
    .slice(shebang.length);
  const fix = fixScript({ script, template, source, holes, interpreter, env: options.env ?? {} });
  const findings = holes.flatMap((hole) =>
    findingOf(hole, source, interpreter, fix?.fixed.has(hole.index) ?? false),
  );
  return {
    interpreter,
    shebang,
    body,
    bindings: [...names.values()].map((b) => ({
      variable: b.variable,
      template: b.template,
      argumentOf: [...b.argumentOf],
    })),
    findings: source.problem === undefined ? findings : [source.problem, ...findings],
    ...(fix === undefined || fix.fixed.size === 0
      ? {}
      : { fix: { replaceInScript: fix.edits, addEnv: fix.addEnv } }),
  };
}

function isShell(interpreter: ScriptInterpreter): interpreter is Shell {
  return interpreter === 'sh' || interpreter === 'dash' || interpreter === 'bash' || interpreter === 'ash';
}

/** How the variable is written where the expression stood: never split, never matched against file names. */
function reference(hole: Hole, variable: string): string {
  return hole.quoting === 'bare' ? `"\${${variable}}"` : `\${${variable}}`;
}

function single(printed: string, template: Template): Template {
  const [open, close] = template.delimiters === 'dollar' ? ['${ ', ' }'] : ['{{ ', ' }}'];
  return parseTemplate(`${open}${printed}${close}`, {
    delimiters: template.delimiters,
    known: template.known,
  });
}

function freePrefix(script: string): string {
  let prefix = '_skycap_';
  while (script.includes(prefix)) prefix += 'x_';
  return prefix;
}

/** A script with a NUL for each expression, and the way back. */
export interface ScriptSource {
  readonly text: string;
  readonly expressions: readonly Expression[];
  readonly spans: readonly Span[];
  /** The expression as written, on one line. */
  written(index: number): string;
  /** Programs that get the value as an argument, by expression. */
  readonly programs: Map<number, Set<string>>;
  problem?: ScriptFinding;
}

function sourceOf(template: Template): ScriptSource {
  const expressions: Expression[] = [];
  const spans: Span[] = [];
  let text = '';
  let problem: ScriptFinding | undefined;
  for (const part of template.parts) {
    const nul = part.kind === 'text' ? part.text.indexOf(HOLE) : -1;
    if (nul >= 0) problem = nulFinding(part, nul);
    if (part.kind === 'text') text += part.text.replaceAll(HOLE, '');
    else if (part.kind === 'invalid')
      text += template.source.slice(part.span.start, part.span.end).replaceAll(HOLE, '');
    else {
      text += HOLE;
      expressions.push(part.expression);
      spans.push(part.span);
    }
  }
  const written = (index: number): string => {
    const span = spans[index] as Span;
    return template.source.slice(span.start, span.end).replace(/[\r\n]/g, ' ');
  };
  return {
    text,
    expressions,
    spans,
    written,
    programs: new Map(),
    ...(problem === undefined ? {} : { problem }),
  };
}

function nulFinding(part: TemplatePart, offset: number): ScriptFinding {
  const at = part.span.start + offset;
  return {
    severity: 'error',
    code: 'script-nul',
    message: 'the script holds a NUL byte, which no shell can read',
    span: { start: at, end: at + 1 },
    fixable: false,
  };
}

/** Where each expression stands; the list is in their order. */
function placesOf(source: ScriptSource, shell: Shell | undefined): readonly Hole[] {
  const all = (place: Hole['place'], program?: string): Hole[] =>
    source.expressions.map((_, index) => ({
      index,
      at: 0,
      place,
      quoting: 'bare',
      ...(program === undefined ? {} : { program }),
    }));
  if (source.expressions.length === 0) return [];
  if (shell === undefined) return all('interpreter');
  if (source.text.length > LONGEST_SCRIPT)
    return all('unclear', `it is longer than ${LONGEST_SCRIPT / 1024} KiB`);
  const grammar = new Grammar(source.text, shell);
  try {
    grammar.run();
  } catch (error) {
    if (error instanceof Unclear) return all('unclear', error.message);
    throw error;
  }
  refuseEvaluated(grammar, source);
  return grammar.holes;
}

function refuseEvaluated(grammar: Grammar, source: ScriptSource): void {
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
    const seen = new Set<number>();
    for (const { word, program, language, option } of evaluatedWords(words)) {
      const found = words[word];
      if (found === undefined || word < shift) continue;
      seen.add(word);
      refuse(found.holes, { place: option ? 'option' : 'evaluated', program, language });
    }
    if (seen.size === 0) noteArguments(command, holes, source);
  }
  for (const stages of grammar.pipelines)
    for (const { holes: range, program, language } of pipedPrograms(stages))
      refuse(range, { place: 'evaluated', program, language });
  refuseSpecial(commands, refuse);
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

function findingOf(
  hole: Hole,
  source: ScriptSource,
  interpreter: ScriptInterpreter,
  fixable: boolean,
): ScriptFinding[] {
  if (ALLOWED.has(hole.place)) return [];
  const { message, hint } = describePlace(hole, interpreter);
  return [
    {
      severity: 'error',
      code: 'expression-place',
      message,
      hint,
      span: source.spans[hole.index] as Span,
      fixable,
    },
  ];
}
