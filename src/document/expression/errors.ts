import { errorTable } from '../../kernel/index.ts';

/** Messages name the expression and its place and never hold a value. */
export const expressionError = errorTable({
  EXPRESSION_SYNTAX: { exit: 12, summary: 'an expression cannot be read' },
  EXPRESSION_UNKNOWN_NAME: { exit: 12, summary: 'an expression names something that does not exist' },
  EXPRESSION_SCOPE: { exit: 12, summary: 'an expression names something that may not be used in this place' },
  EXPRESSION_NO_VALUE: { exit: 12, summary: 'an expression names something that has no value yet' },
  EXPRESSION_LATE: { exit: 12, summary: 'an expression needs a value that only the run can know' },
  EXPRESSION_TYPE: { exit: 12, summary: 'a value in an expression has the wrong type' },
  EXPRESSION_FUNCTION: {
    exit: 12,
    summary: 'a function of an expression cannot work with what it was given',
  },
  EXPRESSION_DUPLICATE_KEY: {
    exit: 12,
    summary: 'two keys of a map are equal once their expressions are filled in',
  },
  EXPRESSION_BYTES: {
    exit: 12,
    summary: 'a value holds NUL or is not UTF-8 text, where a program must receive it',
  },
  EXPRESSION_TOO_LONG: {
    exit: 12,
    summary: 'a value is longer than the kernel lets an argument or variable be',
  },
  EXPRESSION_LIMIT: { exit: 12, summary: 'an expression or value is nested too deeply or grows too large' },
  SCRIPT_PLACE: { exit: 12, summary: 'an expression stands where a script would evaluate it' },
});
