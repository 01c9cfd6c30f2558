/**
 * Kills this very process with SIGKILL at a named moment, for the tests of what survives it. `SKYCAP_FAILPOINT` is
 * read once; without it a failpoint costs one comparison.
 */
const chosen = process.env.SKYCAP_FAILPOINT;

export function failpoint(name: string): void {
  if (chosen === name) process.kill(process.pid, 'SIGKILL');
}
