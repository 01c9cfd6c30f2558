import {
  EXPANSION,
  type Heredoc,
  HOLE,
  type Hole,
  type Place,
  type Quoting,
  type Shell,
  Unclear,
  type Word,
} from './types.ts';

const META = new Set([' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')']);
const DEEPEST = 60;
/** How far an arithmetic expression or a subscript may reach. */
const FARTHEST = 4000;

/** Words, quotes and expansions. What commands are is the grammar's business, which extends this. */
export abstract class Scanner {
  readonly holes: Hole[] = [];
  protected readonly text: string;
  protected readonly shell: Shell;
  protected at = 0;
  protected end: number;
  protected pending: Heredoc[] = [];
  #refusing: Place | undefined;
  #place: Place = 'word';
  #variable: string | undefined;
  /** Inside the body of a heredoc, outside of substitutions in it. */
  #heredoc = false;
  #depth: number;
  #count = 0;

  constructor(text: string, shell: Shell, depth = 0) {
    this.text = text;
    this.end = text.length;
    this.shell = shell;
    this.#depth = depth;
  }

  /** Reads commands up to the closing parenthesis, or to the end. */
  protected abstract commands(close: ')' | undefined): void;
  /** A reader of the same kind for text taken out of this one (backticks). */
  protected abstract inner(text: string, depth: number): Scanner;
  abstract run(): void;

  protected unclear(message: string, at = this.at): never {
    throw new Unclear(at, message);
  }

  protected deeper<T>(inside: () => T): T {
    if (++this.#depth > DEEPEST) this.unclear('it is nested too deeply');
    const result = inside();
    this.#depth--;
    return result;
  }

  /** Holes met inside are refused for this reason, unless an outer reason stands already. */
  protected refusing<T>(place: Place, inside: () => T): T {
    const before = this.#refusing;
    this.#refusing ??= place;
    const result = inside();
    this.#refusing = before;
    return result;
  }

  protected meet(quoting: Quoting, place: Place): void {
    const hole: Hole = { index: this.#count++, at: this.at, place: this.#refusing ?? place, quoting };
    if (this.#variable !== undefined) hole.variable = this.#variable;
    this.holes.push(hole);
    this.at++;
  }

  /** Everything up to `end` is one thing to us; only the holes in it matter. */
  protected meetAll(end: number, quoting: Quoting, place: Place): void {
    for (let next = this.#nextHole(end); next >= 0; next = this.#nextHole(end)) {
      this.at = next;
      this.meet(quoting, place);
    }
    this.at = end;
  }

  #nextHole(end: number): number {
    const next = this.text.indexOf(HOLE, this.at);
    return next < end ? next : -1;
  }

  protected peek(offset = 0): string | undefined {
    return this.at + offset < this.end ? this.text[this.at + offset] : undefined;
  }

  protected match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    return found === null || this.at + found[0].length > this.end ? undefined : found;
  }

  protected skipBlanks(newlines = false): void {
    for (;;) {
      const c = this.peek();
      if (c === ' ' || c === '\t' || (newlines && c === '\n')) this.at++;
      else if (c === '\\' && this.peek(1) === '\n') this.at += 2;
      else return;
    }
  }

  /** One word from here; `place` is what an unquoted expression in it counts as. Empty at an operator. */
  protected word(place: Place, variable?: string): Word {
    const before = [this.#place, this.#variable] as const;
    this.#place = place;
    this.#variable = variable;
    const [start, from] = [this.at, this.holes.length];
    let value = '';
    let quoted = false;
    for (let c = this.peek(); c !== undefined; c = this.peek()) {
      if (META.has(c) && !this.#joinsWord(c, start)) break;
      if (c === "'" || c === '"' || c === '\\') quoted = true;
      value += this.#piece(c);
    }
    [this.#place, this.#variable] = before;
    return { start, end: this.at, value, quoted, holes: [from, this.holes.length] };
  }

  /** `<(…)`, `>(…)` and `@(…)` are parts of words. */
  #joinsWord(c: string, start: number): boolean {
    if ((c === '<' || c === '>') && this.peek(1) === '(') return true;
    if (c !== '(' || this.at === start || this.shell === 'dash') return false;
    const previous = this.text[this.at - 1] as string;
    return '?*+@!'.includes(previous) && (this.at - 1 === start || this.text[this.at - 2] !== '\\');
  }

  #piece(c: string): string {
    if (c === HOLE) {
      this.meet('bare', this.#place);
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
    const value = this.#quotedText('"', 'double', ALLOWED_WORDS.has(this.#place) ? place : this.#place);
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
    const before = [this.#place, this.#variable, this.pending, this.#heredoc] as const;
    this.pending = [];
    this.#heredoc = false;
    this.#variable = undefined;
    this.deeper(() => this.commands(')'));
    if (this.pending.length > 0) this.unclear('a heredoc begins in a substitution and does not end in it');
    [this.#place, this.#variable, this.pending, this.#heredoc] = before;
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
      const next = this.#nextHole(close);
      if (next < 0) break;
      this.at = next;
      this.meet(quoting, 'backticks');
    }
    this.meetAll(close + 1, 'bare', 'backticks');
    return EXPANSION;
  }

  #quotingsInside(text: string): readonly Quoting[] {
    const scanner = this.inner(text, this.#depth + 1);
    if (this.#depth >= DEEPEST) this.unclear('it is nested too deeply');
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
          this.#variable = head?.[0];
          this.meetAll(close + 1, 'arithmetic', 'subscript');
          this.#variable = undefined;
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

  /** Where `((`'s arithmetic ends (after `))`), or -1 when it is a subshell in a subshell. `from` is after `((`. */
  protected arithmeticEnd(from: number): number {
    let depth = 0;
    const limit = Math.min(this.end, from + FARTHEST);
    for (let i = from; i < limit; i++) {
      const c = this.text[i];
      if (c === '\\') i++;
      else if (c === "'" || c === '"') i = this.#closingQuote(i, limit);
      else if (c === '(') depth++;
      else if (c === ')') {
        if (depth === 0) return this.text[i + 1] === ')' ? i + 2 : -1;
        depth--;
      }
    }
    return this.unclear('`((` is not closed', from);
  }

  /** The `]` that belongs to the `[` at `from`, or -1. */
  protected closingBracket(from: number): number {
    let depth = 0;
    const limit = Math.min(this.end, from + FARTHEST);
    for (let i = from; i < limit; i++) {
      const c = this.text[i];
      if (c === '\\') i++;
      else if (c === "'" || c === '"') i = this.#closingQuote(i, limit);
      else if (c === '[') depth++;
      else if (c === ']' && --depth === 0) return i;
      else if (c === '\n' && depth > 0 && this.text[from - 1] !== '$') return -1;
    }
    return -1;
  }

  #closingQuote(at: number, limit: number): number {
    const quote = this.text[at];
    let i = at + 1;
    while (i < limit && this.text[i] !== quote) i += quote === '"' && this.text[i] === '\\' ? 2 : 1;
    return i;
  }

  /** Reads the bodies of all heredocs that began on the line that just ended. */
  protected readHeredocs(): void {
    const waiting = this.pending;
    this.pending = [];
    for (const heredoc of waiting) this.#readHeredoc(heredoc);
  }

  #readHeredoc(heredoc: Heredoc): void {
    const start = this.at;
    let line = start;
    let joined = false;
    for (;;) {
      if (line >= this.end)
        this.unclear(`the heredoc ${heredoc.delimiter.value} has no end`, heredoc.delimiter.start);
      const lineBreak = this.text.indexOf('\n', line);
      const lineEnd = lineBreak < 0 || lineBreak > this.end ? this.end : lineBreak;
      const content = this.text.slice(line, lineEnd);
      const bare = heredoc.strip ? content.replace(/^\t+/, '') : content;
      if (!joined && bare === heredoc.delimiter.value) {
        this.#heredocFound(heredoc, start, line);
        this.at = Math.min(lineEnd + 1, this.end);
        return;
      }
      joined = !heredoc.quoted && /(?:^|[^\\])(?:\\\\)*\\$/.test(content);
      line = lineEnd + 1;
    }
  }

  #heredocFound(heredoc: Heredoc, start: number, end: number): void {
    const from = this.holes.length;
    const before = [this.#place, this.#variable] as const;
    [this.#place, this.#variable] = ['word', undefined];
    let value: string;
    if (heredoc.quoted) {
      value = this.text.slice(start, end);
      this.meetAll(end, 'raw-heredoc', 'quoted-heredoc');
    } else value = this.deeper(() => this.heredocBody(end));
    [this.#place, this.#variable] = before;
    heredoc.body = { start, end, value, holes: [from, this.holes.length] };
  }
}

const ALLOWED_WORDS: ReadonlySet<Place> = new Set<Place>(['word', 'assignment', 'for-word', 'case-subject']);
