import { type Heredoc, HOLE, type Hole, type Place, type Quoting, type Shell, Unclear } from './types.ts';

/** How deep constructs may be nested. */
export const DEEPEST = 60;

/** Where the reader is, and the expressions it has met on the way. */
export abstract class Cursor {
  readonly holes: Hole[] = [];
  protected readonly text: string;
  protected readonly shell: Shell;
  protected at = 0;
  protected end: number;
  protected pending: Heredoc[] = [];
  protected currentRefusing: Place | undefined;
  protected currentPlace: Place = 'word';
  protected currentVariable: string | undefined;
  protected depth: number;
  protected count = 0;

  constructor(text: string, shell: Shell, depth = 0) {
    this.text = text;
    this.end = text.length;
    this.shell = shell;
    this.depth = depth;
  }

  protected unclear(message: string, at = this.at): never {
    throw new Unclear(at, message);
  }

  protected deeper<T>(inside: () => T): T {
    if (++this.depth > DEEPEST) this.unclear('it is nested too deeply');
    const result = inside();
    this.depth--;
    return result;
  }

  /** Holes met inside are refused for this reason, unless an outer reason stands already. */
  protected refusing<T>(place: Place, inside: () => T): T {
    const before = this.currentRefusing;
    this.currentRefusing ??= place;
    const result = inside();
    this.currentRefusing = before;
    return result;
  }

  protected meet(quoting: Quoting, place: Place): void {
    const hole: Hole = { index: this.count++, at: this.at, place: this.currentRefusing ?? place, quoting };
    if (this.currentVariable !== undefined) hole.variable = this.currentVariable;
    // Mending what stands in front must not be all if the place itself is refused too.
    if (place === 'after-backslash' || place === 'after-dollar')
      hole.under = this.currentRefusing ?? this.currentPlace;
    this.holes.push(hole);
    this.at++;
  }

  /** Everything up to `end` is one thing to us; only the holes in it matter. */
  protected meetAll(end: number, quoting: Quoting, place: Place): void {
    for (let next = this.nextHole(end); next >= 0; next = this.nextHole(end)) {
      this.at = next;
      this.meet(quoting, place);
    }
    this.at = end;
  }

  protected nextHole(end: number): number {
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

  /** Reads something that stands outside of the word being read. */
  protected aside<T>(inside: () => T): T {
    const before = [this.currentPlace, this.currentVariable] as const;
    [this.currentPlace, this.currentVariable] = ['word', undefined];
    const result = inside();
    [this.currentPlace, this.currentVariable] = before;
    return result;
  }
}
