import { expect, it } from 'vitest';
import { createRedactor } from '../kernel/index.ts';
import type { PlanStep } from '../plan/index.ts';
import type { RunEvent } from './events.ts';
import { StepOutput } from './step-output.ts';

function holding(maxBytes: number) {
  const step = {
    id: 'say',
    suppressOutput: false,
    outputs: [{ name: 'token', sensitive: true, source: { kind: 'stdout' } }],
  } as unknown as PlanStep;
  const events: RunEvent[] = [];
  const emit = (event: RunEvent): void => void events.push(event);
  const redactor = createRedactor();
  const printed = new StepOutput(step, redactor, { emit, showLive: false, maxBytes });
  const shown = (): string =>
    events.flatMap((event) => (event.type === 'step.output' ? [event.text] : [])).join('');
  const notices = (): readonly string[] =>
    events.flatMap((event) => (event.type === 'notice' ? [event.code] : []));
  return { printed, redactor, shown, notices };
}

const outputs = (text: string) =>
  new Map([['token', { json: text, bytes: Buffer.from(text), sensitive: true }]]);

it('holds no more than its limit, and hides what is over it', () => {
  const { printed, shown, notices } = holding(32);
  printed.write('stdout', Buffer.from('the-token\n'));
  printed.write('stderr', Buffer.from('so far so good\n'));
  for (let i = 0; i < 1000; i += 1) printed.write('stderr', Buffer.from('and so on'));
  printed.write('stderr', Buffer.from('.'));
  printed.end(outputs('the-token'));

  expect(shown()).toBe('*******\nso far so good\n');
  expect(notices()).toEqual(['output-hidden']);
});

it('shows nothing of a secret whose end is over the limit', () => {
  const { printed, redactor, shown } = holding(32);
  redactor.add({ name: 'other', value: 'correct-horse-battery' });
  printed.write('stderr', Buffer.from('it is correct-horse'));
  printed.write('stderr', Buffer.from('-battery and more'));
  printed.end(outputs(''));

  expect(shown()).toBe('it is ');
});

it('says nothing where all that it held is shown', () => {
  const { printed, shown, notices } = holding(32);
  printed.write('stdout', Buffer.from('the-token'));
  printed.end(outputs('the-token'));

  expect(shown()).toBe('*******');
  expect(notices()).toEqual([]);
});
