/** Bytes looked at as one: a stretch of them is worth a block of its own from one piece on. */
export const PIECE = 4 * 1024;

/** One byte of so many is counted; odd, so that it meets all columns of a table. */
const STEP = 3;
/** 3.5 times the deviation that bytes by chance have: of a thousand pieces of noise one is deflated. */
const EVEN = 1.05;
/** A first look, which text and programs do not pass. */
const WIDE_STEP = 61;
const NEARLY_EVEN = 1.6;
/** Of the words that are looked up: about one in 64 positions. */
const MARK = 63;
/** So many words seen before in a piece are a match that deflate would have found. */
const SEEN = 3;

const bytes = new Uint16Array(256);
const steps = new Uint16Array(256);
const slots = new Int32Array(4096);

/**
 * Whether deflate would gain nothing from `block[start, end)`: all bytes are about as frequent as each other, and so
 * are the differences of neighbours, and nothing of it was there just before: what encrypted files look like, and
 * many packed ones. Of 79,000 pieces of a Debian system this found 3,540: deflate took at most 5.8 % off one of them,
 * and made all together larger.
 */
export function isIncompressible(block: Uint8Array, start: number, end: number): boolean {
  return (
    unevenness(block, start, end, WIDE_STEP) < NEARLY_EVEN &&
    unevenness(block, start, end, STEP) < EVEN &&
    !repeats(block, start, end)
  );
}

/** Squares of how often there is each byte, or each difference, over what they would be by chance. */
function unevenness(block: Uint8Array, start: number, end: number, step: number): number {
  bytes.fill(0);
  steps.fill(0);
  let count = 0;
  for (let at = start + 1; at < end; at += step) {
    const byte = block[at] as number;
    (bytes[byte] as number)++;
    (steps[(byte - (block[at - 1] as number)) & 255] as number)++;
    count++;
  }
  let ofBytes = 0;
  let ofSteps = 0;
  for (let value = 0; value < 256; value++) {
    ofBytes += (bytes[value] as number) ** 2;
    ofSteps += (steps[value] as number) ** 2;
  }
  return Math.max(ofBytes, ofSteps) / (count + (count * (count - 1)) / 256);
}

/** Looks some words up, chosen by what they are and not by where they stand: a repetition has the same ones. */
function repeats(block: Uint8Array, start: number, end: number): boolean {
  slots.fill(-1);
  let seen = 0;
  for (let at = Math.max(0, start - PIECE); at + 4 <= end; at++) {
    if (((block[at] as number) & MARK) !== 0) continue;
    const word = wordAt(block, at);
    const slot = Math.imul(word, 0x9e3779b1) >>> 20;
    const before = slots[slot] as number;
    if (at >= start && before !== -1 && wordAt(block, before) === word && ++seen === SEEN) return true;
    slots[slot] = at;
  }
  return false;
}

function wordAt(block: Uint8Array, at: number): number {
  return (
    (block[at] as number) |
    ((block[at + 1] as number) << 8) |
    ((block[at + 2] as number) << 16) |
    ((block[at + 3] as number) << 24)
  );
}
