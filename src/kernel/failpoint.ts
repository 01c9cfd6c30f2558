/**
 * Stops this very process at a named moment, for the tests of what survives it: `SKYCAP_FAILPOINT=NAME` kills it with
 * SIGKILL, `NAME:SIGSTOP` freezes it once, so that a test can change the world around it. Read once; without it a
 * failpoint costs one comparison.
 */
const [name, signal = 'SIGKILL'] = (process.env.SKYCAP_FAILPOINT ?? '').split(':');
let chosen = name === '' ? undefined : name;

export function failpoint(moment: string): void {
  if (chosen !== moment) return;
  chosen = undefined;
  process.kill(process.pid, signal);
}
