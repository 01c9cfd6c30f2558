import { engineError } from '../errors.ts';
import type { ContainerExit, ContainerRun } from '../port.ts';
import { messageOf } from './api.ts';
import { HELPER_PATH } from './helper/index.ts';
import type { SupervisorAnswer } from './supervisor.ts';

/** What the runtime says where the container could not start; without our first process also of the command itself. */
export function notStarted(
  run: ContainerRun,
  answer: Extract<SupervisorAnswer, { readonly started: false }>,
): ContainerExit {
  const message = messageOf(answer.message);
  const now = new Date().toISOString();
  const base = { startedAt: now, finishedAt: now, message };
  if (!message.includes(HELPER_PATH) && /executable file not found|no such file or directory/.test(message)) {
    return { exitCode: 127, cause: 'not-found', ...base };
  }
  if (!/chdir to cwd/.test(message) && /exec: .*permission denied/.test(message))
    return { exitCode: 126, cause: 'not-executable', ...base };
  throw engineError(
    'ENGINE_START_FAILED',
    `the Docker daemon could not start ${run.containerId}: ${message}`,
    {
      hint: /exec format error/.test(message)
        ? 'the image is for another processor than this host has'
        : 'look at the message of the runtime above',
    },
  );
}
