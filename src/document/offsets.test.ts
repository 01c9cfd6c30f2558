import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { fc } from '../testkit/property.ts';
import { applyEdits } from './edits.ts';
import { childOf, type ScalarNode } from './node.ts';
import { editScalar, sourceOffset, sourceSpan, styleAt } from './offsets.ts';
import { parseYaml } from './syntax/index.ts';

function scalarIn(source: string, key = 'run'): ScalarNode {
  const document = parseYaml(source, { file: 't.yaml' });
  expect(document.problems).toEqual([]);
  const node = childOf(document.root, key);
  if (node?.kind !== 'scalar') throw new Error('no scalar');
  return node;
}

/** Every offset of the text leads to a source character that stands for the text's character. */
function checkAll(source: string): number {
  const node = scalarIn(source);
  let exact = 0;
  let before = -1;
  for (let i = 0; i < node.text.length; i++) {
    const at = sourceOffset(source, node, i);
    expect(at).toBeGreaterThanOrEqual(before);
    expect(at).toBeGreaterThanOrEqual(node.span.start);
    if (/[A-Za-z0-9${}.]/.test(node.text[i] as string) && source[at] !== '\\') {
      expect(source[at], `offset ${i} of ${JSON.stringify(node.text)} in ${JSON.stringify(source)}`).toBe(
        node.text[i],
      );
      exact++;
    }
    before = at;
  }
  return exact;
}

test.each([
  'run: plain ${ bundle.name } text',
  'run: plain\n  goes on\n\n  here',
  "run: 'it''s ${ a }\n  folded'",
  'run: "tab\\t \\u0041 \\x42 ${ a }\\n  end \\\n   joined\n\n  far"',
  'run: |\n  one ${ a }\n    two\n\n  three\n',
  'run: |-\n  one\n  two',
  'run: |+\n  one\n\n\nnext: 1',
  'run: |2\n   one\n  two\n',
  'run: >\n  one\n  two\n\n  three\n    deeper\n  back\n',
  'run: >-\n\n  one\n   two\n  three\n\n\n  four',
  'run: |  # comment\n  one\r\n  two\r\n',
  'run: |\r\n  one\r\n  two\r\n',
  'run: &anchor !!str "x ${ a }"',
])('%j', (source) => {
  expect(checkAll(source)).toBeGreaterThan(2);
});

const word = fc.stringMatching(/^[A-Za-z0-9${}. :#'"\\\t|>-]{0,12}$/);
const value = fc.array(word, { minLength: 1, maxLength: 6 }).map((lines) => lines.join('\n'));
const type = fc.constantFrom('PLAIN', 'QUOTE_SINGLE', 'QUOTE_DOUBLE', 'BLOCK_LITERAL', 'BLOCK_FOLDED');

test('each way of writing a value leads back to its characters', () => {
  const seen = new Map<string, number>();
  fc.assert(
    fc.property(value, type, fc.integer({ min: 20, max: 90 }), (text, defaultStringType, lineWidth) => {
      const source = stringify(
        { run: text, next: 1 },
        {
          defaultStringType: defaultStringType as 'PLAIN',
          lineWidth,
          minContentWidth: 0,
          blockQuote: defaultStringType === 'BLOCK_FOLDED' ? 'folded' : true,
        },
      );
      const node = scalarIn(source);
      // The library writes a few double-quoted texts so that it reads another one back.
      fc.pre(node.text === text);
      const style = styleAt(source, node.span);
      seen.set(style, (seen.get(style) ?? 0) + 1);
      // A text that could not be rebuilt would map everything to the beginning.
      if (text.length > 1)
        expect(sourceOffset(source, node, text.length - 1)).toBeGreaterThan(node.span.start);
      checkAll(source);
    }),
    { numRuns: 2000 },
  );
  expect([...seen.keys()].sort()).toEqual(['double', 'folded', 'literal', 'plain', 'single']);
});

test('an edit in the text is the same edit in the source, however the value is written', () => {
  fc.assert(
    fc.property(value, type, (lines, defaultStringType) => {
      const text = `${lines}X\${ bundle.name }Y`;
      const source = stringify({ run: text, next: 1 }, { defaultStringType: defaultStringType as 'PLAIN' });
      const node = scalarIn(source);
      fc.pre(node.text === text);
      const start = text.length - 1 - '${ bundle.name }'.length;
      const edits = editScalar(source, node, [{ span: { start, end: text.length - 1 }, text: '"$NAME"' }]);
      if (edits === undefined) return;
      const after = scalarIn(applyEdits(source, edits));
      expect(after.text.replace(/\s+/g, ' ')).toBe(`${lines}X"$NAME"Y`.replace(/\s+/g, ' '));
    }),
    { numRuns: 1000 },
  );
});

test('a span in the text covers whole escapes in the source', () => {
  const source = 'run: "a\\u0041b"';
  const node = scalarIn(source);
  const span = sourceSpan(source, node, { start: 1, end: 2 });
  expect(source.slice(span.start, span.end)).toBe('\\u0041');
});
