/**
 * The forms in which a secret is recognised (docs/security.md, "Text"). Byte strings are JavaScript strings with
 * one character per byte (latin1), which makes sets and replacements simple.
 */
export const LEAST_VALUE_CHARACTERS = 4;
const LEAST_LINE_CHARACTERS = 6;

/** Number of characters; of bytes where they are no UTF-8. */
export function characterCount(bytes: Uint8Array): number {
  const text = asText(bytes);
  if (text === undefined) return bytes.length;
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** Every form of the value and of its lines, without doubles. */
export function formsOf(value: Uint8Array): ReadonlySet<string> {
  const forms = new Set<string>();
  for (const piece of piecesOf(value)) addForms(forms, piece);
  return forms;
}

/** The value itself, the value without its final line break, and its lines of six or more characters. */
function piecesOf(value: Uint8Array): ReadonlySet<string> {
  const whole = Buffer.from(value).toString('latin1');
  const pieces = new Set([whole]);
  const trimmed = whole.replace(/\r?\n$/, '');
  if (characterCount(Buffer.from(trimmed, 'latin1')) >= LEAST_VALUE_CHARACTERS) pieces.add(trimmed);
  const lines = whole.split('\n');
  if (lines.length === 1) return pieces;
  for (const line of lines) {
    const text = line.endsWith('\r') ? line.slice(0, -1) : line;
    if (characterCount(Buffer.from(text, 'latin1')) >= LEAST_LINE_CHARACTERS) pieces.add(text);
  }
  return pieces;
}

function addForms(forms: Set<string>, raw: string): void {
  forms.add(raw);
  for (const form of jsonForms(raw)) forms.add(form);
  for (const form of urlForms(raw)) forms.add(form);
  for (const form of shellForms(raw)) forms.add(form);
  const bytes = Buffer.from(raw, 'latin1');
  const hex = bytes.toString('hex');
  forms.add(hex);
  forms.add(hex.toUpperCase());
  for (const form of base64Forms(bytes)) if (form.length >= LEAST_VALUE_CHARACTERS) forms.add(form);
}

function asText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function utf8(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

const unicodeEscape = (character: string): string =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

const everyEscape = /\\(?:u[0-9a-f]{4}|.)/g;

/**
 * Without the outer quotes, as encoders in use write a string: JavaScript and most others; Go (`<`, `>`, `&` escaped);
 * Gson (`=` and `'`, too); .NET (quotes, `+` and the backtick, too). Each also in ASCII alone (Python), with digits of
 * both cases, and where it is common with `/` escaped (PHP). At last twice over: JSON as a string in JSON.
 */
function jsonForms(raw: string): readonly string[] {
  const text = asText(Buffer.from(raw, 'latin1'));
  if (text === undefined) return [];
  const plain = JSON.stringify(text).slice(1, -1);
  const ascii = inAscii(plain);
  const go = plain.replace(/[<>&\u2028\u2029]/g, unicodeEscape);
  const gson = plain.replace(/[<>&='\u2028\u2029]/g, unicodeEscape);
  const dotnet = plain
    .replace(everyEscape, (found) => (found === '\\"' ? '\\u0022' : found))
    .replace(/[<>&'+`]/g, unicodeEscape);
  const lower = [plain, ascii, go, inAscii(go), gson, inAscii(dotnet)];
  const once = new Set([...lower, ...lower.map(withUpperDigits)]);
  const slashes = [plain, ascii, withUpperDigits(ascii)].map((form) => form.replaceAll('/', '\\/'));
  const twice = [plain, ascii].map((form) => JSON.stringify(form).slice(1, -1));
  return [...once, ...slashes, ...twice].map(utf8);
}

function inAscii(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, unicodeEscape);
}

function withUpperDigits(json: string): string {
  return json.replace(everyEscape, (found) =>
    found.startsWith('\\u') ? `\\u${found.slice(2).toUpperCase()}` : found,
  );
}

const UNRESERVED = 'A-Za-z0-9_.~\\-';
// What stays unescaped: RFC 3986 unreserved; encodeURIComponent; encodeURI; Python's quote; the form encoding of
// the URL standard. The last two write a blank as `+`.
const URL_KEEPS = [
  { keep: UNRESERVED, plus: false },
  { keep: `${UNRESERVED}!'()*`, plus: false },
  { keep: `${UNRESERVED}!'()*;/?:@&=+$,#`, plus: false },
  { keep: `${UNRESERVED}/`, plus: false },
  { keep: 'A-Za-z0-9*_.-', plus: true },
  { keep: UNRESERVED, plus: true },
].map(({ keep, plus }) => ({ escaped: new RegExp(`[^${keep}]`, 'g'), plus }));

function urlForms(raw: string): readonly string[] {
  return URL_KEEPS.flatMap(({ escaped, plus }) => {
    const quote = (byte: string, upper: boolean): string => {
      if (plus && byte === ' ') return '+';
      const digits = byte.charCodeAt(0).toString(16).padStart(2, '0');
      return `%${upper ? digits.toUpperCase() : digits}`;
    };
    return [
      raw.replace(escaped, (byte) => quote(byte, true)),
      raw.replace(escaped, (byte) => quote(byte, false)),
    ];
  });
}

const ANSI_C: Readonly<Record<string, string>> = {
  '\u0007': '\\a',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\v': '\\v',
  '\f': '\\f',
  '\r': '\\r',
  '\u001b': '\\E',
  "'": "\\'",
  '\\': '\\\\',
};

function ansiC(byte: string): string {
  return ANSI_C[byte] ?? `\\${byte.charCodeAt(0).toString(8).padStart(3, '0')}`;
}

/**
 * Inside single quotes (`'\''` as bash, `'"'"'` as dash and Python), inside double quotes, with backslashes as
 * bash's `printf %q`, and inside `$'…'`, with bytes above 127 as they are and as octal numbers.
 */
function shellForms(raw: string): readonly string[] {
  return [
    raw.replaceAll("'", "'\\''"),
    raw.replaceAll("'", `'"'"'`),
    raw.replace(/["$`\\]/g, '\\$&'),
    raw.replace(/["$`\\!]/g, '\\$&'),
    // bash escapes `#` at the start and `~` at the start and after `:` and `=`.
    raw.replace(/[\t !"$&'()*,;<>?[\\\]^`{|}]/g, '\\$&').replace(/^[#~]|(?<=[:=])~/g, '\\$&'),
    raw.replace(/[^A-Za-z0-9_@%+=:,./\x80-\xff-]/g, '\\$&'),
    raw.replace(/[\x00-\x1f\x7f'\\]/g, ansiC),
    raw.replace(/[\x00-\x1f\x7f-\xff'\\]/g, ansiC),
  ];
}

/**
 * Base64 (RFC 4648) of a text that contains the value: whatever stands before it, the value's own bits give the
 * same characters in one of three alignments. Characters shared with a neighbour are not part of the form.
 */
function base64Forms(bytes: Buffer): readonly string[] {
  const forms: string[] = [];
  for (const before of [0, 1, 2]) {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const from = Math.ceil((before * 8) / 6);
    const to = Math.floor(((before + bytes.length) * 8) / 6);
    forms.push(encoded.slice(from, to));
    // Encoded by itself its last characters are known too.
    if (before === 0) forms.push(encoded, encoded.replace(/=+$/, ''));
  }
  return forms.flatMap((form) => [form, form.replaceAll('+', '-').replaceAll('/', '_')]);
}
