import type { Ran } from './world.ts';

/** What a step printed, as the events of `--progress json` tell it. */
export function printed(ran: Ran, step: string): string {
  return ran.events
    .filter((event) => event.type === 'step.output' && event.step === step)
    .map((event) => String(event.text).replace(/\n$/, ''))
    .join('\n');
}
