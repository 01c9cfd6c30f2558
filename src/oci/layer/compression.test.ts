import { gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { codeFrom } from '../../testkit/coded.ts';
import { inPieces } from '../../testkit/images/index.ts';
import { decompress, emptyVolume, grow, sniffCompression } from './compression.ts';
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

  it('says what is wrong', async () => {
    const said = async (bytes: Uint8Array, limits = DEFAULT_LIMITS): Promise<string> => {
      try {
        for await (const _part of decompress(inPieces(bytes, 7), limits));
        return 'done';
      } catch (error) {
        return (error as Error).message.replace(/^the layer (is not a valid tar archive: )?/, '');
      }
    };
    const foreign = (what: string): string => `it is compressed with ${what}; layers are plain, gzip or zstd`;
    expect(await said(Buffer.from('fd377a585a000004', 'hex'))).toBe(foreign('xz'));
    expect(await said(Buffer.from('425a6839', 'hex'))).toBe(foreign('bzip2'));
    expect(await said(Buffer.from('xfd377a585a0042', 'latin1'))).toBe('done');
    expect(await said(Buffer.concat([gz, Buffer.from('rubbish')]))).toMatch(
      /rubbish follows the gzip stream|damaged/,
    );
    expect(await said(Buffer.concat([zst, Buffer.from('rubbish')]))).toBe('rubbish follows the zstd stream');
    expect(await said(zst.subarray(0, -2))).toBe('its zstd stream is cut short');
    expect(await said(gz.subarray(0, -4))).toBe('its gzip stream is damaged (unexpected end of file)');
    const reservedBlock = Buffer.from('28b52ffd2000070000', 'hex');
    expect(await said(reservedBlock)).toBe('a zstd block has a reserved type');
    const limits = { ...DEFAULT_LIMITS, maxBytes: 100, ratioFreeBytes: 10, maxRatio: 3 };
    expect(await said(Buffer.alloc(100, 'x'), limits)).toBe('done');
    expect(await said(Buffer.alloc(101, 'x'), limits)).toBe('has more than 100 bytes when unpacked');
    const packed = gzipSync(Buffer.alloc(90));
    expect(await said(packed, limits)).toBe('has more than 3 times its packed size');
    expect(await said(packed, { ...limits, ratioFreeBytes: 90 })).toBe('done');
    expect(await said(packed, { ...limits, maxRatio: 90 / packed.length })).toBe('done');
  });

  it('L1 tells from four bytes, or two', () => {
    const kinds = (hex: string): string => sniffCompression(Buffer.from(hex, 'hex'));
    expect(['', '1f', '1f8b', '1f8c', '8b1f', '28b52f', '28b52ffd', '28b52ffe'].map(kinds)).toEqual([
      'none',
      'none',
      'gzip',
      'none',
      'none',
      'none',
      'zstd',
      'none',
    ]);
    expect(['4f2a4d18', '502a4d18', '5f2a4d18', '602a4d18'].map(kinds)).toEqual([
      'none',
      'zstd',
      'zstd',
      'none',
    ]);
  });

  it('counts what it was given and what it gave', async () => {
    const volume = emptyVolume();
    for await (const _part of decompress(inPieces(gz, 7), DEFAULT_LIMITS, volume));
    expect(volume).toEqual({ packed: gz.length, unpacked: 6, grown: 0 });
    grow(volume, 10, DEFAULT_LIMITS);
    expect(volume.grown).toBe(10);
    const most = { ...DEFAULT_LIMITS, maxBytes: 20 };
    grow(volume, 4, most);
    expect(() => grow(volume, 1, most)).toThrow('the layer has more than 20 bytes when unpacked');
  });
});
