import { errorTable } from '../kernel/index.ts';

export const secretsError = errorTable({
  SECRET_ARGUMENT: { exit: 2, summary: 'a `--credential` argument cannot be read' },
  SECRET_SOURCE_REFUSED: {
    exit: 2,
    summary: 'a source that reads from this host was named by something that may not name it',
  },
  SECRET_MISSING: { exit: 2, summary: "the variable or file of a credential's source is not there" },
  SECRET_UNREADABLE: { exit: 2, summary: "the file of a credential's source cannot be used" },
  SECRET_COMMAND_FAILED: { exit: 2, summary: "the command of a credential's source failed" },
});
