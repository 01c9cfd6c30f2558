import { expect, it } from 'vitest';
import { notUtf8At } from './utf8.ts';

it.each([
  ['', undefined],
  ['\xef\xbb\xbfname: caf\xc3\xa9 \xef\xbf\xbd\n', undefined],
  ['\xe9', { line: 1, column: 1 }],
  ['a: b\nc: caf\xc3\xa9 caf\xe9\n', { line: 2, column: 12 }],
  ['\xef\xbf\xbd\xff', { line: 1, column: 2 }],
  ['a\n\xc3', { line: 2, column: 1 }],
  ['\xff\xfea\0', { line: 1, column: 1 }],
])('%j is no UTF-8 at %j', (text, place) => {
  expect(notUtf8At(Buffer.from(text, 'latin1'))).toEqual(place);
});
