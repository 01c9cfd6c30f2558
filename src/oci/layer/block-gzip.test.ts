import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { inPieces } from '../../testkit/images/index.ts';
import { noise as noiseOf } from '../../testkit/noise.ts';
import { fc } from '../../testkit/property.ts';
import { blockGzip } from './block-gzip.ts';
import { compressLayer } from './index.ts';

async function joined(parts: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const part of parts) all.push(part);
  return Buffer.concat(all);
}

/** Repeats beyond the window and the blocks, with pieces that nothing packs. */
function mixed(size: number): Buffer {
  const noise = noiseOf('mixed', 40_000);
  const text = Buffer.from('the same words again, '.repeat(3000));
  const parts: Buffer[] = [];
  for (let have = 0; have < size; have += noise.length + text.length) parts.push(noise, text);
  return Buffer.concat(parts).subarray(0, size);
}

describe('gzip in blocks', () => {
  it.each([0, 1, 511, 524_287, 524_288, 524_289, 3_000_001])('L27 %d bytes come out again', async (size) => {
    const bytes = mixed(size);
    const packed = await joined(blockGzip(inPieces(bytes, 70_001)));
    expect(gunzipSync(packed).equals(bytes)).toBe(true);
    expect(execFileSync('gzip', ['-dc'], { input: packed, maxBuffer: 2 ** 25 }).equals(bytes)).toBe(true);
  });

  it('L27 is one member, with the same bytes whatever the chunks and however few threads', async () => {
    const bytes = mixed(2_500_000);
    const first = await joined(blockGzip(inPieces(bytes, 1_000_000)));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1000, max: 3_000_000 }), async (piece) => {
        expect((await joined(blockGzip(inPieces(bytes, piece)))).equals(first)).toBe(true);
      }),
      { numRuns: 10 },
    );
    const script = `
      import { createHash } from 'node:crypto';
      import { blockGzip } from ${JSON.stringify(new URL('./block-gzip.ts', import.meta.url).href)};
      const parts = [];
      for await (const part of process.stdin) parts.push(part);
      const hash = createHash('sha256');
      for await (const part of blockGzip(parts)) hash.update(part);
      console.log(hash.digest('hex'));`;
    const env = { ...process.env, UV_THREADPOOL_SIZE: '1' };
    const args = ['--input-type=module', '-e', script];
    const alone = execFileSync(process.execPath, args, { input: bytes, env, encoding: 'utf8' }).trim();
    expect(alone).toBe(createHash('sha256').update(first).digest('hex'));
    expect(first.subarray(1).indexOf(Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]))).toBe(-1);
  });

  it('L27 is hardly larger than gzip of the whole', async () => {
    const bytes = mixed(4_000_000);
    const whole = execFileSync('gzip', ['-6n'], { input: bytes, maxBuffer: 2 ** 25 }).length;
    expect((await joined(blockGzip([bytes]))).length).toBeLessThan(whole * 1.03);
  });

  it('L27 stores what does not pack, and knows what was before it', async () => {
    const noise = noiseOf('stored', 57_344);
    const text = Buffer.from(noiseOf('text', 12_288).toString('base64'));
    const packed = await joined(blockGzip([Buffer.concat([noise, text, noise.subarray(0, 8192), text])]));
    expect(packed.indexOf(noise)).toBeGreaterThan(0);
    expect(packed.length).toBeLessThan(57_344 + 8192 + 13_000);
    // The second one begins a block.
    const zeros = Buffer.alloc(524_288 - 24_576);
    const later = await joined(blockGzip([Buffer.concat([zeros, text, noise.subarray(0, 8192), text])]));
    expect(later.length).toBeLessThan(8192 + 15_000);
  });

  it('hands on what the source throws, and stops with the listener', async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(2_000_000);
      throw new TypeError('from the source');
    }
    await expect(joined(blockGzip(broken()))).rejects.toThrow('from the source');
    let closed = false;
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield Buffer.alloc(600_000);
      } finally {
        closed = true;
      }
    }
    for await (const _part of compressLayer(endless(), 'gzip').bytes) break;
    for await (const part of compressLayer(endless(), 'gzip').bytes) if (part.length > 100) break;
    expect(closed).toBe(true);
  });
});
