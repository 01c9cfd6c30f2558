/**
 * The forms in which docs/security.md (S21) promises that a sensitive value is never left anywhere, written down a
 * second time on purpose: a test that borrowed the product's own list could not see what the list lacks.
 */
export interface Form {
  readonly name: string;
  readonly bytes: Buffer;
}

/** Every promised form of a value; those shorter than six characters would be found by chance and are left out. */
export function promisedForms(value: string | Uint8Array): readonly Form[] {
  const whole = Buffer.from(value);
  const lines = splitLines(whole).filter((line) => [...line.toString()].length >= 6);
  const pieces = new Map([['value', whole], ...lines.map((line, at) => [`line ${at + 1}`, line] as const)]);
  const forms: Form[] = [];
  for (const [piece, bytes] of pieces) {
    const text = bytes.toString();
    const strings: Record<string, string> = {
      JSON: JSON.stringify(text).slice(1, -1),
      URL: encodeURIComponent(text),
      'URL, strict': percentEncoded(bytes),
      'shell, single quotes': text.split("'").join(`'\\''`),
      hex: bytes.toString('hex'),
      HEX: bytes.toString('hex').toUpperCase(),
    };
    forms.push({ name: `${piece}, raw`, bytes });
    for (const [name, form] of Object.entries(strings))
      forms.push({ name: `${piece}, ${name}`, bytes: Buffer.from(form) });
    for (const before of ['', 'x', 'xy']) {
      for (const alphabet of ['base64', 'base64url'] as const) {
        const form = Buffer.from(certainBase64(bytes, before, alphabet));
        forms.push({ name: `${piece}, ${alphabet} after ${before.length} bytes`, bytes: form });
      }
    }
  }
  return forms.filter((form) => form.bytes.length >= 6);
}

/** Names of the forms of `value` that stand in `bytes`. */
export function formsIn(bytes: Buffer, value: string | Uint8Array): readonly string[] {
  return promisedForms(value)
    .filter((form) => bytes.includes(form.bytes))
    .map((form) => form.name);
}

function splitLines(bytes: Buffer): Buffer[] {
  return bytes
    .toString('latin1')
    .split(/\r?\n/)
    .map((line) => Buffer.from(line, 'latin1'));
}

function percentEncoded(bytes: Buffer): string {
  let text = '';
  for (const byte of bytes) {
    const character = String.fromCharCode(byte);
    text += /[A-Za-z0-9._~-]/.test(character)
      ? character
      : `%${byte.toString(16).padStart(2, '0').toUpperCase()}`;
  }
  return text;
}

/** The characters that are the same whatever comes before (of that length) and after: found by trying. */
function certainBase64(bytes: Buffer, before: string, alphabet: 'base64' | 'base64url'): string {
  const tries = [0x00, 0x55, 0xaa, 0xff].map((around) =>
    Buffer.concat([Buffer.alloc(before.length, around), bytes, Buffer.alloc(3, around)]).toString(alphabet),
  );
  const [first = ''] = tries;
  const same = [...first].map((character, at) => tries.every((other) => other[at] === character));
  const start = same.indexOf(true);
  const end = same.indexOf(false, start);
  return first.slice(start, end < 0 ? undefined : end);
}
