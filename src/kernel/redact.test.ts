import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { cpuSeconds } from '../testkit/cpu.ts';
import { fc } from '../testkit/property.ts';
import { createRedactor, MASK } from './redact.ts';
import { formsOf } from './redact-forms.ts';

const latin1 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');
const bytesOf = (text: string): Buffer => Buffer.from(text, 'latin1');

/** The rule in its plainest words: every byte of every occurrence of every form goes; what overlaps is one mask. */
function slowMask(text: string, values: readonly string[]): string {
  const hidden = new Array<boolean>(text.length).fill(false);
  const joins = new Array<boolean>(text.length).fill(false);
  for (const form of new Set(values.flatMap((value) => [...formsOf(bytesOf(value))]))) {
    for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + 1)) {
      hidden.fill(true, at, at + form.length);
      joins.fill(true, at + 1, at + form.length);
    }
  }
  let out = '';
  for (let at = 0; at < text.length; at++) {
    if (!hidden[at]) out += text[at];
    else if (!joins[at]) out += MASK;
  }
  return out;
}

function inPieces(
  redactor: ReturnType<typeof createRedactor>,
  text: string,
  cuts: readonly number[],
): string {
  const stream = redactor.stream();
  const edges = [...new Set([0, ...cuts.map((cut) => cut % (text.length + 1)), text.length])].sort(
    (a, b) => a - b,
  );
  let out = '';
  for (let index = 1; index < edges.length; index++) {
    out += latin1(stream.write(bytesOf(text.slice(edges[index - 1], edges[index]))));
  }
  return out + latin1(stream.flush());
}

// Few letters, so that secrets overlap, nest and repeat.
const letters = fc.constantFrom('a', 'b', '\n', "'", '/');
const secret = fc.string({ unit: letters, minLength: 4, maxLength: 40 });
// Whole blocks of the matcher in sequences that are suffixes and prefixes of each other.
const blocks = fc
  .array(fc.constantFrom('abababab', 'bbbbbbbb', 'ab'), { minLength: 2, maxLength: 6 })
  .map((parts) => parts.join(''));
const anyBytes = fc.uint8Array({ minLength: 4, maxLength: 40 }).map(latin1);

describe('masking', () => {
  it('masks exactly the bytes of all forms, however the stream is cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(secret, blocks, anyBytes), { minLength: 1, maxLength: 5 }),
        fc.array(
          fc.oneof(
            fc.nat(4),
            fc.string({ unit: letters, maxLength: 12 }),
            fc.uint8Array({ maxLength: 9 }).map(latin1),
          ),
          {
            maxLength: 20,
          },
        ),
        fc.array(fc.nat(), { maxLength: 12 }),
        fc.nat(),
        (values, parts, cuts, pick) => {
          const usable = values.filter(
            (value) => createRedactor([{ name: 's', value: bytesOf(value) }]).unmasked.length === 0,
          );
          const forms = usable.flatMap((value) => [...formsOf(bytesOf(value))]);
          const text = parts
            .map((part) =>
              typeof part === 'number' ? (forms[(part + pick) % Math.max(1, forms.length)] ?? '') : part,
            )
            .join('');
          const redactor = createRedactor(values.map((value) => ({ name: 's', value: bytesOf(value) })));
          const expected = slowMask(text, usable);
          expect(latin1(redactor.bytes(bytesOf(text)))).toBe(expected);
          expect(inPieces(redactor, text, cuts)).toBe(expected);
        },
      ),
      { numRuns: 1500 },
    );
  });

  it('hides each promised form of any value in any surroundings', () => {
    fc.assert(
      fc.property(
        fc
          .string({ unit: 'binary', minLength: 4, maxLength: 60 })
          .filter((value) => !/^(true|false)$/i.test(value.trim())),
        fc.uint8Array({ maxLength: 5 }),
        fc.uint8Array({ maxLength: 5 }),
        (value, before, after) => {
          fc.pre([...value].length >= 4);
          const redactor = createRedactor([{ name: 's', value }]);
          const raw = Buffer.from(value, 'utf8');
          const around = Buffer.concat([before, raw, after]);
          const gone = (encoded: string | Buffer): void => {
            const text = Buffer.concat([
              Buffer.from('<'),
              typeof encoded === 'string' ? Buffer.from(encoded, 'utf8') : encoded,
              Buffer.from('>'),
            ]);
            expect(latin1(redactor.bytes(text))).toBe(`<${MASK}>`);
          };
          gone(raw);
          gone(JSON.stringify(value).slice(1, -1));
          if (value.isWellFormed()) {
            gone(encodeURIComponent(value));
            gone(new URLSearchParams([['', value]]).toString().slice(1));
          }
          gone(value.replaceAll("'", "'\\''"));
          gone(raw.toString('hex'));
          gone(raw.toString('hex').toUpperCase());
          gone(raw.toString('base64'));
          gone(raw.toString('base64url'));
          // Within something longer the characters that hold bits of this value alone go.
          for (const encoding of ['base64', 'base64url'] as const) {
            const encoded = around.toString(encoding);
            const masked = redactor.text(encoded);
            const own = encoded.slice(
              Math.ceil((before.length * 8) / 6),
              Math.floor(((before.length + raw.length) * 8) / 6),
            );
            expect(masked).not.toContain(own);
            expect(masked).toContain(MASK);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('knows how encoders of JSON escape', () => {
    const value = `naïve/"pass"\\u00E9\\ <b>&'x' =+\` \u{1f511}\n2nd`;
    const redactor = createRedactor([{ name: 's', value: { value } }]);
    const encode = (special: RegExp, { upper = false, slash = false } = {}): string =>
      [
        ...JSON.stringify(value)
          .slice(1, -1)
          .matchAll(/\\.|[^\\]/gs),
      ]
        .map(([part]) => {
          if (part === '\\"' ? special.test('"') : part.length === 1 && special.test(part)) {
            const digits = part
              .charCodeAt(part.length - 1)
              .toString(16)
              .padStart(4, '0');
            return `\\u${upper ? digits.toUpperCase() : digits}`;
          }
          return slash && part === '/' ? '\\/' : part;
        })
        .join('');
    const encoded = {
      php: encode(/[^ -~]/, { slash: true }),
      'php, text as it is': encode(/(?!)/, { slash: true }),
      python: encode(/[^ -~]/),
      jackson: encode(/[^ -~]/, { upper: true }),
      go: encode(/[<>&]/),
      'rails in ASCII': encode(/[<>&]|[^ -~]/),
      gson: encode(/[<>&=']/),
      dotnet: encode(/["<>&'+`]|[^ -~]/, { upper: true }),
      'json in json': JSON.stringify(JSON.stringify(value).slice(1, -1)).slice(1, -1),
      'python in python': encode(/[^ -~]/)
        .replaceAll('\\', '\\\\')
        .replaceAll('"', '\\"'),
    };
    for (const [encoder, text] of Object.entries(encoded))
      expect(redactor.text(`<${text}>`), encoder).toBe(`<${MASK}>`);
    // Nobody writes it so, and it is not looked for.
    expect(redactor.text(encode(/[nps]/))).not.toContain(MASK);
  });

  it('knows how real shells quote', () => {
    const values = [
      'it\'s a $(secret) `x` "y" \\z!',
      'tab\there and #hash',
      '#start ~x a=~b',
      'two\nlines & <more>',
      'ümläut ’quote’',
      'esc\u001b[0m\u0007',
    ];
    for (const value of values) {
      const redactor = createRedactor([{ name: 's', value }]);
      for (const [shell, script] of [
        ['bash', 'printf %q "$1"'],
        ['bash', `printf %s "\${1@Q}"`],
        ['bash', 'exec 2>&1; set -x; : "$1"'],
        ['dash', 'exec 2>&1; set -x; : "$1"'],
      ] as const) {
        for (const LC_ALL of ['C', 'C.UTF-8']) {
          const out = execFileSync(shell, ['-c', script, 'x', value], {
            env: { PATH: process.env.PATH, HOME: '/nowhere', LC_ALL },
            stdio: ['ignore', 'pipe', 'pipe'],
          });
          const masked = latin1(redactor.bytes(out)).replace(/\\?'\\?''/g, '');
          expect(masked.replaceAll(MASK, ''), `${shell} ${script} ${value}: ${masked}`).toMatch(
            /^(\+ : )?\$?'?'?\s*$/,
          );
        }
      }
    }
  });

  it('masks each line of six or more characters of a value of several lines', () => {
    const redactor = createRedactor([{ name: 'key', value: '-----BEGIN-----\r\nabcdef\r\nabcde\nghijkl\n' }]);
    expect(redactor.text('1 -----BEGIN----- 2 abcdef 3 abcde 4 ghijkl')).toBe(
      `1 ${MASK} 2 ${MASK} 3 abcde 4 ${MASK}`,
    );
    expect(redactor.text(Buffer.from('ghijkl').toString('hex'))).toBe(MASK);
  });

  it('masks a value without its final line break', () => {
    expect(createRedactor([{ name: 'pin', value: '1234\n' }]).text('pin=1234.')).toBe(`pin=${MASK}.`);
  });

  it('leaves short values and booleans, and says which', () => {
    const redactor = createRedactor([
      { name: 'short', value: 'abc' },
      { name: 'accents', value: 'äöü' },
      { name: 'switch', value: true },
      { name: 'word', value: 'FALSE\n' },
      { name: 'number', value: 7 },
      { name: 'empty', value: '' },
      { name: 'unset', value: undefined },
      { name: 'fine', value: 12345 },
    ]);
    expect(redactor.unmasked).toEqual(['short', 'accents', 'switch', 'word', 'number']);
    expect(redactor.text('abc äöü true FALSE 7 12345')).toBe(`abc äöü true FALSE 7 ${MASK}`);
  });

  it('masks leaves of objects and strings in data', () => {
    const redactor = createRedactor([{ name: 'db', value: { user: 'admin1', deep: [{ pw: 'pass"word' }] } }]);
    const data = { step: 'x admin1', 'key pass"word': [1, null, 'pass\\"word', true] };
    expect(redactor.data(data)).toEqual({ step: `x ${MASK}`, [`key ${MASK}`]: [1, null, MASK, true] });
  });

  it('takes values later, for what follows in open streams too', () => {
    const redactor = createRedactor();
    const stream = redactor.stream();
    expect(latin1(stream.write(bytesOf('early secret-1 ')))).toBe('early secret-1 ');
    redactor.add({ name: 'late', value: 'secret-1' });
    expect(latin1(stream.write(bytesOf('late secr')))).toBe('late ');
    redactor.add({ name: 'later', value: 'another-secret-of-some-length' });
    expect(latin1(stream.write(bytesOf('et-1 and another-secret-of-some-length.')))).toBe(
      `${MASK} and ${MASK}.`,
    );
    expect(latin1(stream.flush())).toBe('');
  });

  it('hands text on at once where no secret can begin', () => {
    const stream = createRedactor([{ name: 's', value: 'Zecret-value' }]).stream();
    expect(latin1(stream.write(bytesOf('building: 17%\n')))).toBe('building: 17%\n');
    expect(latin1(stream.write(bytesOf('password: Zecret-value\n')))).toBe(`password: ${MASK}\n`);
  });

  it('keeps binary data without secrets byte for byte', () => {
    const redactor = createRedactor([{ name: 's', value: 'super-secret-value' }]);
    const data = Buffer.from(Array.from({ length: 65536 }, (_, index) => (index * 7919) >>> 3));
    expect(Buffer.from(redactor.bytes(data)).equals(data)).toBe(true);
  });

  it('is linear: a value of 1 MB, repetitive and not, in single bytes and as a whole', async () => {
    const hard = 'ab'.repeat(500_000);
    const lines = Array.from(
      { length: 5_000 },
      (_, index) => `line ${index}: "${(index * 2654435761).toString(36)}"/x`,
    ).join('\n');
    const took = await cpuSeconds(() => {
      for (const value of [hard, lines]) {
        const redactor = createRedactor([{ name: 'big', value }]);
        expect(redactor.text(`<${value}>`)).toBe(`<${MASK}>`);
        const stream = redactor.stream();
        const almost = Buffer.from(`${value.slice(0, -1)}!`);
        let out = 0;
        for (let at = 0; at < almost.length; at++) out += stream.write(almost.subarray(at, at + 1)).length;
        out += stream.flush().length;
        expect(out).toBeGreaterThan(0);
      }
    });
    expect(took).toBeLessThan(30);
  });
});
