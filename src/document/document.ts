import { clipNames } from '../kernel/index.ts';
import { type Lines, placeAt } from './lines.ts';
import type { DocNode } from './node.ts';
import type { Problem, Span, TextEdit } from './types.ts';

/** A parsed file. `root` is undefined for an empty file and for one whose syntax is beyond repair. */
export interface ParsedDocument {
  readonly file: string;
  readonly source: string;
  readonly lines: Lines;
  readonly root?: DocNode;
  /** Syntax errors, duplicate keys, limits. */
  readonly problems: readonly Problem[];
}

export interface ParseOptions {
  /** Shown in places; need not exist. */
  readonly file: string;
  /** Longest source in UTF-16 units; 2 Mi units unless given. */
  readonly maxLength?: number;
}

export const limits = {
  /** UTF-16 units of a source. */
  length: 2 * 1024 * 1024,
  /** Collections within collections. */
  depth: 100,
  /** Nodes after aliases are followed. */
  nodes: 200_000,
} as const;

export interface ProblemDraft {
  readonly severity?: Problem['severity'];
  readonly code: string;
  readonly message: string;
  readonly hint?: string | undefined;
  readonly fix?: readonly TextEdit[] | undefined;
}

/** A problem at a span of a document, with line, column and excerpt filled in. */
export function problemAt(
  document: { readonly file: string; readonly lines: Lines },
  span: Span,
  draft: ProblemDraft,
): Problem {
  return {
    severity: draft.severity ?? 'error',
    code: draft.code,
    message: clipNames(draft.message),
    ...(draft.hint === undefined ? {} : { hint: clipNames(draft.hint) }),
    place: placeAt(document.lines, document.file, span.start),
    span,
    ...(draft.fix === undefined ? {} : { fix: draft.fix }),
  };
}
