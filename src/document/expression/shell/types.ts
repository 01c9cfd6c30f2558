/** The shells whose quoting is known. `sh` is read so that it holds in dash, busybox ash and bash alike. */
export type Shell = 'sh' | 'dash' | 'bash' | 'ash';

/** Where an expression stands. The first group is allowed, `comment` is harmless, all others are refused. */
export type Place =
  | 'word'
  | 'double-quotes'
  | 'assignment'
  | 'for-word'
  | 'case-subject'
  | 'heredoc'
  | 'comment'
  | 'single-quotes'
  | 'ansi-quotes'
  | 'locale-quotes'
  | 'backticks'
  | 'quoted-heredoc'
  | 'heredoc-delimiter'
  | 'arithmetic'
  | 'test-brackets'
  | 'subscript'
  | 'parameter-expansion'
  | 'pattern'
  | 'command'
  | 'redirect'
  | 'name'
  | 'after-dollar'
  | 'after-backslash'
  | 'evaluated'
  | 'option'
  | 'interpreter'
  | 'unclear';

export const ALLOWED: ReadonlySet<Place> = new Set<Place>([
  'word',
  'double-quotes',
  'assignment',
  'for-word',
  'case-subject',
  'heredoc',
  'comment',
]);

/** The quoting right around an expression, which says how a variable is written there. */
export type Quoting =
  | 'bare'
  | 'double'
  | 'single'
  | 'ansi'
  | 'heredoc'
  | 'raw-heredoc'
  | 'arithmetic'
  | 'comment';

/** In the text that the scanner reads, one NUL stands for each expression; it can stand for nothing else. */
export const HOLE = '\0';
/** In the value of a word, stands for something that only the shell can expand. */
export const EXPANSION = '\x01';

export interface Hole {
  /** Which expression of the script, from 0. */
  readonly index: number;
  readonly at: number;
  place: Place;
  readonly quoting: Quoting;
  /** Set with `evaluated` and `option`. */
  program?: string;
  language?: Language;
  /** The variable, when it is the right side of an assignment or a subscript. */
  variable?: string;
  /** With `after-backslash` and `after-dollar`: the place it would have without that. */
  under?: Place;
  /** The text that is evaluated, and which hole of it this is. */
  code?: { readonly text: string; readonly nth: number };
  /** Where its word, and that word's command, begins. */
  word?: number;
  command?: number;
  /** The quoted heredoc that it stands in. */
  heredoc?: Heredoc;
  /** A subscript of a map (`declare -A`), where it is text and not a number. */
  isMap?: boolean;
}

/** What reads the text that a program evaluates. */
export type Language =
  | 'shell'
  | 'awk'
  | 'sed'
  | 'perl'
  | 'python'
  | 'node'
  | 'ruby'
  | 'php'
  | 'arithmetic'
  | 'name'
  | 'file'
  | 'argument'
  | 'other';

export interface Word {
  readonly start: number;
  readonly end: number;
  /** After quote removal, with `HOLE` and `EXPANSION` where they stand. */
  readonly value: string;
  readonly quoted: boolean;
  /** Holes in it, those in nested substitutions too: a range of the scanner's list. */
  readonly holes: readonly [number, number];
}

export interface Heredoc {
  readonly quoted: boolean;
  /** Where the delimiter word stands after `<<`. */
  readonly delimiter: Word;
  readonly strip: boolean;
  body: { start: number; end: number; value: string; holes: readonly [number, number] } | undefined;
}

export interface Command {
  readonly words: Word[];
  readonly assignments: { readonly name: string; readonly word: Word }[];
  readonly heredocs: Heredoc[];
}

/** A pipeline's stages; a compound command is only the range of the holes inside it. */
export interface Stage {
  readonly command?: Command;
  readonly holes?: readonly [number, number];
}

/** The script cannot be read with certainty: every expression in it is refused. */
export class Unclear extends Error {
  readonly at: number;
  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}
