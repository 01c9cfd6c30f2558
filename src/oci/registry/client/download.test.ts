import { describe, expect, it } from 'vitest';
import {
  asking,
  codeOf,
  collect,
  type Reply,
  type Script,
  scriptedRegistry,
} from '../../../testkit/registry/index.ts';
import { digestOf } from '../../names/index.ts';
import type { Descriptor } from '../../types.ts';

const BYTES = Buffer.from(Array.from({ length: 5000 }, (_, index) => index % 251));
const BLOB: Descriptor = { mediaType: 'x', digest: digestOf(BYTES), size: BYTES.length };
const PATH = `/v2/team/app/blobs/${BLOB.digest}`;
const KEY = `GET ${PATH}`;

const rangeOf = (header: string | undefined): number => Number(/^bytes=(\d+)-$/.exec(header ?? '')?.[1] ?? 0);
const ranged = (start: number, more: Partial<Reply> = {}): Reply => ({
  status: 206,
  headers: { 'content-range': `bytes ${start}-${BYTES.length - 1}/${BYTES.length}` },
  body: BYTES.subarray(start),
  ...more,
});

async function fetchFrom(
  script: Reply | readonly Reply[] | Script,
  offset = 0,
): Promise<{
  result: Buffer | string;
  ranges: (string | undefined)[];
  retries: number;
  slept: readonly number[];
}> {
  await using registry = await scriptedRegistry({ [KEY]: script });
  await using asked = asking();
  let result: Buffer | string = '';
  const read = async (): Promise<void> => {
    result = await collect(await asked.client.getBlob(asked.at(registry.host), BLOB, offset, asked.options));
  };
  const code = await codeOf(read());
  return {
    result: code === 'no error' ? result : code,
    ranges: registry.asked.filter((entry) => entry.path === PATH).map((entry) => entry.headers.range),
    retries: asked.events.filter((event) => event.type === 'blob.retry').length,
    slept: asked.clock.slept,
  };
}

describe('a blob', () => {
  it('R115 comes whole, or from an offset', async () => {
    expect(await fetchFrom({ body: BYTES })).toMatchObject({ result: BYTES, ranges: [undefined] });
    expect(await fetchFrom((asked) => ranged(rangeOf(asked.headers.range)), 1234)).toMatchObject({
      result: BYTES.subarray(1234),
      ranges: ['bytes=1234-'],
    });
    expect(await fetchFrom({ status: 500 }, BYTES.length)).toMatchObject({
      result: Buffer.alloc(0),
      ranges: [],
    });
  });

  it('R115 R138 goes on where a connection broke', async () => {
    const outcome = await fetchFrom((asked) =>
      asked.headers.range === undefined
        ? { body: BYTES, cutAfter: 2000 }
        : ranged(rangeOf(asked.headers.range), rangeOf(asked.headers.range) < 3000 ? { cutAfter: 1500 } : {}),
    );
    expect(outcome).toMatchObject({ result: BYTES, retries: 2 });
    expect(outcome.ranges).toEqual([undefined, 'bytes=2000-', 'bytes=3500-']);
  });

  it('R118 R138 goes on where an answer without a length ended early', async () => {
    const outcome = await fetchFrom((asked) =>
      asked.headers.range === undefined
        ? { body: BYTES.subarray(0, 100), headers: { 'transfer-encoding': 'chunked', 'content-length': [] } }
        : ranged(rangeOf(asked.headers.range)),
    );
    expect(outcome).toMatchObject({ result: BYTES, ranges: [undefined, 'bytes=100-'] });
  });

  it('R116 R137 is not doubled where Range is ignored', async () => {
    let count = 0;
    expect(
      await fetchFrom(() => ({ body: BYTES, ...(++count === 1 ? { cutAfter: 2000 } : {}) })),
    ).toMatchObject({ result: BYTES, ranges: [undefined, 'bytes=2000-'] });
    expect(await fetchFrom({ body: BYTES }, 700)).toMatchObject({ result: BYTES.subarray(700) });
  });

  it('R117 is asked for anew where the range is refused or another than asked', async () => {
    for (const wrong of [
      { status: 416 },
      ranged(0),
      { ...ranged(10), headers: { 'content-range': `bytes 10-4999/9999` } },
      { ...ranged(10), headers: {} },
    ]) {
      expect(
        await fetchFrom((asked) => (asked.headers.range === undefined ? { body: BYTES } : wrong), 10),
      ).toMatchObject({
        result: BYTES.subarray(10),
        ranges: ['bytes=10-', undefined],
      });
    }
  });

  it('R118 that keeps breaking without progress ends in an error', async () => {
    const outcome = await fetchFrom((asked) => ({
      ...(asked.headers.range === undefined ? { body: BYTES } : ranged(rangeOf(asked.headers.range))),
      cutAfter: 1,
    }));
    expect(outcome.result).toBe('REGISTRY_TRUNCATED');
    expect(outcome.ranges.length).toBeLessThanOrEqual(6);
  });

  const refused = [
    ['longer than declared, announced', { body: Buffer.concat([BYTES, BYTES]) }],
    [
      'longer than declared, unannounced',
      {
        body: Buffer.concat([BYTES, Buffer.from('x')]),
        headers: { 'transfer-encoding': 'chunked', 'content-length': [] },
      },
    ],
    ['endless', { endless: true }],
    ['another file', { body: '<html>', headers: { 'content-type': 'text/html' } }],
    ['compressed on its way', { body: BYTES, headers: { 'content-encoding': 'gzip' } }],
  ] as const;
  it.each(refused)('R112 R113 R155 %s is refused', async (_, reply: Reply) => {
    expect((await fetchFrom(reply)).result).toBe('REGISTRY_ANSWER_INVALID');
  });

  it('that is not there is said to be missing', async () => {
    expect((await fetchFrom({ status: 404, body: '{"errors":[{"code":"BLOB_UNKNOWN"}]}' })).result).toBe(
      'REGISTRY_NOT_FOUND',
    );
  });

  it('R104 with an unchecked digest is never asked for', async () => {
    await using registry = await scriptedRegistry({});
    await using asked = asking();
    const digest = 'sha256:../../../etc/passwd' as Descriptor['digest'];
    expect(
      await codeOf(asked.client.getBlob(asked.at(registry.host), { ...BLOB, digest }, 0, asked.options)),
    ).toBe('DIGEST_INVALID');
    expect(
      await codeOf(asked.client.getManifest({ registry: registry.host, repository: '../x' }, asked.options)),
    ).toBe('REFERENCE_INVALID');
    expect(registry.lines()).toEqual([]);
  });

  it('stops at the signal', async () => {
    await using registry = await scriptedRegistry({ [KEY]: { endless: true } });
    await using asked = asking();
    const stop = new AbortController();
    const reason = new Error('enough');
    const big = { ...BLOB, size: 1e12 };
    const body = await asked.client.getBlob(asked.at(registry.host), big, 0, {
      ...asked.options,
      signal: stop.signal,
    });
    const read = (async () => {
      for await (const _ of body) stop.abort(reason);
    })();
    await expect(read).rejects.toBe(reason);
  });
});
