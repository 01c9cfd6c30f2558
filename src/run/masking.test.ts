import { expect, it } from 'vitest';
import { createRedactor } from '../kernel/index.ts';
import type { RunEvent } from './events.ts';
import { maskValue } from './masking.ts';

it('masks an object as a whole and in its parts, and says once what is too short', () => {
  const redactor = createRedactor();
  const events: RunEvent[] = [];
  const bytes = Buffer.from('{ "user": "somebody-long",\n  "pin": "12" }');
  const value = { name: 'login', json: { user: 'somebody-long', pin: '12' }, bytes };
  maskValue(redactor, value, (event) => void events.push(event));
  maskValue(redactor, value, (event) => void events.push(event));

  expect(redactor.text('it is somebody-long')).toBe('it is *******');
  expect(redactor.text(`all of ${bytes}`)).toBe('all of *******');
  expect(events).toEqual([
    {
      type: 'warning',
      code: 'value-not-masked',
      message: "too short to be masked in the steps' output: login",
    },
  ]);
});

it.each(['true', 'False'])('does not mask %s, whatever type it has', (text) => {
  const redactor = createRedactor();
  maskValue(redactor, { name: 'switch', json: text, bytes: Buffer.from(text) }, () => {});

  expect(redactor.text(`it is ${text}`)).toBe(`it is ${text}`);
  expect(redactor.unmasked).toEqual(['switch']);
});
