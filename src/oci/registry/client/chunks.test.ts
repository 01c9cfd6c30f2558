import { describe, expect, it } from 'vitest';
import type { Asked, Reply } from '../../../testkit/registry/index.ts';
import {
  BLOB,
  BYTES,
  countingRegistry,
  here,
  pushBlob,
  START,
  sent,
  UPLOADS,
} from '../../../testkit/registry/pushing.ts';
import { digestOf } from '../../names/index.ts';

const CHUNK = 128 * 1024;

describe('chunks', () => {
  const client = { chunkSize: CHUNK };

  it('R70 R71 follow each new location, the last one with the closing request', async () => {
    const { rules, state } = countingRegistry();
    const outcome = await pushBlob(rules, { client });
    expect(outcome.result).toBe('uploaded');
    expect(state.bytes.equals(BYTES)).toBe(true);
    expect(outcome.opened).toEqual([0]);
    expect(outcome.lines.slice(2)).toEqual([
      `PATCH ${UPLOADS}1`,
      `PATCH ${UPLOADS}1?n=1`,
      `PUT ${UPLOADS}1?n=2&digest=D`,
    ]);
    expect(
      [...sent(outcome, 'PATCH'), ...sent(outcome, 'PUT')].map((entry) => entry.headers['content-range']),
    ).toEqual(['0-131071', '131072-262143', '262144-299999']);
    expect(sent(outcome, 'PUT')[0]?.body.length).toBeGreaterThan(0);
  });

  it('R68 are as large as the registry wants them at least', async () => {
    const { rules } = countingRegistry({ start: { 'oci-chunk-min-length': '200000' } });
    const outcome = await pushBlob(rules, { client });
    expect(sent(outcome, 'PATCH').map((entry) => entry.body.length)).toEqual([200_000]);
  });

  it('R69 that a registry wants too large to be held go in one request, streamed', async () => {
    const { rules, state } = countingRegistry({ start: { 'oci-chunk-min-length': '100000000000' } });
    const outcome = await pushBlob(rules, { client });
    expect(outcome.result).toBe('uploaded');
    expect(sent(outcome, 'PATCH')).toEqual([]);
    expect(sent(outcome, 'PUT').map((entry) => entry.headers['content-range'])).toEqual([undefined]);
    expect(outcome.opened).toEqual([0]);
    expect(state.bytes.equals(BYTES)).toBe(true);
  });

  it.each([413, 416])(
    'R73 R139 refused with %i get smaller, within the same upload, and stay so for the next blob',
    async (status) => {
      const { rules, state } = countingRegistry({ limit: 100_000, status });
      const outcome = await pushBlob(rules, { client, before: [Buffer.alloc(140_000, 'x')] });
      expect(outcome.result).toBe('uploaded');
      expect(state.bytes.equals(BYTES)).toBe(true);
      expect(sent(outcome, 'POST')).toHaveLength(1);
      expect(sent(outcome, 'PATCH').every((entry) => entry.body.length <= 65_536)).toBe(true);
      const first = await pushBlob(countingRegistry({ limit: 100_000, status }).rules, { client });
      expect(sent(first, 'POST')).toHaveLength(1);
      expect(sent(first, 'PATCH').map((entry) => entry.body.length)[0]).toBe(CHUNK);
      expect(first.result).toBe('uploaded');
    },
  );

  it('R73 never get smaller than the registry wants them', async () => {
    const { rules } = countingRegistry({ limit: 100_000, start: { 'oci-chunk-min-length': '120000' } });
    const outcome = await pushBlob(rules, { client });
    expect(outcome.result).toBe('REGISTRY_REFUSED');
    expect(sent(outcome, 'PATCH').every((entry) => entry.body.length >= 120_000)).toBe(true);
  });

  it.each([413, 416])('R74 R139 are used where the whole is refused with %i', async (status) => {
    const bytes = Buffer.alloc(9_000_000, 'y');
    const blob = { ...BLOB, digest: digestOf(bytes), size: bytes.length };
    const { rules, state } = countingRegistry({ limit: 4 * 1024 * 1024, status });
    const outcome = await pushBlob(rules, { blob, bytes });
    expect(outcome.result).toBe('uploaded');
    expect(state.bytes.equals(bytes)).toBe(true);
    expect(sent(outcome, 'PATCH').map((entry) => entry.body.length)).toEqual([4_194_304, 4_194_304]);
  });

  it('R72 go on after one that got through though its answer was lost', async () => {
    let lost = false;
    const inner = countingRegistry();
    const patch = inner.rules[`PATCH ${UPLOADS}1`] as (asked: Asked) => Reply;
    const outcome = await pushBlob(
      {
        ...inner.rules,
        [`PATCH ${UPLOADS}1`]: (asked) => {
          const answer = patch(asked);
          if (lost) return answer;
          lost = true;
          return { status: 502 };
        },
      },
      { client },
    );
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0] });
    expect(inner.state.bytes.equals(BYTES)).toBe(true);
    expect(sent(outcome, 'POST')).toHaveLength(1);
    expect(sent(outcome, 'GET').at(-1)?.path).toBe(`${UPLOADS}1`);
  });

  it('R75 go on where only a part of one was taken', async () => {
    const state = { bytes: Buffer.alloc(0) };
    const outcome = await pushBlob(
      {
        [START]: here(),
        [`PATCH ${UPLOADS}1`]: (asked) => {
          state.bytes = Buffer.concat([state.bytes, asked.body.subarray(0, 50_000)]);
          return here(`${UPLOADS}1`, { range: `0-${state.bytes.length - 1}` });
        },
        [`PUT ${UPLOADS}1`]: (asked) => {
          state.bytes = Buffer.concat([state.bytes, asked.body]);
          return { status: 201 };
        },
      },
      { client },
    );
    expect(outcome.result).toBe('uploaded');
    expect(state.bytes.equals(BYTES)).toBe(true);
  });

  it('R72 start over where the registry has forgotten them', async () => {
    let forgot = false;
    const { rules, state } = countingRegistry({
      fail: (_, count) => {
        if (count !== 2 || forgot) return undefined;
        forgot = true;
        state.bytes = Buffer.alloc(0);
        return { status: 416 };
      },
    });
    const outcome = await pushBlob(rules, { client });
    expect(outcome).toMatchObject({ result: 'uploaded', opened: [0, 0] });
    expect(state.bytes.equals(BYTES)).toBe(true);
  });

  it('R76 whose registry never agrees on how far they are end in an error', async () => {
    let end = 1000;
    const outcome = await pushBlob(
      {
        [START]: here(),
        [`PATCH ${UPLOADS}1`]: { status: 416 },
        [`GET ${UPLOADS}1`]: () => ({ status: 204, headers: { range: `0-${end++}` } }),
      },
      { client: { chunkSize: 200_000 } },
    );
    expect(outcome.result).toBe('REGISTRY_REFUSED');
    expect(outcome.asked.length).toBeLessThan(40);
  });

  it('R76 that are never taken end in an error', async () => {
    const outcome = await pushBlob(
      {
        [START]: here(),
        [`PATCH ${UPLOADS}1`]: { status: 416 },
        [`GET ${UPLOADS}1`]: { status: 204, headers: { range: '0-0' } },
      },
      { client },
    );
    expect(outcome.result).toBe('REGISTRY_REFUSED');
    expect(outcome.asked.length).toBeLessThan(20);
  });

  it('R76 of which a registry takes next to nothing each time end in an error', async () => {
    let taken = 0;
    const outcome = await pushBlob(
      {
        [START]: here(),
        [`PATCH ${UPLOADS}1`]: () => {
          taken += 2;
          return here(`${UPLOADS}1`, { range: `0-${taken}` });
        },
      },
      { client },
    );
    expect(outcome.result).toBe('REGISTRY_REFUSED');
    expect(outcome.asked.length).toBeLessThan(40);
  });

  it('R140 leave no empty closing request behind, whatever their size', async () => {
    const bytes = BYTES.subarray(0, 2 * CHUNK);
    const blob = { ...BLOB, digest: digestOf(bytes), size: bytes.length };
    const { rules } = countingRegistry({
      fail: (asked) => (asked.method === 'PUT' && asked.body.length === 0 ? { status: 500 } : undefined),
    });
    const outcome = await pushBlob(rules, { client, blob, bytes });
    expect(outcome).toMatchObject({ result: 'uploaded', slept: [] });
    expect(sent(outcome, 'PUT').map((entry) => entry.body.length)).toEqual([CHUNK]);
  });

  it('R70 R141 name their range without a unit and without a total', async () => {
    const { rules } = countingRegistry({
      fail: (asked) => (/^\d+-\d+$/.test(asked.headers['content-range'] ?? '') ? undefined : { status: 400 }),
    });
    expect((await pushBlob(rules, { client })).result).toBe('uploaded');
  });

  it('R67 R142 always have a length', async () => {
    const { rules } = countingRegistry({
      fail: (asked) =>
        asked.headers['content-length'] === undefined || asked.headers['transfer-encoding'] !== undefined
          ? { status: 411 }
          : undefined,
    });
    expect((await pushBlob(rules, { client })).result).toBe('uploaded');
    expect((await pushBlob(rules)).result).toBe('uploaded');
  });
});
