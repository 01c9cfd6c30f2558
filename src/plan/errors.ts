import { errorTable } from '../kernel/index.ts';

export const planError = errorTable({
  ACTION_UNKNOWN: { exit: 10, summary: 'the bundle declares no such action' },
  ACTION_NEEDS_MIGRATION: { exit: 18, summary: 'the action has mixin steps, which come with migration' },
  STEP_NO_COMMAND: { exit: 15, summary: 'a step names no command and its image has none' },
  MATRIX_INVALID: {
    exit: 15,
    summary: 'a matrix has no values, too many, or values that are not known before the run',
  },
  VALUE_NOT_TEXT: {
    exit: 15,
    summary: 'a value that is no UTF-8 cannot be an argument, variable or script text',
  },
  CONDITION_INVALID: { exit: 15, summary: 'a `when` gave something else than true or false' },
  DIRECTORY_OUTSIDE: { exit: 15, summary: "a step's `dir` leads out of /cnab/app" },
});
