import type { Hole, Place } from './types.ts';

const WHERE: Readonly<Partial<Record<Place, string>>> = {
  'single-quotes': 'stands inside single quotes, where a shell puts no value in',
  'ansi-quotes': "stands inside $'…', where a shell puts no value in",
  'locale-quotes': 'stands inside $"…", which is translated before it is used',
  backticks: 'stands inside backticks',
  'quoted-heredoc': 'stands in a heredoc whose end mark is quoted, where a shell puts no value in',
  'heredoc-delimiter': 'is the end mark of a heredoc',
  arithmetic: 'stands in arithmetic, which evaluates what it is given',
  'test-brackets': 'stands inside [[ ]], which evaluates some of what it is given',
  subscript: 'is a subscript, which a shell evaluates',
  'parameter-expansion': 'stands inside another ${…}',
  pattern: 'is a pattern, in which some characters are special',
  command: 'is the command itself',
  redirect: 'is the target of a redirect',
  name: 'stands where a name is wanted',
  'after-dollar': 'stands right behind a dollar sign, which would take it for part of a name',
  'after-backslash': 'stands right behind a backslash, which would take the quote that protects it',
};

/** The sentence and the way out for a refused place. */
export function describePlace(
  hole: Hole,
  interpreter: string,
): { readonly message: string; readonly hint: string } {
  const hint = 'give the value to the step by `env:` and use the variable here; `--fix` does it';
  if (hole.place === 'unclear')
    return {
      message: `the script cannot be read with certainty, so no expression in it has a safe place: ${hole.program ?? 'it is not clear'}`,
      hint: 'mend the script, or give the value to the step by `env:` and use the variable in the script',
    };
  if (hole.place === 'interpreter')
    return {
      message: `the script is not read by sh, dash, bash or ash${interpreter === 'other' ? '' : ` but by ${interpreter}`}, so an expression in it would be code`,
      hint: 'give the value to the step by `env:` and read the variable in the script',
    };
  if (hole.place === 'option')
    return {
      message: `the expression could be taken for an option by ${hole.program ?? 'the program'}, whose options evaluate text`,
      hint: 'write `--` in front of it; `--fix` does it',
    };
  if (hole.place === 'evaluated')
    return {
      message: `the expression is part of what ${hole.program ?? 'a program'} evaluates, so the value would be code`,
      hint,
    };
  const where = WHERE[hole.place] ?? 'stands where it cannot be one value';
  if (hole.place === 'after-backslash')
    return {
      message: `the expression ${where}`,
      hint: 'leave the backslash out, or write $${ to keep the text as it is; `--fix` leaves it out',
    };
  if (hole.place === 'after-dollar')
    return {
      message: `the expression ${where}`,
      hint: 'write a backslash in front of the dollar sign; `--fix` does it',
    };
  return { message: `the expression ${where}`, hint };
}
