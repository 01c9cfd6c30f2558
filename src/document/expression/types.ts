import type { Json, Span } from '../types.ts';

/** `${ }` since schemaVersion 1.0.0, `{{ }}` in 1.0.0-alpha.1. */
export type Delimiters = 'dollar' | 'mustache';

export interface ParseOptions {
  /** Default `dollar`. */
  readonly delimiters?: Delimiters;
  /** The first names that are ours, such as `bundle`; everything else passes untouched. Default `ROOTS`. */
  readonly known?: Iterable<string>;
}

/** One name on a path; `span` covers the name, with its brackets when it was written `["a.b"]`. */
export interface Segment {
  readonly name: string;
  readonly span: Span;
}

export type BinaryOperator = '==' | '!=' | '<' | '<=' | '>' | '>=' | '&&' | '||' | 'in';

/** The tree of one expression: plain JSON, every node with its place in the text. */
export type Expression =
  | { readonly kind: 'literal'; readonly value: null | boolean | number | string; readonly span: Span }
  | { readonly kind: 'path'; readonly segments: readonly Segment[]; readonly span: Span }
  /** A member of something computed: `fromJson(x).host`, `split(x, ",")[0]`. */
  | { readonly kind: 'member'; readonly object: Expression; readonly name: Segment; readonly span: Span }
  | {
      readonly kind: 'call';
      readonly name: string;
      readonly args: readonly Expression[];
      readonly span: Span;
    }
  | { readonly kind: 'list'; readonly items: readonly Expression[]; readonly span: Span }
  | { readonly kind: 'not'; readonly operand: Expression; readonly span: Span }
  | {
      readonly kind: 'binary';
      readonly operator: BinaryOperator;
      readonly left: Expression;
      readonly right: Expression;
      readonly span: Span;
    };

export type TemplatePart =
  /** `text` is what is meant (`$${` has become `${`); `span` is where it stands. */
  | { readonly kind: 'text'; readonly text: string; readonly span: Span }
  /** `span` covers the delimiters too. */
  | { readonly kind: 'expression'; readonly expression: Expression; readonly span: Span }
  /** Ours by its root, and not readable. Evaluating it throws `EXPRESSION_SYNTAX`. */
  | {
      readonly kind: 'invalid';
      readonly message: string;
      readonly hint?: string;
      readonly at: number;
      readonly span: Span;
    };

export interface Template {
  readonly source: string;
  readonly delimiters: Delimiters;
  /** The roots it was read with. */
  readonly known: readonly string[];
  readonly parts: readonly TemplatePart[];
}

/** A path that an expression reads. */
export interface Reference {
  /** As people write it: `bundle.parameters.region`. */
  readonly text: string;
  readonly path: readonly string[];
  readonly span: Span;
  /** Stands in an argument of `default`, so that having no value is no error. */
  readonly guarded: boolean;
}

/** What a name stands for. The caller builds a tree of these per step and place; see the makers in `scope.ts`. */
export type ScopeNode =
  /** Further names. With `open` a name that is not among them is late instead of unknown. */
  | { readonly kind: 'names'; readonly names: Members; readonly open: boolean }
  | { readonly kind: 'value'; readonly value: Json; readonly sensitive: boolean }
  /** Only the run can know it; `label` is for people: `output ip of apply`. */
  | { readonly kind: 'late'; readonly label: string; readonly sensitive: boolean }
  /** Declared, and has no value (an output of a skipped step): an error unless `default` is around it. */
  | { readonly kind: 'absent'; readonly reason: string }
  /** Exists, and may not be used here (a parameter that does not apply to this action). */
  | { readonly kind: 'denied'; readonly reason: string; readonly hint?: string };

export interface Members {
  get(name: string): ScopeNode | undefined;
  keys(): Iterable<string>;
}

/** What an expression may read; always a `names` node whose names are the roots. */
export type Scope = Extract<ScopeNode, { kind: 'names' }>;

export interface KnownResult {
  readonly state: 'value';
  readonly value: Json;
  /** True when something sensitive was read on the way, whatever became of it. */
  readonly sensitive: boolean;
  /** The sensitive paths that were read. */
  readonly sensitivePaths: readonly string[];
}

export interface LateResult {
  readonly state: 'late';
  /** The same text with what is known (and not sensitive) filled in; evaluates like the original. */
  readonly residual: string;
  /** For people: known parts filled in, late and sensitive ones as `⟨output ip of apply⟩`. */
  readonly display: string;
  readonly sensitive: boolean;
  /** Labels of the late names it waits for. */
  readonly waitsFor: readonly string[];
}

/** Something wrong with an expression, with its place in the template's text. The caller makes a `Problem` of it. */
export interface ExpressionFinding {
  readonly severity: 'error' | 'warning' | 'note';
  /** `expression-syntax`, `expression-name`, `expression-scope`, `expression-root`, `expression-place`, … */
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  readonly span: Span;
  /** A replacement of exactly `span`, when there is one obvious right text. */
  readonly replacement?: string;
}
