import type { TextEdit } from '../../types.ts';
import { printExpression } from '../print.ts';
import { referencesOf } from '../references.ts';
import type { Expression, Template } from '../types.ts';
import { EnvironmentNames } from './environment.ts';
import { codeFor, quotedExpression, sedExpression, shellQuoting } from './languages.ts';
import type { ScriptInterpreter } from './shebang.ts';
import type { ScriptSource } from './source.ts';
import { ALLOWED, type Heredoc, HOLE, type Hole, type Quoting } from './types.ts';

export interface FixInput {
  readonly script: string;
  readonly template: Template;
  readonly source: ScriptSource;
  readonly holes: readonly Hole[];
  readonly interpreter: ScriptInterpreter;
  readonly env: Readonly<Record<string, string>>;
}

export interface Fixed {
  readonly edits: readonly TextEdit[];
  readonly addEnv: Readonly<Record<string, string>>;
  /** Which expressions it mends. */
  readonly fixed: ReadonlySet<number>;
}

/**
 * Moves refused values to the environment. What a shell evaluates gets a variable that already holds the value
 * quoted for a shell, so that one more reading gives the bytes back; awk, perl, python, node, ruby and php read
 * the variable themselves.
 */
export function fixScript(input: FixInput): Fixed | undefined {
  if (input.holes.every((hole) => ALLOWED.has(hole.place))) return undefined;
  const fixer = new Fixer(input);
  for (const hole of input.holes) if (!ALLOWED.has(hole.place)) fixer.mend(hole);
  return fixer.result();
}

/** Literal code, or a value that the outer shell puts in. */
type Piece = { readonly code: string } | { readonly variable: string };

class Fixer {
  readonly #input: FixInput;
  readonly #names: EnvironmentNames;
  readonly #edits: TextEdit[] = [];
  readonly #fixed = new Set<number>();
  readonly #heredocs = new Set<Heredoc>();
  readonly #options = new Set<number>();

  constructor(input: FixInput) {
    this.#input = input;
    this.#names = new EnvironmentNames(input.script, input.env);
  }

  result(): Fixed {
    const edits = [...this.#edits].sort((a, b) => a.span.start - b.span.start || a.span.end - b.span.end);
    return { edits, addEnv: this.#names.added, fixed: this.#fixed };
  }

  mend(hole: Hole): void {
    const done = this.#neighbour(hole) ?? this.#move(hole);
    if (done) this.#fixed.add(hole.index);
  }

  /** What is mended beside the expression, which stays. */
  #neighbour(hole: Hole): boolean | undefined {
    if (hole.place === 'after-backslash' || hole.place === 'after-dollar') {
      const under = hole.language === undefined ? (hole.under ?? 'word') : 'evaluated';
      const { under: _, ...bare } = hole;
      if (!ALLOWED.has(under) && !this.#move({ ...bare, place: under })) return false;
      if (hole.place === 'after-dollar') return this.#edit(hole.at - 1, hole.at - 1, '\\');
      return this.#edit(hole.at - 1, hole.at, '');
    }
    if (hole.place !== 'option' || hole.word === undefined) return undefined;
    // One `--` does for all that follow in the same command.
    const command = hole.command ?? hole.word;
    if (!this.#options.has(command)) this.#edit(hole.word, hole.word, '-- ');
    this.#options.add(command);
    return true;
  }

  #edit(start: number, end: number, text: string): true {
    const { source } = this.#input;
    this.#edits.push({ span: { start: source.offset(start), end: source.offset(end) }, text });
    return true;
  }

  #move(hole: Hole): boolean {
    // A backslash or dollar in front of what is refused for another reason: two mendings at once are a guess.
    if (
      hole.under !== undefined ||
      hole.place === 'unclear' ||
      hole.place === 'name' ||
      hole.place === 'heredoc-delimiter'
    )
      return false;
    const text = this.#replacement(hole);
    if (text === undefined || (hole.place === 'backticks' && text.includes('\\'))) return false;
    const span = this.#input.source.spans[hole.index];
    if (span === undefined) return false;
    this.#edits.push({ span, text });
    return true;
  }

  #replacement(hole: Hole): string | undefined {
    if (hole.place === 'interpreter') {
      const { interpreter, source } = this.#input;
      if (interpreter === 'other') return undefined;
      return codeFor(interpreter as 'python', source.text, hole.index, this.#plain(hole));
    }
    if (hole.language !== undefined && hole.language !== 'argument' && hole.language !== 'file')
      return this.#evaluated(hole);
    if (hole.place === 'evaluated' && hole.language === undefined) return undefined;
    if (hole.quoting === 'raw-heredoc') return this.#unquoted(hole, [{ variable: this.#plain(hole) }]);
    if (hole.place === 'test-brackets') return this.#tested(hole);
    if (hole.place === 'subscript' && hole.isMap) return `"\${${this.#plain(hole)}}"`;
    return written(hole.quoting, this.#plain(hole));
  }

  #expression(hole: Hole): string {
    return printExpression(this.#input.source.expressions[hole.index] as Expression);
  }

  #plain(hole: Hole): string {
    return this.#name(hole, '', this.#expression(hole));
  }

  #name(hole: Hole, suffix: string, expression: string): string {
    const [open, close] = this.#input.template.delimiters === 'dollar' ? ['${ ', ' }'] : ['{{ ', ' }}'];
    const reference = referencesOf(this.#input.source.expressions[hole.index] as Expression)[0];
    return this.#names.nameFor(
      `${reference?.path.at(-1) ?? 'value'}${suffix}`,
      `${open}${expression}${close}`,
    );
  }

  /** Inside `[[ ]]`: beside a comparison of numbers it becomes a number, behind `-v` a name. */
  #tested(hole: Hole): string | undefined {
    const { text } = this.#input.source;
    const [before, after] = [
      text.slice(Math.max(0, hole.at - 100), hole.at),
      text.slice(hole.at + 1, hole.at + 100),
    ];
    if (/-[vR]\s+["']?$/.test(before)) return named(hole.quoting, this.#plain(hole));
    const numeric =
      /-(?:eq|ne|lt|le|gt|ge)\s+["']?$/.test(before) || /^["']?\s+-(?:eq|ne|lt|le|gt|ge)\s/.test(after);
    return numeric ? number(hole.quoting, this.#plain(hole)) : written(hole.quoting, this.#plain(hole));
  }

  #evaluated(hole: Hole): string | undefined {
    const { language } = hole;
    if (language === 'arithmetic') return number(hole.quoting, this.#plain(hole));
    if (language === 'name') return named(hole.quoting, this.#plain(hole));
    const pieces = this.#pieces(hole);
    if (pieces === undefined) return undefined;
    if (hole.quoting !== 'raw-heredoc') return rendered(hole.quoting, pieces);
    const only = pieces.length === 1 ? pieces[0] : undefined;
    return only !== undefined && 'code' in only ? only.code : this.#unquoted(hole, pieces);
  }

  #pieces(hole: Hole): readonly Piece[] | undefined {
    const { language } = hole;
    const code = hole.code ?? { text: HOLE, nth: 0 };
    if (language === 'shell') return this.#shellPieces(hole, code);
    if (language === 'sed')
      return [
        { variable: this.#name(hole, '_SED', sedExpression(this.#expression(hole), code.text, code.nth)) },
      ];
    const inserted =
      language === undefined ? undefined : codeFor(language, code.text, code.nth, this.#plain(hole));
    return inserted === undefined ? undefined : [{ code: inserted }];
  }

  #shellPieces(
    hole: Hole,
    code: { readonly text: string; readonly nth: number },
  ): readonly Piece[] | undefined {
    const quoting = shellQuoting(code.text, code.nth);
    const around =
      quoting === 'bare' ? '' : quoting === 'double' ? '"' : quoting === 'single' ? "'" : undefined;
    if (around === undefined) return undefined;
    const variable = { variable: this.#name(hole, '_QUOTED', quotedExpression(this.#expression(hole))) };
    return around === '' ? [variable] : [{ code: around }, variable, { code: around }];
  }

  /** In a quoted heredoc nothing is put in: its end mark loses the quotes, and all else in it gets backslashes. */
  #unquoted(hole: Hole, pieces: readonly Piece[]): string | undefined {
    const { heredoc } = hole;
    if (heredoc?.body === undefined) return undefined;
    if (!this.#heredocs.has(heredoc)) {
      if (!/^[\w.+-]+$/.test(heredoc.delimiter.value)) return undefined;
      this.#heredocs.add(heredoc);
      this.#edit(heredoc.delimiter.start, heredoc.delimiter.end, heredoc.delimiter.value);
      const { text } = this.#input.source;
      for (let i = heredoc.body.start; i < heredoc.body.end; i++)
        if (text[i] === '$' || text[i] === '`' || text[i] === '\\') this.#edit(i, i, '\\');
    }
    return rendered('heredoc', pieces);
  }
}

/** The variable as exactly its value, in this quoting. */
function written(quoting: Quoting, name: string): string | undefined {
  if (quoting === 'arithmetic') return number(quoting, name);
  return rendered(quoting, [{ variable: name }]);
}

/** As a number: `printf %d` reads digits and evaluates nothing. */
function number(quoting: Quoting, name: string): string | undefined {
  const call = `$(printf %d "\${${name}}")`;
  if (quoting === 'bare') return `"${call}"`;
  if (quoting === 'single') return `'"${call}"'`;
  return quoting === 'double' || quoting === 'heredoc' || quoting === 'arithmetic' ? call : undefined;
}

/** As a name: cut off at the first character that no name has. */
function named(quoting: Quoting, name: string): string | undefined {
  const expansion = `\${${name}%%[!A-Za-z0-9_]*}`;
  if (quoting === 'bare') return `"${expansion}"`;
  if (quoting === 'single') return `'"${expansion}"'`;
  return quoting === 'double' ? expansion : undefined;
}

function rendered(quoting: Quoting, pieces: readonly Piece[]): string | undefined {
  if (quoting === 'bare')
    return pieces
      .map((p) => ('code' in p ? `'${p.code.replaceAll("'", "'\\''")}'` : `"\${${p.variable}}"`))
      .join('');
  if (quoting === 'single')
    return pieces
      .map((p) => ('code' in p ? p.code.replaceAll("'", "'\\''") : `'"\${${p.variable}}"'`))
      .join('');
  if (quoting === 'ansi')
    return pieces
      .map((p) => ('code' in p ? p.code.replace(/[\\']/g, '\\$&') : `'"\${${p.variable}}"$'`))
      .join('');
  if (quoting === 'double')
    return pieces
      .map((p) => ('code' in p ? p.code.replace(/[\\"$`]/g, '\\$&') : `\${${p.variable}}`))
      .join('');
  if (quoting === 'heredoc')
    return pieces
      .map((p) => ('code' in p ? p.code.replace(/[\\$`]/g, '\\$&') : `\${${p.variable}}`))
      .join('');
  return undefined;
}
