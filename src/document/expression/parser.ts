import { didYouMean } from '../suggest.ts';
import type { Span } from '../types.ts';
import { FUNCTION_NAMES } from './function-names.ts';
import type { BinaryOperator, Expression, Segment } from './types.ts';

/** Thrown inside this folder only; `at` is an offset in the text. */
export class ExpressionSyntax extends Error {
  readonly at: number;
  readonly hint: string | undefined;
  constructor(at: number, message: string, hint?: string) {
    super(message);
    this.at = at;
    this.hint = hint;
  }
}

/** Deep or huge expressions are refused, so that walking a tree never runs out of stack. */
const DEEPEST = 64;
const MOST_NODES = 1000;
const LONGEST_STRING = 65_536;

const NAME = /[\p{L}_][\p{L}\p{N}_-]*/uy;
const SEGMENT = /[\p{L}\p{N}_][\p{L}\p{N}_-]*/uy;
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\p{L}\p{N}_])/uy;
const COMPARISON = /==|!=|<=|>=|<|>/y;

/** Recursive descent over one expression that stands somewhere in a longer text. */
export class ExpressionParser {
  readonly #text: string;
  readonly #known: ReadonlySet<string>;
  #at: number;
  #depth = 0;
  #nodes = 0;

  constructor(text: string, at: number, known: ReadonlySet<string>) {
    this.#text = text;
    this.#at = at;
    this.#known = known;
  }

  /** The expression and the offset after the closing delimiter. */
  parse(close: string): { readonly expression: Expression; readonly end: number } {
    const expression = this.#or();
    this.#blank();
    if (!this.#text.startsWith(close, this.#at)) throw this.#unexpected(close);
    return { expression, end: this.#at + close.length };
  }

  #unexpected(close: string): ExpressionSyntax {
    const c = this.#text[this.#at];
    if (c === undefined) return new ExpressionSyntax(this.#at, `the expression has no closing \`${close}\``);
    if (c === ':' || c === '#' || c === '%' || c === '?')
      return new ExpressionSyntax(
        this.#at,
        `\`${c}\` has no meaning in an expression`,
        'shell expansions such as `:-` work on shell variables only; for a fallback write default(NAME, "text")',
      );
    if (c === '=')
      return new ExpressionSyntax(this.#at, '`=` has no meaning in an expression', 'compare with `==`');
    return new ExpressionSyntax(
      this.#at,
      `\`${shown(this.#text, this.#at)}\` is not expected here`,
      `\`${close}\` closes the expression`,
    );
  }

  #node<T extends Expression>(node: T): T {
    if (++this.#nodes > MOST_NODES)
      throw new ExpressionSyntax(node.span.start, `the expression has more than ${MOST_NODES} parts`);
    return node;
  }

  #blank(): void {
    while (/\s/.test(this.#text[this.#at] ?? '')) this.#at++;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #or(): Expression {
    let left = this.#and();
    while (this.#take('||')) left = this.#binary('||', left, this.#and());
    return left;
  }

  #and(): Expression {
    let left = this.#comparison();
    while (this.#take('&&')) left = this.#binary('&&', left, this.#comparison());
    return left;
  }

  #comparison(): Expression {
    const left = this.#unary();
    this.#blank();
    const word = this.#match(COMPARISON) ?? (this.#takeWord('in') ? 'in' : undefined);
    if (word === undefined) return left;
    const node = this.#binary(word as BinaryOperator, left, this.#unary());
    this.#blank();
    const again = this.#at;
    if (this.#match(COMPARISON) !== undefined)
      throw new ExpressionSyntax(again, 'comparisons cannot be chained', 'join them with `&&`');
    return node;
  }

  #binary(operator: BinaryOperator, left: Expression, right: Expression): Expression {
    return this.#node({
      kind: 'binary',
      operator,
      left,
      right,
      span: { start: left.span.start, end: right.span.end },
    });
  }

  #unary(): Expression {
    this.#blank();
    const start = this.#at;
    if (this.#text[start] !== '!' || this.#text[start + 1] === '=') return this.#postfix();
    this.#at++;
    const operand = this.#nested(start, () => this.#unary());
    return this.#node({ kind: 'not', operand, span: { start, end: operand.span.end } });
  }

  #nested<T>(at: number, inner: () => T): T {
    if (++this.#depth > DEEPEST)
      throw new ExpressionSyntax(at, `the expression is nested more than ${DEEPEST} levels deep`);
    const result = inner();
    this.#depth--;
    return result;
  }

  #postfix(): Expression {
    let object = this.#primary();
    for (let name = this.#segment(); name !== undefined; name = this.#segment())
      object = this.#nestedMember(object, name);
    return object;
  }

  #nestedMember(object: Expression, name: Segment): Expression {
    const span: Span = { start: object.span.start, end: name.span.end };
    if (object.kind === 'path')
      return this.#node({ kind: 'path', segments: [...object.segments, name], span });
    return this.#node({ kind: 'member', object, name, span });
  }

  /** `.name`, `["a.b"]`, `[0]`; undefined when neither follows. */
  #segment(): Segment | undefined {
    const start = this.#at;
    if (this.#text[start] === '.') {
      this.#at++;
      const name = this.#match(SEGMENT);
      if (name === undefined)
        throw new ExpressionSyntax(
          this.#at,
          'a name is wanted after the dot',
          'other names are written ["like this"]',
        );
      return { name, span: { start: start + 1, end: this.#at } };
    }
    if (this.#text[start] !== '[') return undefined;
    this.#at++;
    this.#blank();
    const c = this.#text[this.#at];
    const name = c === '"' || c === "'" ? this.#string(c) : this.#match(/\d+/y);
    if (name === undefined)
      throw new ExpressionSyntax(this.#at, 'a quoted name or a number is wanted in the brackets');
    this.#blank();
    if (this.#text[this.#at] !== ']') throw new ExpressionSyntax(this.#at, '`]` is wanted here');
    this.#at++;
    return { name, span: { start, end: this.#at } };
  }

  #primary(): Expression {
    this.#blank();
    const start = this.#at;
    const c = this.#text[start];
    if (c === '(') {
      this.#at++;
      const inner = this.#nested(start, () => this.#or());
      this.#expect(')');
      return inner;
    }
    if (c === '[') {
      this.#at++;
      const items = this.#list(']', start);
      return this.#node({ kind: 'list', items, span: { start, end: this.#at } });
    }
    if (c === '"' || c === "'") {
      const value = this.#string(c);
      return this.#node({ kind: 'literal', value, span: { start, end: this.#at } });
    }
    const number = this.#match(NUMBER);
    if (number !== undefined)
      return this.#node({ kind: 'literal', value: Number(number), span: { start, end: this.#at } });
    return this.#word(start);
  }

  #word(start: number): Expression {
    const name = this.#match(NAME);
    if (name === undefined) {
      const what =
        this.#text[start] === undefined
          ? 'the text ends where'
          : `\`${shown(this.#text, start)}\` stands where`;
      throw new ExpressionSyntax(start, `${what} a name or a value is wanted`);
    }
    const span: Span = { start, end: this.#at };
    if (name === 'true' || name === 'false')
      return this.#node({ kind: 'literal', value: name === 'true', span });
    if (name === 'null') return this.#node({ kind: 'literal', value: null, span });
    if (this.#text[this.#at] === '(') return this.#call(name, start);
    if (this.#known.has(name)) return this.#node({ kind: 'path', segments: [{ name, span }], span });
    const near = didYouMean(name, this.#known);
    throw new ExpressionSyntax(
      start,
      `\`${name}\` is not a name that expressions know`,
      near === undefined
        ? `names begin with ${[...this.#known].join(', ')}; text stands in quotes`
        : `did you mean \`${near}\`?`,
    );
  }

  #call(name: string, start: number): Expression {
    if (!FUNCTION_NAMES.has(name)) {
      const near = didYouMean(name, FUNCTION_NAMES);
      throw new ExpressionSyntax(
        start,
        `there is no function \`${name}\``,
        near === undefined
          ? `the functions are ${[...FUNCTION_NAMES].join(', ')}`
          : `did you mean \`${near}\`?`,
      );
    }
    this.#at++;
    const args = this.#list(')', start);
    return this.#node({ kind: 'call', name, args, span: { start, end: this.#at } });
  }

  #list(close: string, start: number): Expression[] {
    const items: Expression[] = [];
    this.#blank();
    if (this.#take(close)) return items;
    for (;;) {
      items.push(this.#nested(start, () => this.#or()));
      this.#blank();
      if (this.#take(close)) return items;
      if (!this.#take(',')) throw new ExpressionSyntax(this.#at, `\`,\` or \`${close}\` is wanted here`);
    }
  }

  #take(word: string): boolean {
    this.#blank();
    if (!this.#text.startsWith(word, this.#at)) return false;
    this.#at += word.length;
    return true;
  }

  #takeWord(word: string): boolean {
    const before = this.#at;
    if (this.#match(NAME) === word) return true;
    this.#at = before;
    return false;
  }

  #expect(c: string): void {
    if (!this.#take(c)) throw new ExpressionSyntax(this.#at, `\`${c}\` is wanted here`);
  }

  /** Double quotes with JSON's escapes, single quotes without any. */
  #string(quote: string): string {
    const start = this.#at++;
    for (let c = this.#text[this.#at]; c !== quote; c = this.#text[this.#at]) {
      if (c === undefined || this.#at - start > LONGEST_STRING)
        throw new ExpressionSyntax(c === undefined ? start : this.#at, 'the string has no closing quote');
      this.#at += c === '\\' && quote === '"' ? 2 : 1;
    }
    const raw = this.#text.slice(start + 1, this.#at);
    this.#at++;
    if (quote === "'") return raw;
    // In a string that came out of YAML a line break may stand as itself; JSON wants it escaped.
    const escaped = raw.replace(
      /[\u0000-\u001f]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
    try {
      return JSON.parse(`"${escaped}"`) as string;
    } catch {
      throw new ExpressionSyntax(
        start,
        'the string holds a bad escape',
        'double quotes know \\n \\t \\" \\\\ \\u0041; single quotes take everything as it is',
      );
    }
  }
}

function shown(text: string, at: number): string {
  return String.fromCodePoint(text.codePointAt(at) as number);
}
