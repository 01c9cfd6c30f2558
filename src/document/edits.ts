import type { TextEdit } from './types.ts';

/**
 * Replaces spans of a source. Edits may come in any order; several at one empty span are made in the order given;
 * one that overlaps an earlier one is left out, so that a second round can make it.
 */
export function applyEdits(source: string, edits: readonly TextEdit[]): string {
  const ordered = edits
    .map((edit, index) => ({ edit, index }))
    .sort(
      (a, b) =>
        a.edit.span.start - b.edit.span.start || a.edit.span.end - b.edit.span.end || a.index - b.index,
    );
  let out = '';
  let at = 0;
  for (const { edit } of ordered) {
    if (edit.span.start < at || edit.span.end < edit.span.start) continue;
    out += source.slice(at, edit.span.start) + edit.text;
    at = edit.span.end;
  }
  return out + source.slice(at);
}

/**
 * All edits of several fixes. A fix that overlaps an earlier one, or inserts at the same place, is left out whole and
 * waits for the next round; a fix that says the same as an earlier one (one fix may mend several findings) counts once.
 */
export function mergeFixes(fixes: readonly (readonly TextEdit[])[]): readonly TextEdit[] {
  const taken: TextEdit[] = [];
  for (const fix of fixes) {
    const clash = fix.some((edit) => taken.some((other) => overlaps(edit, other)));
    if (!clash) taken.push(...fix);
  }
  return taken;
}

function overlaps(a: TextEdit, b: TextEdit): boolean {
  if (a.span.start === b.span.start) return true;
  return a.span.start < b.span.end && b.span.start < a.span.end;
}
