import { createCipheriv } from 'node:crypto';
import { expect, it } from 'vitest';
import { isIncompressible, PIECE } from './incompressible.ts';

const words = Buffer.from(
  Array.from({ length: 200_000 }, (_, at) => `${(at * 7919) % 100_003} is number ${at}\n`).join(''),
);

/** The same in each run: one of some hundred pieces of noise is as uneven as nothing is by rule. */
const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16, 1), Buffer.alloc(16));
const noise = (size: number): Buffer => cipher.update(Buffer.alloc(size));

function walk(size: number): Buffer {
  let byte = 0;
  return noise(size).map((step) => {
    byte = (byte + (step & 127)) & 255;
    return byte;
  }) as Buffer;
}

function share(bytes: Uint8Array): number {
  let found = 0;
  let pieces = 0;
  for (let at = 0; at + PIECE <= bytes.length; at += PIECE, pieces++)
    if (isIncompressible(bytes, at, at + PIECE)) found++;
  return found / pieces;
}

it('finds noise', () => {
  expect(share(noise(200 * PIECE))).toBeGreaterThan(0.95);
});

it.each<[string, Buffer]>([
  ['text', words],
  ['zeros', Buffer.alloc(20 * PIECE)],
  ['noise of half of all bytes', noise(20 * PIECE).map((byte) => byte & 0x7f) as Buffer],
  ['base64 of noise', Buffer.from(noise(20 * PIECE).toString('base64'))],
  ['every byte as often, in their order', Buffer.alloc(20 * PIECE).map((_, at) => at & 255) as Buffer],
  ['even bytes, and half of all steps', walk(20 * PIECE)],
  [
    'even steps, and every other byte small',
    noise(20 * PIECE).map((byte, at) => (at % 2 === 0 ? byte : byte & 15)) as Buffer,
  ],
  ['steps as even as bytes, and periodic', Buffer.alloc(20 * PIECE, noise(2000))],
])('does not take %s for it', (_, bytes) => {
  expect(share(bytes)).toBe(0);
});

it('looks for repetitions in the piece before as well, wherever they begin', () => {
  const once = noise(PIECE - 13);
  const twice = Buffer.concat([once, once, noise(26)]);
  expect(isIncompressible(twice, PIECE, PIECE * 2)).toBe(false);
  const alone = twice.subarray(PIECE, PIECE * 2);
  expect(isIncompressible(Buffer.concat([noise(PIECE), alone]), PIECE, PIECE * 2)).toBe(true);

  const before = Buffer.alloc(PIECE, once.subarray(0, 700));
  expect(isIncompressible(Buffer.concat([before, noise(PIECE)]), PIECE, PIECE * 2)).toBe(true);
});
