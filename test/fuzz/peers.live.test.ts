import { describe, expect, it } from 'vitest';
import { fuzz } from './fuzz.ts';
import { target as image } from './targets/erofs-image.ts';
import { target as tar } from './targets/tar.ts';
import type { Target } from './types.ts';

// As root, with GNU tar and erofs-utils. The whole runs are `npm run fuzz`.
const few = { seed: 3, seconds: 3600, maxInputs: 60, peers: true };
const always = <V>(target: Target<V>): Target<V> => ({
  ...target,
  seeds: () => [],
  ...(target.peer === undefined ? {} : { peer: { ...target.peer, every: 1 } }),
});

describe('peers that judge what is fuzzed', () => {
  it('GNU tar lists and gives what we read', async () => {
    const { failure, asked } = await fuzz(always(tar), few);
    expect(failure?.problem).toBeUndefined();
    expect(asked).toBeGreaterThan(20);
  });

  it('fsck.erofs is content with our images, and extracts what the layers say', async () => {
    const { failure, asked } = await fuzz(always(image), few);
    expect(failure?.problem).toBeUndefined();
    expect(asked).toBeGreaterThan(20);
  });

  it('GNU tar is a judge: an entry left out, another size and another body are told', async () => {
    const { bytes } = await tar.make({
      below: () => 0,
      chance: () => false,
      pick: ([one]) => one as never,
      text: (_, length) => 'b'.repeat(length),
    });
    const [read] = await tar.parse(bytes);
    const said = async (value: readonly unknown[]): Promise<string> => {
      const verdict = await tar.peer?.judge(value as never, bytes);
      return verdict !== undefined && 'problem' in verdict ? verdict.problem : 'nothing';
    };
    expect(await said([read])).toBe('nothing');
    expect(await said([])).toContain('where we have undefined');
    expect(await said([{ ...read, entry: { ...read?.entry, uid: 7 } }])).toContain('"7"');
    expect(await said([{ entry: read?.entry, body: Buffer.from('more') }])).toContain('bytes of bodies');
  });

  it('fsck.erofs is a judge: a wrong byte of the image, another owner and a name too many are told', async () => {
    const { bytes } = await image.make({
      below: (end) => (end === 9 ? 3 : 5 % end),
      chance: () => false,
      pick: ([one]) => one as never,
      text: (_, length) => 'b'.repeat(length),
    });
    const read = await image.parse(bytes);
    const said = async (change: object): Promise<string> => {
      const verdict = await image.peer?.judge({ ...read, ...change }, bytes);
      return verdict !== undefined && 'problem' in verdict ? verdict.problem : 'nothing';
    };
    expect(await said({})).toBe('nothing');
    const wrong = Buffer.from(read.bytes);
    wrong[1024 + 90] = 1;
    expect(await said({ bytes: wrong })).toMatch(/checksum|crc/i);
    const [root, ...rest] = read.told;
    expect(rest.length).toBeGreaterThan(0);
    expect(await said({ told: [{ ...root, entry: { ...root?.entry, uid: 9 } }, ...rest] })).toContain(
      'where the layer has',
    );
    expect(await said({ told: [root] })).toContain('names of 0');
  });
});
