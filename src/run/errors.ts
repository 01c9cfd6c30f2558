import { errorTable } from '../kernel/index.ts';

export const runError = errorTable({
  STEP_FAILED: { exit: 50, summary: 'a step ended with an exit code that is not zero' },
  STEP_TIMEOUT: { exit: 50, summary: 'a step ran longer than its timeout' },
  STEP_OUT_OF_MEMORY: { exit: 50, summary: 'the kernel ended a step that went over its memory limit' },
  STEP_NOT_FOUND: { exit: 50, summary: "a step's program is not in its image" },
  STEP_NOT_EXECUTABLE: { exit: 50, summary: "a step's program cannot be executed" },
  STEP_UNKNOWN: { exit: 51, summary: 'a step was running when Skycap died and nothing tells how it ended' },
  OUTPUT_MISSING: { exit: 50, summary: 'a declared output was not written' },
  OUTPUT_INVALID: { exit: 50, summary: "an output's value does not fit its type or query" },
  WORKSPACE_TOO_LARGE: {
    exit: 60,
    summary: 'what the run changed in the workspace is too large to keep as state',
  },
  RUN_CANCELLED: { exit: 130, summary: 'the run was cancelled' },
});
