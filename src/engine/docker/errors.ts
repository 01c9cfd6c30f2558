import { errorTable } from '../../kernel/index.ts';

export const dockerError = errorTable({
  ENGINE_DOCKER_UNREACHABLE: { exit: 40, summary: 'the Docker daemon does not answer on its socket' },
  ENGINE_DOCKER_ADDRESS: {
    exit: 40,
    summary: "the Docker daemon's address is of a kind that is not supported",
  },
  ENGINE_DOCKER_FAILED: { exit: 41, summary: 'the Docker daemon refused or broke off a request' },
  ENGINE_DOCKER_IMAGE: {
    exit: 41,
    summary: 'the Docker daemon could not take an image, or holds another one',
  },
  ENGINE_DOCKER_SECRET_PLACE: {
    exit: 42,
    summary: 'a secret file below the workspace, with a daemon that does not see this host’s files',
  },
});
