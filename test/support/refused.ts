import type { Ran } from './world.ts';

export interface Refusal {
  readonly code: string;
  readonly exit: number;
  /** What the message has to name: the thing and the place. */
  readonly says: readonly (string | RegExp)[];
}

/**
 * The run, if it ended as an error should: with its exit code, its error code, the thing and the place in one message
 * on stderr, a hint, and nothing on stdout; else an error that shows what it said.
 */
export function expectRefused(ran: Ran, refusal: Refusal): Ran {
  const { code, exit, says } = refusal;
  const message = errorMessages(ran.stderr);
  const first = message.split('\n')[0] ?? '';
  const wrong = [
    ...(ran.code === exit ? [] : [`exit code ${ran.code ?? ran.signal}, expected ${exit}`]),
    ...(first.startsWith(`error [${code}] `) ? [] : [`no error [${code}]`]),
    ...(message.split('\n').filter((line) => line.startsWith('error [')).length === 1
      ? []
      : ['not one message']),
    ...says.filter((text) => !has(message, text)).map((text) => `does not say ${String(text)}`),
    ...(/^ {2}hint: \S/m.test(message) ? [] : ['no hint']),
    ...(/^ {2}(?: {2})?at .*\.(?:js|ts):\d+:\d+/m.test(message) ? ['a stack'] : []),
  ];
  if (wrong.length === 0) return ran;
  throw new Error(`${wrong.join('; ')}\nstdout:\n${ran.stdout}\nstderr:\n${ran.stderr}`);
}

/** From the first error on; events come before it. */
function errorMessages(stderr: string): string {
  const at = stderr.search(/^error \[/m);
  return at === -1 ? '' : stderr.slice(at);
}

function has(message: string, text: string | RegExp): boolean {
  return typeof text === 'string' ? message.includes(text) : text.test(message);
}
