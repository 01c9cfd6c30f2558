import { Scanner } from './scanner.ts';
import type { Command, Heredoc, Word } from './types.ts';

const ASSIGNMENT = /([A-Za-z_]\w*)\+?=/y;
const SUBSCRIPTED = /([A-Za-z_]\w*)\[/y;

/** What is between words and commands: heredocs, assignments, lists of values, comments. */
export abstract class WordReader extends Scanner {
  /** A word that has to be there. */
  protected progress(read: () => Word): Word {
    const word = read();
    if (word.end === word.start) this.unclear(`\`${this.peek() ?? ''}\` stands where a word is wanted`);
    return word;
  }

  protected comment(): void {
    const lineBreak = this.text.indexOf('\n', this.at);
    this.meetAll(lineBreak < 0 || lineBreak > this.end ? this.end : lineBreak, 'comment', 'comment');
  }

  /** `NAME=value`, `NAME[…]=value`, `NAME=(…)` before a command. False when the word is none of these. */
  protected assignment(command: Command): boolean {
    const start = this.at;
    const plain = this.match(ASSIGNMENT);
    if (plain !== undefined) {
      this.#value(command, plain[1] as string, plain[0].length, start);
      return true;
    }
    const subscripted = this.match(SUBSCRIPTED);
    if (subscripted === undefined) return false;
    const name = subscripted[1] as string;
    const close = this.closingBracket(this.at + name.length);
    const equals = close < 0 ? '' : (/^\+?=/.exec(this.text.slice(close + 1, close + 3))?.[0] ?? '');
    if (equals === '') return false;
    this.#subscript(close + 1, name);
    this.#value(command, name, equals.length, start);
    return true;
  }

  #subscript(end: number, name: string): void {
    const from = this.holes.length;
    this.meetAll(end, 'arithmetic', 'subscript');
    for (const hole of this.holes.slice(from)) hole.variable = name;
  }

  /** What stands behind the `=`; `length` is what has to be stepped over first. */
  #value(command: Command, name: string, length: number, start: number): void {
    this.at += length;
    const from = this.holes.length;
    const array = this.peek() === '(';
    if (array) this.#array(name);
    const rest = this.word('assignment', name);
    const value = `${name}=${array ? '\x01' : ''}${rest.value}`;
    const word: Word = { start, end: this.at, value, quoted: rest.quoted, holes: [from, this.holes.length] };
    command.assignments.push({ name, word });
  }

  /** `export NAME=value` and the like: an assignment that is also an argument. */
  protected declaration(command: Command): boolean {
    const before = command.assignments.length;
    if (!this.assignment(command)) return false;
    const assignment = command.assignments[before];
    if (assignment !== undefined) command.words.push(assignment.word);
    return true;
  }

  #array(name: string): void {
    this.at++;
    for (;;) {
      this.skipBlanks(true);
      const c = this.peek();
      if (c === undefined) this.unclear('a list of values is not closed');
      if (c === ')') break;
      if (c === '#') {
        this.comment();
        continue;
      }
      const close = c === '[' ? this.closingBracket(this.at) : -1;
      if (close >= 0 && /^\+?=/.test(this.text.slice(close + 1, close + 3))) {
        this.#subscript(close + 1, name);
        this.at += this.text[this.at] === '+' ? 2 : 1;
        this.word('assignment', name);
        continue;
      }
      this.progress(() => this.word('assignment', name));
    }
    this.at++;
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
    const value = this.aside(() => {
      if (!heredoc.quoted) return this.deeper(() => this.heredocBody(end));
      this.meetAll(end, 'raw-heredoc', 'quoted-heredoc');
      return this.text.slice(start, end);
    });
    heredoc.body = { start, end, value, holes: [from, this.holes.length] };
  }
}
