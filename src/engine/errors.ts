import { errorTable } from '../kernel/index.ts';

export const engineError = errorTable({
  ENGINE_NONE: { exit: 40, summary: 'no container engine on this host can be used' },
  ENGINE_UNKNOWN: { exit: 40, summary: 'the named engine does not exist or does not fit this host' },
  ENGINE_SESSION_FAILED: {
    exit: 41,
    summary: 'mounts, workspace or store of a session could not be made ready',
  },
  ENGINE_START_FAILED: { exit: 42, summary: 'the engine could not start a container' },
  ENGINE_RUN_INVALID: { exit: 42, summary: 'a container was described in a way that no engine can start' },
  ENGINE_USER_UNKNOWN: { exit: 43, summary: 'the image has no such user or group' },
  ENGINE_ENV_TOO_LONG: {
    exit: 43,
    summary: 'an argument or environment variable is longer than the kernel takes',
  },
  ENGINE_NETWORK_UNAVAILABLE: { exit: 44, summary: 'the network that a step wants cannot be made' },
  ENGINE_LIMIT_UNSUPPORTED: { exit: 45, summary: 'a resource limit cannot be kept on this host' },
  ENGINE_OUTPUT_TOO_LARGE: { exit: 46, summary: 'a collected file is larger than allowed' },
  ENGINE_ARCHIVE_INVALID: { exit: 47, summary: 'an archive for or from a workspace is damaged or unsafe' },
  ENGINE_CONTAINER_UNKNOWN: { exit: 48, summary: 'there is no container of that id' },
  ENGINE_VOLUME_REFUSED: { exit: 49, summary: 'a volume would cover a folder that must stay as it is' },
});
