import type { Problem } from '../../document/index.ts';
import { escapeLine, escapeTerminal } from '../../kernel/index.ts';
import type { Style } from '../types.ts';
import { placeName } from './error.ts';
import { type Color, paint } from './style.ts';

const colors: Readonly<Record<Problem['severity'], Color>> = {
  error: 'red',
  warning: 'yellow',
  note: 'cyan',
};

/** In file order: place, severity, code and message on one line that editors and grep understand; then excerpt and hint. */
export function problemsText(problems: readonly Problem[], style: Pick<Style, 'color'>): string {
  return problems
    .map((problem) => {
      const { severity, code, message, hint, place, fix } = problem;
      const head = `${placeName(place)}: ${paint(style, colors[severity], severity)}: ${escapeTerminal(message)} [${escapeLine(code)}]\n`;
      const excerpt = place.excerpt === undefined ? '' : `${indent(escapeTerminal(place.excerpt))}\n`;
      const advice =
        hint === undefined ? '' : `  ${paint(style, 'green', 'hint:')} ${escapeTerminal(hint)}\n`;
      const mend =
        fix === undefined ? '' : `  ${paint(style, 'green', 'fix:')} skycap lint --fix mends this\n`;
      return head + excerpt + advice + mend;
    })
    .join('');
}

export function problemJson(problem: Problem): Record<string, unknown> {
  const { severity, code, message, hint, place, fix } = problem;
  return {
    severity,
    code,
    message,
    ...(hint === undefined ? {} : { hint }),
    ...place,
    fixable: fix !== undefined,
  };
}

export function countText(problems: readonly Problem[]): string {
  const counts = (['error', 'warning', 'note'] as const)
    .map(
      (severity) => [severity, problems.filter((problem) => problem.severity === severity).length] as const,
    )
    .filter(([, count]) => count > 0)
    .map(([severity, count]) => `${count} ${severity}${count === 1 ? '' : 's'}`);
  return counts.length === 0 ? 'no problems' : counts.join(', ');
}

function indent(text: string): string {
  return text
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');
}
