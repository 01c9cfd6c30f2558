import { expect, it } from 'vitest';
import { fc } from '../testkit/property.ts';
import { LineSplitter } from './lines.ts';

function split(text: string, size: number): readonly string[] {
  const bytes = Buffer.from(text);
  const splitter = new LineSplitter();
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += size)
    lines.push(...splitter.write(bytes.subarray(at, at + size)));
  return [...lines, ...splitter.end()];
}

it('cuts at line breaks alone, whatever the chunks are', () => {
  const line = fc.string({ unit: fc.constantFrom('a', 'é', '€', '😀', '\r', ' '), maxLength: 9 });
  fc.assert(
    fc.property(fc.array(line, { maxLength: 9 }), fc.integer({ min: 1, max: 20 }), (lines, size) => {
      const whole = lines.map((each) => `${each}\n`);
      expect(split(whole.join(''), size)).toEqual(whole);
      expect(split(`${whole.join('')}end`, size)).toEqual([...whole, 'end']);
    }),
  );
});

it('hands a line beyond 1 MiB on in pieces of that', () => {
  const line = 'x'.repeat(2.5 * 2 ** 20);
  const pieces = split(`${line}\nshort\n`, 4096);
  expect(pieces.map(({ length }) => length)).toEqual([2 ** 20, 2 ** 20, 2 ** 19 + 1, 6]);
  expect(pieces.join('')).toBe(`${line}\nshort\n`);
});

it('keeps a character whole where a long line is cut', () => {
  const line = `x${'😀'.repeat(2 ** 19)}`;
  const pieces = split(line, 4096);
  expect(pieces.map(({ length }) => length)).toEqual([2 ** 20 - 1, 2]);
  expect(pieces.every((piece) => piece.isWellFormed())).toBe(true);
});
