import type { Span } from '../../types.ts';
import type { Expression, Template, TemplatePart } from '../types.ts';
import type { ScriptFinding } from './bind.ts';
import { HOLE } from './types.ts';

/** A script with a NUL for each expression, and the way back. */
export interface ScriptSource {
  readonly text: string;
  readonly expressions: readonly Expression[];
  readonly spans: readonly Span[];
  /** The expression as written, on one line. */
  written(index: number): string;
  /** Programs that get the value as an argument, by expression. */
  readonly programs: Map<number, Set<string>>;
  /** From an offset in `text` to one in the script. */
  offset(at: number): number;
  problem?: ScriptFinding;
}

/** Cuts a script for reading; what is invalid stays as text. */
export function sourceOf(template: Template): ScriptSource {
  const expressions: Expression[] = [];
  const spans: Span[] = [];
  let text = '';
  let problem: ScriptFinding | undefined;
  for (const part of template.parts) {
    const nul = part.kind === 'text' ? part.text.indexOf(HOLE) : -1;
    if (nul >= 0) problem = nulFinding(part, nul);
    if (part.kind === 'text') text += part.text.replaceAll(HOLE, '');
    else if (part.kind === 'invalid')
      text += template.source.slice(part.span.start, part.span.end).replaceAll(HOLE, '');
    else {
      text += HOLE;
      expressions.push(part.expression);
      spans.push(part.span);
    }
  }
  const written = (index: number): string => {
    const span = spans[index] as Span;
    return template.source.slice(span.start, span.end).replace(/[\r\n]/g, ' ');
  };
  return {
    text,
    expressions,
    spans,
    written,
    offset: offsets(template),
    programs: new Map(),
    ...(problem === undefined ? {} : { problem }),
  };
}

/** Only `$${` makes text shorter than its source: a table of where the sum of what was left out changes. */
function offsets(template: Template): (at: number) => number {
  const steps: { readonly from: number; readonly shift: number }[] = [];
  let at = 0;
  for (const part of template.parts) {
    steps.push({ from: at, shift: part.span.start - at });
    if (part.kind === 'expression') {
      at += 1;
      continue;
    }
    const source = template.source.slice(part.span.start, part.span.end);
    const text = part.kind === 'text' ? part.text : source;
    let read = 0;
    for (let i = 0; i < text.length && read < source.length; i++, read++) {
      if (text[i] === '$' && text[i + 1] === '{' && source.startsWith('$${', read)) {
        read++;
        // The escape itself begins one earlier than what it stands for.
        steps.push({ from: at + i + 1, shift: part.span.start + read - (at + i) });
      }
    }
    at += text.length;
  }
  steps.push({ from: at, shift: template.source.length - at });
  return (wanted) => {
    let shift = 0;
    for (const step of steps) {
      if (step.from > wanted) break;
      shift = step.shift;
    }
    return wanted + shift;
  };
}

function nulFinding(part: TemplatePart, offset: number): ScriptFinding {
  const at = part.span.start + offset;
  return {
    severity: 'error',
    code: 'script-nul',
    message: 'the script holds a NUL byte, which no shell can read',
    span: { start: at, end: at + 1 },
    fixable: false,
  };
}
