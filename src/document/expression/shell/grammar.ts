import type { Scanner } from './scanner.ts';
import { type Command, type Heredoc, HOLE, type Stage } from './types.ts';
import { WordReader } from './words.ts';

interface Frame {
  readonly kind: '(' | '{' | 'if' | 'loop' | 'case';
  readonly from: number;
  readonly outer: Stage[];
  /** In a `case`: are patterns or commands next? */
  patterns: boolean;
}

/** `start`: a command may begin; `args`: inside a simple command; `tail`: behind a compound command. */
type State = 'start' | 'args' | 'tail';

interface Level {
  readonly frames: Frame[];
  stages: Stage[];
  command: Command | undefined;
  state: State;
}

const RESERVED =
  /(?:if|then|elif|else|fi|while|until|do|done|for|select|case|esac|function|time|coproc|!|\{|\}|\[\[)(?=[\s;&|<>()]|$)/y;
const REDIRECT = /(?:\d+|\{[A-Za-z_]\w*\})?(<<<|<<-|<<|<&|<>|<|>>|>&|>\||>)|(&>>?)/y;
const DECLARERS: ReadonlySet<string> = new Set(['declare', 'typeset', 'local', 'export', 'readonly']);

/**
 * Commands, as far as quoting asks for them: where a command begins, what is a `case` pattern, a `for` word, a
 * redirect or an assignment. Collects the simple commands by pipeline, for the rules about programs.
 */
export class Grammar extends WordReader {
  readonly pipelines: (readonly Stage[])[] = [];
  #level: Level = { frames: [], stages: [], command: undefined, state: 'start' };

  run(): void {
    const split = /[<>&|;$(]\\\n[<>&|;(){['"\0]/.exec(this.text);
    if (split !== null) this.unclear('a backslash and a line break stand inside an operator', split.index);
    this.commands(undefined);
    const ordered = this.holes.every((hole, i) => i === 0 || hole.at > (this.holes[i - 1]?.at ?? -1));
    if (!ordered || this.holes.length !== this.text.split(HOLE).length - 1)
      this.unclear('its parts cannot be told apart', 0);
  }

  protected inner(text: string, depth: number): Scanner {
    return new Grammar(text, this.shell, depth);
  }

  protected remember(): () => void {
    const { length } = this.pipelines;
    return () => {
      this.pipelines.length = length;
    };
  }

  protected commands(close: ')' | undefined): void {
    const outer = this.#level;
    this.#level = { frames: [], stages: [], command: undefined, state: 'start' };
    while (!this.#step(close)) {
      // Each step moves on by at least one character or throws.
    }
    this.#endPipeline();
    this.#level = outer;
  }

  /** True at the end of this list. */
  #step(close: ')' | undefined): boolean {
    this.skipBlanks();
    const level = this.#level;
    const c = this.peek();
    const top = level.frames.at(-1);
    if (c === undefined) {
      if (close !== undefined) this.unclear('a parenthesis is not closed');
      if (top !== undefined) this.unclear(`\`${top.kind === 'loop' ? 'do' : top.kind}\` is not closed`);
      if (this.pending.length > 0) this.unclear('a heredoc has no end');
      return true;
    }
    if (c === '\n') this.#newline();
    else if (c === '#') this.comment();
    else if (top?.kind === 'case' && top.patterns) this.#patterns(top);
    else if (c === ')') return this.#closeParenthesis(close);
    else if (!this.#operator(c, top)) this.#token(c);
    return false;
  }

  #newline(): void {
    this.at++;
    this.readHeredocs();
    // After `|`, `&&` and the like the command goes on; an ended pipeline there is an empty one and does no harm.
    if (this.#level.state !== 'start' || this.#level.command !== undefined) this.#endPipeline();
  }

  #operator(c: string, top: Frame | undefined): boolean {
    if (c === ';') {
      const found = this.match(/;;&|;&|;;|;/y)?.[0] ?? ';';
      this.at += found.length;
      this.#endPipeline();
      if (found !== ';') {
        if (top?.kind !== 'case') this.unclear(`\`${found}\` stands outside of a case`);
        else top.patterns = true;
      }
      return true;
    }
    // `&>` is one redirect in bash; elsewhere what follows its target is a command.
    if (c === '&' && (this.shell !== 'bash' || this.peek(1) !== '>')) {
      this.at += this.peek(1) === '&' ? 2 : 1;
      this.#endPipeline();
      return true;
    }
    if (c === '|') {
      const found = this.match(/\|\||\|&|\|/y)?.[0] ?? '|';
      this.at += found.length;
      if (found === '||') this.#endPipeline();
      else this.#endStage();
      return true;
    }
    return c === '(' && this.#openParenthesis();
  }

  #openParenthesis(): boolean {
    const level = this.#level;
    if (level.state === 'start') {
      const close = this.peek(1) === '(' ? this.arithmeticEnd(this.at + 2) : -1;
      if (close >= 0) {
        this.meetAll(close, 'arithmetic', 'arithmetic');
        level.state = 'tail';
        return true;
      }
      this.at++;
      this.#push('(');
      return true;
    }
    const definition = this.match(/\([ \t]*\)/y);
    if (level.state !== 'args' || level.command?.words.length !== 1 || definition === undefined)
      this.unclear('a parenthesis stands where none can be read');
    for (let i = level.command.words[0]?.holes[0] ?? 0; i < this.holes.length; i++) {
      const hole = this.holes[i];
      if (hole !== undefined) hole.place = 'name';
    }
    this.at += definition[0].length;
    level.command = undefined;
    level.state = 'start';
    return true;
  }

  #closeParenthesis(close: ')' | undefined): boolean {
    const { frames } = this.#level;
    if (frames.at(-1)?.kind === '(') {
      this.at++;
      this.#pop('(');
      return false;
    }
    if (close === undefined || frames.length > 0) this.unclear('a closing parenthesis stands alone');
    this.at++;
    return true;
  }

  #token(c: string): void {
    const level = this.#level;
    const redirect = this.match(REDIRECT);
    const operator = redirect?.[1] ?? redirect?.[2];
    const substitution =
      (operator === '<' || operator === '>') && this.text[this.at + (redirect?.[0].length ?? 0)] === '(';
    if (redirect !== undefined && operator !== undefined && !substitution) {
      this.at += redirect[0].length;
      // Behind a redirect reserved words are ordinary ones.
      if (level.state === 'start') level.command ??= { words: [], assignments: [], heredocs: [] };
      this.#redirect(operator);
      return;
    }
    if (level.state !== 'args') {
      const reserved = this.match(RESERVED)?.[0];
      // `a=b if` is a command called `if`: reserved words count only where nothing stands before them.
      if (reserved !== undefined && level.command === undefined) {
        this.at += reserved.length;
        this.#reserved(reserved);
        return;
      }
    }
    if (level.state === 'tail')
      this.unclear(`\`${c === HOLE ? 'an expression' : c}\` stands behind a closed command`);
    level.command ??= { words: [], assignments: [], heredocs: [] };
    if (level.state === 'start' && this.assignment(level.command)) return;
    const declares = DECLARERS.has(level.command.words[0]?.value ?? '');
    if (level.state === 'args' && declares && this.declaration(level.command)) return;
    const word = this.progress(() => this.word(level.state === 'start' ? 'command' : 'word'));
    level.command.words.push(word);
    level.state = 'args';
  }

  #redirect(operator: string): void {
    this.skipBlanks();
    if (operator !== '<<' && operator !== '<<-') {
      this.progress(() => this.word('redirect'));
      return;
    }
    const from = this.holes.length;
    const delimiter = this.progress(() =>
      this.refusing('heredoc-delimiter', () => this.word('heredoc-delimiter')),
    );
    const written = this.text.slice(delimiter.start, delimiter.end);
    if (this.holes.length > from || /[$`]/.test(written))
      this.unclear('the end mark of a heredoc has to be plain text', delimiter.start);
    const heredoc: Heredoc = {
      quoted: delimiter.quoted,
      delimiter,
      strip: operator === '<<-',
      body: undefined,
    };
    this.pending.push(heredoc);
    const level = this.#level;
    if (level.state === 'tail')
      level.stages.push({ command: { words: [], assignments: [], heredocs: [heredoc] } });
    else {
      level.command ??= { words: [], assignments: [], heredocs: [] };
      level.command.heredocs.push(heredoc);
    }
  }

  #reserved(word: string): void {
    const level = this.#level;
    switch (word) {
      case '!':
      case 'coproc':
        return;
      case 'time':
        this.skipBlanks();
        this.at += this.match(/-p(?=\s)/y)?.[0].length ?? 0;
        return;
      case 'if':
        this.#push('if');
        return;
      case 'then':
      case 'elif':
      case 'else':
        this.#inside('if', word);
        return;
      case 'do':
        this.#inside('loop', word);
        return;
      case 'fi':
        this.#pop('if');
        return;
      case 'while':
      case 'until':
        this.#push('loop');
        return;
      case 'done':
        this.#pop('loop');
        return;
      case '{':
        this.#push('{');
        return;
      case '}':
        this.#pop('{');
        return;
      case 'esac':
        this.#pop('case');
        return;
      case 'for':
      case 'select':
        this.#for();
        return;
      case 'case':
        this.#case();
        return;
      case '[[':
        this.#testBrackets();
        level.state = 'tail';
        return;
      default:
        this.skipBlanks();
        this.progress(() => this.word('name'));
        this.skipBlanks();
        this.at += this.match(/\([ \t]*\)/y)?.[0].length ?? 0;
        level.state = 'start';
    }
  }

  #inside(kind: Frame['kind'], word: string): void {
    if (this.#level.frames.at(-1)?.kind !== kind) this.unclear(`\`${word}\` stands alone`);
    this.#endPipeline();
  }

  #push(kind: Frame['kind']): void {
    const level = this.#level;
    if (level.frames.length > 200) this.unclear('it is nested too deeply');
    level.frames.push({ kind, from: this.holes.length, outer: level.stages, patterns: kind === 'case' });
    level.stages = [];
    level.command = undefined;
    level.state = 'start';
  }

  #pop(kind: Frame['kind']): void {
    const level = this.#level;
    this.#endPipeline();
    const frame = level.frames.pop();
    if (frame === undefined || frame.kind !== kind)
      this.unclear('a compound command is closed that was not opened');
    level.stages = frame.outer;
    level.stages.push({ holes: [frame.from, this.holes.length] });
    level.state = 'tail';
  }

  #endStage(): void {
    const level = this.#level;
    if (level.command !== undefined) level.stages.push({ command: level.command });
    level.command = undefined;
    level.state = 'start';
  }

  #endPipeline(): void {
    this.#endStage();
    if (this.#level.stages.length > 0) this.pipelines.push(this.#level.stages);
    this.#level.stages = [];
  }

  #for(): void {
    this.skipBlanks();
    this.#push('loop');
    if (this.peek() === '(' && this.peek(1) === '(') {
      const close = this.arithmeticEnd(this.at + 2);
      if (close < 0) this.unclear('`for ((` is not closed');
      this.meetAll(close, 'arithmetic', 'arithmetic');
      this.#level.state = 'tail';
      return;
    }
    this.progress(() => this.word('name'));
    this.skipBlanks(true);
    this.#level.state = 'tail';
    if (this.match(/in(?=[\s;]|$)/y) === undefined) return;
    this.at += 2;
    for (;;) {
      this.skipBlanks();
      const c = this.peek();
      if (c === undefined || c === '\n' || c === ';' || c === '#') return;
      this.progress(() => this.word('for-word'));
    }
  }

  #case(): void {
    this.skipBlanks();
    this.progress(() => this.word('case-subject'));
    this.skipBlanks(true);
    if (this.match(/in(?=\s|$)/y) === undefined) this.unclear('`in` is wanted behind `case`');
    this.at += 2;
    this.#push('case');
  }

  #patterns(frame: Frame): void {
    const reserved = this.match(/esac(?=[\s;&|<>()]|$)/y);
    if (reserved !== undefined) {
      this.at += reserved[0].length;
      this.#pop('case');
      return;
    }
    if (this.peek() === '(') this.at++;
    for (;;) {
      this.skipBlanks();
      this.progress(() => this.word('pattern'));
      this.skipBlanks();
      const c = this.peek();
      this.at++;
      if (c === ')') break;
      if (c !== '|') this.unclear('`)` is wanted behind a pattern');
    }
    frame.patterns = false;
    this.#level.state = 'start';
  }

  #testBrackets(): void {
    this.refusing('test-brackets', () => {
      for (;;) {
        this.skipBlanks(true);
        if (this.peek() === undefined) this.unclear('`[[` is not closed');
        if (this.match(/\]\](?=[\s;&|<>()]|$)/y) !== undefined) break;
        const word = this.word('test-brackets');
        if (word.end === word.start) this.at++;
      }
      this.at += 2;
    });
  }
}
