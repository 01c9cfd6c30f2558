import { gzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { inPieces, tarOf } from '../../testkit/images/index.ts';
import { owned } from './memory.ts';
import type { LayerSink } from './sink.ts';
import { unpackLayer } from './unpack.ts';

/** Parts as they came, and what was in them then. */
class Noting {
  readonly parts: Buffer[] = [];
  bytes = '';
}

function noting(into: Noting, copies: boolean): LayerSink {
  return {
    ...(copies ? { copies } : {}),
    async put(_entry, next) {
      for (let part = await next(); part !== undefined; part = await next()) {
        into.parts.push(part);
        into.bytes += part.toString('latin1');
      }
    },
    finish: async () => {},
    abort: async () => {},
  };
}

const content = Buffer.alloc(1_500_000, 'some of it and more, ').toString();
const tar = tarOf([
  { path: 'f', content },
  { path: 'g', content: 'after it' },
]);
const { signal } = new AbortController();

it.each([
  ['gzip', true, true],
  ['gzip', false, false],
  ['none', true, false],
] as const)(
  'of a chunk (%s) after a sink that copies (%s) is let go of: %s',
  async (kind, copies, isGone) => {
    const noted = new Noting();
    const blob = kind === 'gzip' ? gzipSync(tar) : Buffer.from(tar);
    await unpackLayer(inPieces(blob, 300_000), noting(noted, copies), { map: undefined, signal });
    expect(noted.bytes).toBe(`${content}after it`);
    expect(noted.parts.some(({ length }) => length === 0)).toBe(isGone);
  },
);

it('of a plain layer goes as well where it was read for nothing else', async () => {
  async function* chunks(): AsyncGenerator<Buffer> {
    for (let at = 0; at < tar.length; at += 100_000)
      yield Buffer.from(Uint8Array.from(tar.subarray(at, at + 100_000)).buffer);
  }
  for (const [blob, isGone] of [
    [owned(chunks()), true],
    [chunks(), false],
  ] as const) {
    const noted = new Noting();
    await unpackLayer(blob, noting(noted, true), { map: undefined, signal });
    expect(noted.bytes).toBe(`${content}after it`);
    expect(noted.parts.some(({ length }) => length === 0)).toBe(isGone);
  }
});

it('what reaches over the end of a chunk stays', async () => {
  const long = Buffer.alloc(3000, 'abcdefg');
  // 512 of the header, and 1024 before the end of a chunk begins the record of the next file.
  const first = { path: 'f', content: 'x'.repeat(262_144 - 512 - 1024) };
  const blob = gzipSync(tarOf([first, { path: 'g', xattrs: new Map([['user.long', long]]) }]));
  const noted = new Noting();
  const found: (Buffer | undefined)[] = [];
  const sink: LayerSink = {
    ...noting(noted, true),
    put: async (entry, next) => {
      await noting(noted, true).put(entry, next);
      found.push(entry.xattrs?.get('user.long'));
    },
  };
  await unpackLayer(inPieces(blob, 300_000), sink, { map: undefined, signal });
  expect(found.filter((value) => value !== undefined)).toEqual([long]);
});
