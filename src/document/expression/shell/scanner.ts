import { Cursor, DEEPEST } from './cursor.ts';
import { EXPANSION, HOLE, type Place, type Quoting, type Word } from './types.ts';

const META = new Set([' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')']);
/** How far an arithmetic expression or a subscript may reach. */
const FARTHEST = 4000;

/** Words, quotes and expansions. What commands are is the grammar's business, which extends this. */
export abstract class Scanner extends Cursor {
  /** Inside the body of a heredoc, outside of substitutions in it. */
  #heredoc = false;
  readonly #decisions = new Map<string, number>();

  /** Reads commands up to the closing parenthesis, or to the end. */
  protected abstract commands(close: ')' | undefined): void;
  /** A reader of the same kind for text taken out of this one (backticks). */
  protected abstract inner(text: string, depth: number): Scanner;
  abstract run(): void;
  /** Notes what the grammar has collected; the result takes it back to that. */
  protected abstract remember(): () => void;

  /** One word from here; `place` is what an unquoted expression in it counts as. Empty at an operator. */
  protected word(place: Place, variable?: string): Word {
    const before = [this.currentPlace, this.currentVariable] as const;
    this.currentPlace = place;
    this.currentVariable = variable;
    const [start, from] = [this.at, this.holes.length];
    let value = '';
    let quoted = false;
    for (let c = this.peek(); c !== undefined; c = this.peek()) {
      if (META.has(c) && !this.#joinsWord(c, start)) break;
      if (c === "'" || c === '"' || c === '\\') quoted = true;
      value += this.#piece(c);
    }
    [this.currentPlace, this.currentVariable] = before;
    return { start, end: this.at, value, quoted, holes: [from, this.holes.length] };
  }

  /** `<(…)`, `>(…)` and `@(…)` are parts of words. */
  #joinsWord(c: string, start: number): boolean {
    if ((c === '<' || c === '>') && this.peek(1) === '(') return true;
    // `a+()` defines a function.
    if (c !== '(' || this.at === start || this.shell === 'dash' || this.match(/\([ \t]*\)/y) !== undefined)
      return false;
    const previous = this.text[this.at - 1] as string;
    return '?*+@!'.includes(previous) && (this.at - 1 === start || this.text[this.at - 2] !== '\\');
  }

  #piece(c: string): string {
    if (c === HOLE) {
      this.meet('bare', this.currentPlace);
      return HOLE;
    }
    if (c === '\\') return this.#backslash();
    if (c === "'") return this.#single();
    if (c === '"') return this.#double('double-quotes');
    if (c === '$') return this.#dollar(false);
    if (c === '`') return this.#backtick(false);
    if (c === '<' || c === '>') {
      this.at += 2;
      this.#substitution();
      return EXPANSION;
    }
    if (c === '(') return this.#group();
    this.at++;
    return c;
  }

  #backslash(): string {
    const next = this.peek(1);
    this.at++;
    if (next === undefined) return '\\';
    if (next === HOLE) {
      this.meet('bare', 'after-backslash');
      return HOLE;
    }
    this.at++;
    return next === '\n' ? '' : next;
  }

  #single(): string {
    const close = this.text.indexOf("'", this.at + 1);
    if (close < 0 || close >= this.end) this.unclear('a single quote is not closed');
    const value = this.text.slice(this.at + 1, close);
    this.meetAll(close + 1, 'single', 'single-quotes');
    return value;
  }

  /** From a double quote past the closing one. */
  #double(place: Place): string {
    const start = this.at++;
    const value = this.#quotedText(
      '"',
      'double',
      ALLOWED_WORDS.has(this.currentPlace) ? place : this.currentPlace,
    );
    if (this.peek() !== '"') this.unclear('a double quote is not closed', start);
    this.at++;
    return value;
  }

  /** Text in which `$`, backticks and some backslashes count: double quotes and bodies of heredocs. */
  #quotedText(close: string | undefined, quoting: Quoting, place: Place): string {
    let value = '';
    for (let c = this.peek(); c !== undefined && c !== close; c = this.peek()) {
      if (c === HOLE) {
        this.meet(quoting, place);
        value += HOLE;
      } else if (c === '\\') value += this.#quotedBackslash(quoting, close);
      else if (c === '$') value += this.#dollar(true);
      else if (c === '`') value += this.#backtick(true);
      else {
        value += c;
        this.at++;
      }
    }
    return value;
  }

  #quotedBackslash(quoting: Quoting, close: string | undefined): string {
    const next = this.peek(1);
    this.at++;
    if (next === HOLE) {
      this.meet(quoting, 'after-backslash');
      return HOLE;
    }
    if (
      next === undefined ||
      !(next === '$' || next === '`' || next === '\\' || next === '\n' || next === close)
    )
      return '\\';
    this.at++;
    return next === '\n' ? '' : next;
  }

  /** The body of an unquoted heredoc, which ends at `end`. */
  protected heredocBody(end: number): string {
    const before = [this.end, this.#heredoc] as const;
    [this.end, this.#heredoc] = [end, true];
    const value = this.#quotedText(undefined, 'heredoc', 'heredoc');
    [this.end, this.#heredoc] = before;
    return value;
  }

  #dollar(quoted: boolean): string {
    const next = this.peek(1);
    if (next === HOLE) {
      this.at++;
      this.meet(quoted ? 'double' : 'bare', 'after-dollar');
      return `$${HOLE}`;
    }
    if (next === '(') {
      const close = this.peek(2) === '(' ? this.arithmeticEnd(this.at + 3) : -1;
      if (close >= 0) this.meetAll(close, 'arithmetic', 'arithmetic');
      else {
        this.at += 2;
        this.#substitution();
      }
      return EXPANSION;
    }
    if (next === '{') return this.#parameter(quoted);
    if (next === '[' && this.shell !== 'dash') return this.#oldArithmetic();
    if (next === "'" && !quoted) return this.#ansi();
    if (next === '"' && !quoted) {
      this.at++;
      this.refusing('locale-quotes', () => this.#double('locale-quotes'));
      return EXPANSION;
    }
    const name = this.match(/\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])/y);
    this.at += name?.[0].length ?? 1;
    return name === undefined ? '$' : EXPANSION;
  }

  /** `$[ … ]` of bash, where it is one. */
  #oldArithmetic(): string {
    const close = this.closingBracket(this.at + 1);
    if (close < 0) this.unclear('`$[` is not closed');
    // A shell that does not know `$[` reads what is inside as ordinary text.
    if (this.shell !== 'bash' && /[`'";|&<>()#\n]/.test(this.text.slice(this.at, close)))
      this.unclear('`$[` means different things in different shells');
    this.meetAll(close + 1, 'arithmetic', 'arithmetic');
    return EXPANSION;
  }

  /** `$'…'`: bash and ash know it; in dash it is a dollar and single quotes, so both readings must end alike. */
  #ansi(): string {
    const start = this.at;
    let close = this.at + 2;
    while (close < this.end && this.text[close] !== "'") close += this.text[close] === '\\' ? 2 : 1;
    if (close >= this.end) this.unclear("a $' quote is not closed");
    const knows = this.shell === 'bash' || this.shell === 'ash';
    if (!knows && this.text.slice(start, close).includes("\\'"))
      this.unclear("`\\'` inside $'…' means different things in different shells");
    const value = this.text.slice(start + 2, close);
    this.meetAll(close + 1, 'ansi', 'ansi-quotes');
    return value;
  }

  /** After `$(`, `<(` or `>(`: commands of their own, up to the closing parenthesis. */
  #substitution(): void {
    const start = this.at;
    const before = [this.currentPlace, this.currentVariable, this.pending, this.#heredoc] as const;
    this.pending = [];
    this.#heredoc = false;
    this.currentVariable = undefined;
    this.deeper(() => this.commands(')'));
    if (this.pending.length > 0) this.unclear('a heredoc begins in a substitution and does not end in it');
    [this.currentPlace, this.currentVariable, this.pending, this.#heredoc] = before;
    // Shells differ in where the body of a heredoc begins that was announced before this substitution.
    if (this.pending.length > 0 && this.text.slice(start, this.at).includes('\n'))
      this.unclear('a substitution of several lines stands behind the beginning of a heredoc', start);
  }

  #group(): string {
    return this.refusing('pattern', () =>
      this.deeper(() => {
        let value = '(';
        this.at++;
        for (let c = this.peek(); c !== ')'; c = this.peek()) {
          if (c === undefined || c === '\n') this.unclear('a parenthesis is not closed');
          value += c === '(' ? this.#group() : META.has(c) ? c : this.#piece(c);
          if (META.has(c) && c !== '(') this.at++;
        }
        this.at++;
        return `${value})`;
      }),
    );
  }

  /** Backticks: always refused; the text inside is read as well, to know its quoting for the fix. */
  #backtick(quoted: boolean): string {
    let close = this.at + 1;
    let inside = '';
    while (close < this.end && this.text[close] !== '`') {
      const [c, next] = [this.text[close] as string, this.text[close + 1]];
      const skips = c === '\\' && (next === '`' || next === '\\' || next === '$' || (quoted && next === '"'));
      if (skips) close++;
      inside += this.text[close] as string;
      close++;
    }
    if (close >= this.end) this.unclear('a backtick is not closed');
    const quotings = inside.includes(HOLE) ? this.#quotingsInside(inside) : [];
    this.at++;
    for (const quoting of quotings) {
      const next = this.nextHole(close);
      if (next < 0) break;
      this.at = next;
      this.meet(quoting, 'backticks');
    }
    this.meetAll(close + 1, 'bare', 'backticks');
    return EXPANSION;
  }

  #quotingsInside(text: string): readonly Quoting[] {
    const scanner = this.inner(text, this.depth + 1);
    if (this.depth >= DEEPEST) this.unclear('it is nested too deeply');
    scanner.run();
    return scanner.holes.map((hole) => hole.quoting);
  }

  /** `${…}`: whatever stands inside is refused; quotes inside are followed to find its end. */
  #parameter(quoted: boolean): string {
    const start = this.at;
    this.at += 2;
    this.refusing('parameter-expansion', () =>
      this.deeper(() => {
        const head = this.match(/[!#]?(?:[A-Za-z_]\w*|\d+|[@*#?$!-])?/y);
        this.at += head?.[0].length ?? 0;
        if (this.peek() === '[') {
          const close = this.closingBracket(this.at);
          if (close < 0) this.unclear('a subscript is not closed');
          this.currentVariable = head?.[0];
          this.meetAll(close + 1, 'arithmetic', 'subscript');
          this.currentVariable = undefined;
        }
        const operator = this.match(/:?[-=?+]|[:#%/^,@]/y)?.[0] ?? '';
        this.at += operator.length;
        this.#parameterWord(quoted, operator, start);
      }),
    );
    return EXPANSION;
  }

  #parameterWord(quoted: boolean, operator: string, start: number): void {
    const fallback = /^:?[-=?+]$/.test(operator);
    const quoting: Quoting = operator === ':' ? 'arithmetic' : quoted && fallback ? 'double' : 'bare';
    for (let c = this.peek(); c !== '}'; c = this.peek()) {
      if (c === undefined) this.unclear('`${` is not closed', start);
      if (c === HOLE) this.meet(quoting, 'parameter-expansion');
      else if (quoted && (c === "'" || (c === '"' && this.#heredoc))) this.#eitherWay(c);
      else if (c === '$') this.#dollar(quoted && fallback);
      else if ('\\\'"`'.includes(c)) this.#piece(c);
      else this.at++;
    }
    this.at++;
  }

  /** Quotes of which shells differ whether they count here: read only where both readings end in the same place. */
  #eitherWay(quote: string): void {
    const close = this.text.indexOf(quote, this.at + 1);
    const inside = close < 0 || close >= this.end ? '}' : this.text.slice(this.at + 1, close);
    if (/[}"'`$\\]/.test(inside))
      this.unclear('quotes inside `${…}` mean different things in different shells');
    this.meetAll(close + 1, 'double', 'parameter-expansion');
  }

  /**
   * Where `((`'s arithmetic ends (after `))`), or -1 when it is a subshell in a subshell. `from` is after `((`.
   * Read by the same rules as all else, so that no quote or substitution inside can hide the true end.
   */
  protected arithmeticEnd(from: number): number {
    return this.#decide(from, 'arithmetic', () => {
      let depth = 0;
      for (let c = this.peek(); this.at - from < FARTHEST; c = this.peek()) {
        if (c === undefined) break;
        if (c === '(') depth++;
        else if (c === ')' && depth-- === 0) return this.peek(1) === ')' ? this.at + 2 : -1;
        this.#over(c);
      }
      return this.unclear('`((` is not closed', from);
    });
  }

  /** The `]` that belongs to the `[` at `from`, or -1 when none is there. */
  protected closingBracket(from: number): number {
    return this.#decide(from, 'bracket', () => {
      let depth = 0;
      for (let c = this.peek(); c !== undefined; c = this.peek()) {
        if (this.at - from > FARTHEST || (c === '\n' && this.shell !== 'dash'))
          this.unclear('`[` is not closed', from);
        if (c === '[') depth++;
        else if (c === ']' && --depth === 0) return this.at;
        this.#over(c);
      }
      return -1;
    });
  }

  #over(c: string): void {
    if ('\'"`$\\'.includes(c) || c === HOLE) this.#piece(c);
    else this.at++;
  }

  /** Reads ahead and forgets what was met; what was decided at a place is kept, since nesting asks again. */
  #decide(from: number, kind: string, read: () => number): number {
    const key = `${kind} ${from}`;
    const known = this.#decisions.get(key);
    if (known !== undefined) return known;
    const before = [this.at, this.holes.length, this.count, this.pending] as const;
    const forget = this.remember();
    this.at = from;
    this.pending = [];
    const decided = this.deeper(read);
    forget();
    this.holes.length = before[1];
    [this.at, , this.count, this.pending] = before;
    this.#decisions.set(key, decided);
    return decided;
  }
}

const ALLOWED_WORDS: ReadonlySet<Place> = new Set<Place>(['word', 'assignment', 'for-word', 'case-subject']);
