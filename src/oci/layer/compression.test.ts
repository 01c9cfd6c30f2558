import { gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { inPieces } from '../../testkit/images/index.ts';
import { decompress, sniffCompression } from './compression.ts';
import { DEFAULT_LIMITS } from './limits.ts';

async function unpacked(bytes: Uint8Array, limits = DEFAULT_LIMITS): Promise<string> {
  const parts: Buffer[] = [];
  try {
    for await (const part of decompress(inPieces(bytes, 7), limits)) parts.push(Buffer.from(part));
  } catch (error) {
    return codeFrom(error);
  }
  return Buffer.concat(parts).toString();
}

const skippable = Buffer.from('502a4d180300000061626300', 'hex').subarray(0, 11);
const gz = gzipSync('hello ');
const reserved = Buffer.from(gz);
reserved[3] = 0x80;
const zst = zstdCompressSync(Buffer.from('hello '));

describe('decompress', () => {
  it.each<[string, Uint8Array, string]>([
    ['plain', Buffer.from('hello '), 'hello '],
    ['short plain', Buffer.from('h'), 'h'],
    ['nothing', Buffer.alloc(0), ''],
    ['gzip', gz, 'hello '],
    ['gzip of nothing', gzipSync(''), ''],
    ['gzip of several members', Buffer.concat([gz, gzipSync(''), gzipSync('world')]), 'hello world'],
    ['zstd', zst, 'hello '],
    ['zstd of several frames', Buffer.concat([zst, zstdCompressSync(Buffer.from('world'))]), 'hello world'],
    ['zstd with a skippable frame last', Buffer.concat([zst, skippable]), 'hello '],
    ['zstd with a skippable frame first', Buffer.concat([skippable, zst]), 'hello '],
    ['rubbish after gzip', Buffer.concat([gz, Buffer.from('rubbish')]), 'OCI_LAYER_INVALID'],
    ['zeros after gzip', Buffer.concat([gz, Buffer.alloc(5)]), 'OCI_LAYER_INVALID'],
    ['rubbish after zstd', Buffer.concat([zst, Buffer.from('rubbish')]), 'OCI_LAYER_INVALID'],
    ['gzip cut short', gz.subarray(0, -4), 'OCI_LAYER_INVALID'],
    ['zstd cut short', zst.subarray(0, -2), 'OCI_LAYER_INVALID'],
    [
      'gzip with a wrong checksum',
      Buffer.concat([gz.subarray(0, -8), Buffer.alloc(4), gz.subarray(-4)]),
      'OCI_LAYER_INVALID',
    ],
    ['a second member cut short', Buffer.concat([gz, gz.subarray(0, 12)]), 'OCI_LAYER_INVALID'],
    ['xz', Buffer.from('fd377a585a000004', 'hex'), 'OCI_LAYER_INVALID'],
    ['gzip with a reserved flag', reserved, 'hello '],
  ])('%s', async (_what, bytes, result) => {
    expect(await unpacked(bytes)).toBe(result);
  });

  it('stops a bomb by ratio and by size', async () => {
    const bomb = gzipSync(Buffer.alloc(4_000_000));
    const limits = { ...DEFAULT_LIMITS, ratioFreeBytes: 1_000_000 };
    expect(await unpacked(bomb, limits)).toBe('OCI_LAYER_LIMIT');
    expect(await unpacked(bomb, { ...DEFAULT_LIMITS, maxBytes: 3_000_000 })).toBe('OCI_LAYER_LIMIT');
    expect(await unpacked(bomb)).toHaveLength(4_000_000);
  });

  it('L1 tells by the bytes', () => {
    expect(sniffCompression(gz)).toBe('gzip');
    expect(sniffCompression(zst)).toBe('zstd');
    expect(sniffCompression(Buffer.from('a'))).toBe('none');
  });

  it('hands on what the source throws', async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield gz.subarray(0, 10);
      throw new TypeError('from the source');
    }
    await expect(async () => {
      for await (const _part of decompress(broken()));
    }).rejects.toThrow('from the source');
  });
});
