/** What this engine does not keep of docs/security.md; the plan and `doctor` print it. */
export const DOCKER_GAPS: readonly string[] = [
  'no user namespace of our own: root in a step is root of the daemon unless it remaps ids',
  'link-local metadata addresses can be reached with `network: default`',
  'volumes and the workspace are mounted with suid and dev',
  'environment and arguments of a step are visible to everyone who may use the daemon until the container is removed',
  'secret files that a daemon cannot mount from this host’s tmpfs lie in the container’s layer on the daemon’s disk',
  'the workspace lies on the daemon’s disk; its entries are given to each step’s user in turn, so steps of different users that run at once see them change',
  'images stay in the daemon after the run',
];
