import type { Place } from '../kernel/index.ts';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** A place in a text: offsets in UTF-16 units, end exclusive. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A replacement in the source text; edits of one fix do not overlap. */
export interface TextEdit {
  readonly span: Span;
  readonly text: string;
}

/** One finding of lint. All findings of a file are reported in one go. */
export interface Problem {
  readonly severity: 'error' | 'warning' | 'note';
  /** Stable, e.g. `unknown-key`, `expression-place`; Porter's own (`porter-101`) where the rule is Porter's. */
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  readonly place: Place;
  readonly span?: Span;
  /** Edits that mend it; after them the finding is gone. */
  readonly fix?: readonly TextEdit[];
}
