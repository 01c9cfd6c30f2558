import type { Span, TextEdit } from '../../types.ts';
import { printExpression } from '../print.ts';
import { parseTemplate } from '../template.ts';
import type { Expression, ExpressionFinding, ParseOptions, Template } from '../types.ts';
import { fixScript } from './fix.ts';
import { Grammar } from './grammar.ts';
import { describePlace } from './places.ts';
import { refuseEvaluated } from './refuse.ts';
import { type ScriptInterpreter, shellOf } from './shebang.ts';
import { type ScriptSource, sourceOf } from './source.ts';
import { ALLOWED, HOLE, type Hole, type Shell, Unclear } from './types.ts';

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
