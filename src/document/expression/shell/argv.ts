import { parseTemplate } from '../template.ts';
import type { ExpressionFinding, ParseOptions } from '../types.ts';
import { evaluatedArguments } from './programs.ts';
import { HOLE, type Word } from './types.ts';

export interface ArgvFinding extends ExpressionFinding {
  /** Which element; `span` is an offset in its text. */
  readonly element: number;
}

/**
 * Findings for `command` (or `args`, with the image's entrypoint in front when it is known): expressions after a
 * `-c` or `-e` of a program that evaluates it, as the program itself, and wherever else such programs evaluate
 * their arguments. Never throws.
 */
export function checkArgv(
  argv: readonly string[],
  options: ParseOptions & { readonly entrypoint?: readonly string[] } = {},
): readonly ArgvFinding[] {
  const entrypoint = options.entrypoint ?? [];
  let count = 0;
  const templates = argv.map((text) => parseTemplate(text, options));
  const words = [
    ...entrypoint.map((value): Word => ({ start: 0, end: 0, value, quoted: true, holes: [0, 0] })),
    ...templates.map((template): Word => {
      const from = count;
      const value = template.parts
        .map((part) =>
          part.kind === 'text' ? part.text.replaceAll(HOLE, '') : part.kind === 'expression' ? HOLE : '',
        )
        .join('');
      count += value.split(HOLE).length - 1;
      return { start: 0, end: 0, value, quoted: true, holes: [from, count] };
    }),
  ];
  const findings: ArgvFinding[] = [];
  for (const { word, program, option } of evaluatedArguments(words)) {
    const element = word - entrypoint.length;
    for (const part of templates[element]?.parts ?? []) {
      if (part.kind !== 'expression') continue;
      findings.push({
        severity: 'error',
        code: 'expression-place',
        message: option
          ? `the expression could be taken for an option by ${program}, whose options evaluate text`
          : `the expression is part of what ${program} evaluates, so the value would be code`,
        hint: option
          ? 'put an element `--` in front of it'
          : 'give the value to the step by `env:` and use the variable here, or use `run:`',
        element,
        span: part.span,
      });
    }
  }
  return findings;
}
