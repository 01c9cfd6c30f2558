import { ciSystem } from '../../kernel/index.ts';
import type { Output, Style } from '../types.ts';

type Env = Readonly<Record<string, string | undefined>>;

/** NO_COLOR (no-color.org) and FORCE_COLOR win over what the stream is; NO_COLOR over FORCE_COLOR. */
export function styleOf(stream: Output, env: Env): Style {
  return { color: wantsColor(stream, env), ci: ciSystem(env), width: stream.isTerminal ? stream.columns : 0 };
}

function wantsColor(stream: Output, env: Env): boolean {
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== '') {
    return false;
  }
  if (env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== '') {
    return env.FORCE_COLOR !== '0' && env.FORCE_COLOR !== 'false';
  }
  return stream.isTerminal && env.TERM !== 'dumb';
}

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Color = keyof typeof codes;

export function paint(style: Pick<Style, 'color'>, color: Color, text: string): string {
  return style.color && text !== '' ? `\u001b[${codes[color]}m${text}\u001b[0m` : text;
}
