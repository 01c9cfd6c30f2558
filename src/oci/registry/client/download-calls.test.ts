import { describe, expect, it } from 'vitest';
import { HttpFailure } from '../../../kernel/http/index.ts';
import { type Canned, calling, collect, type Made } from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf } from '../../names/index.ts';
import { openBlob } from './download.ts';

const BYTES = Buffer.from(Array.from({ length: 5000 }, (_, at) => at % 251));
const DIGEST = digestOf(BYTES);
const MIB = 1024 * 1024;

type Replies = Parameters<typeof calling>[0];

async function get(replies: Replies, more: { offset?: number; size?: number; signal?: AbortSignal } = {}) {
  const { offset = 0, size = BYTES.length, signal } = more;
  const world = calling(replies, signal === undefined ? {} : { signal });
  let bytes: Buffer = Buffer.alloc(0);
  let error: unknown;
  try {
    bytes = await collect(await openBlob(world.target, { mediaType: 'x', digest: DIGEST, size }, offset));
  } catch (caught) {
    error = caught;
  }
  return { ...world, bytes, error, ranges: world.calls.map(({ headers }) => headers?.range) };
}

const ranged = (from: number, range = `bytes ${from}-4999/5000`, more: Canned = {}): Canned => ({
  status: 206,
  headers: { 'content-range': range },
  body: BYTES.subarray(from),
  ...more,
});
const gone = new HttpFailure('reset', 'gone');

describe('a blob is asked for', () => {
  const call: Made = {
    path: `team/app/blobs/${DIGEST}`,
    subject: `r.test/team/app:1, blob ${DIGEST}`,
    scopes: ['repository:team/app:pull'],
    accept: [200],
    headers: { 'accept-encoding': 'identity', range: undefined },
    lane: 'read',
  };

  it('whole, or from where it is missing, in its own lane and uncompressed', async () => {
    expect((await get([{ body: BYTES }])).calls).toEqual([call]);
    const rest = await get([ranged(10)], { offset: 10 });
    expect(rest.bytes).toEqual(BYTES.subarray(10));
    expect(rest.calls).toEqual([
      { ...call, accept: [200, 206, 416], headers: { ...call.headers, range: 'bytes=10-' } },
    ]);
  });

  it('to be lent where that is wanted', async () => {
    const { target, calls } = calling([{ body: BYTES }], { lend: true });
    const blob = { mediaType: 'x', digest: DIGEST, size: BYTES.length };
    await collect(await openBlob(target, blob, 0));
    expect(calls).toEqual([{ ...call, lend: true }]);
  });

  it.each([5000, 5001])('and not at all from byte %i on', async (offset) => {
    const { bytes, calls, error } = await get([], { offset });
    expect([bytes.length, calls, error]).toEqual([0, [], undefined]);
  });
});

describe('a range', () => {
  it.each(['bytes 10-4999/5000', 'bytes 10-4999/*', 'bytes 10-11/5000'])('of %s is taken', async (range) => {
    expect((await get([ranged(10, range)], { offset: 10 })).ranges).toEqual(['bytes=10-']);
  });

  it.each([
    'bytes 9-4999/5000',
    'bytes 10-4999/4999',
    'bytes 10-4999/5001',
    'bytes 10-4999/',
    'bytes 10-/5000',
    'bytes -4999/5000',
    'bytes x10-4999/5000',
    'bytes 10-x/5000',
    'bytes 10-4999/x',
    ' bytes 10-4999/5000',
    'bytes 10-4999/5000 ',
    'bytes 10-4999/**',
    '10-4999/5000',
    '',
  ])('of %j is none, and the whole is asked for', async (range) => {
    const outcome = await get([ranged(10, range), { body: BYTES }], { offset: 10 });
    expect(outcome.ranges).toEqual(['bytes=10-', undefined]);
    expect(outcome.bytes).toEqual(BYTES.subarray(10));
  });

  it('that is not given, or refused, is cut from the whole', async () => {
    for (const replies of [[{ body: BYTES }], [{ status: 416 }, { body: BYTES }]]) {
      for (const offset of [1, 999, 1000, 1001, 2000, 4999])
        expect((await get(replies, { offset })).bytes).toEqual(BYTES.subarray(offset));
    }
  });
});

describe('an answer', () => {
  const PROXY = 'check whether a proxy answers in place of the registry';
  const subject = `r.test/team/app:1, blob ${DIGEST}: `;

  it.each<[string, Canned, string]>([
    [
      'encoded',
      { headers: { 'content-encoding': 'gzip' }, body: BYTES },
      'the answer has the content encoding "gzip"',
    ],
    [
      'announced to be longer',
      { headers: { 'content-length': '5001' } },
      '5001 bytes were announced instead of 5000',
    ],
    [
      'announced to be shorter',
      { headers: { 'content-length': '4999' } },
      '4999 bytes were announced instead of 5000',
    ],
    ['longer', { body: Buffer.concat([BYTES, Buffer.from('x')]) }, 'more than its 5000 bytes were sent'],
  ])('that is %s is refused', async (_, reply, problem) => {
    const { error, pauses } = await get([reply]);
    expect(error).toMatchObject({
      code: 'REGISTRY_ANSWER_INVALID',
      message: `${subject}${problem}`,
      hint: PROXY,
    });
    expect(pauses).toEqual([]);
  });

  it('to a range that is announced to be longer is refused, a shorter one goes on where it ends', async () => {
    const announced = (length: number, to = 5000): Canned => ({
      ...ranged(10),
      headers: { 'content-range': 'bytes 10-4999/5000', 'content-length': `${length}` },
      body: BYTES.subarray(10, to),
    });
    const longer = await get([announced(4991)], { offset: 10 });
    expect(longer.error).toMatchObject({ message: `${subject}4991 bytes were announced instead of 4990` });
    expect((await get([announced(4990)], { offset: 10 })).bytes).toEqual(BYTES.subarray(10));
    const shorter = await get([announced(90, 100), ranged(100)], { offset: 10 });
    expect(shorter.bytes).toEqual(BYTES.subarray(10));
    expect(shorter.ranges).toEqual(['bytes=10-', 'bytes=100-']);
  });

  it('with its own length, or called unencoded, is taken', async () => {
    const headers = { 'content-encoding': 'identity', 'content-length': '5000' };
    expect((await get([{ headers, body: BYTES }])).bytes).toEqual(BYTES);
  });
});

describe('a transfer that breaks', () => {
  it('goes on where it ended, and says so', async () => {
    const outcome = await get([
      { body: BYTES.subarray(0, 2000), breaks: gone },
      ranged(2000, undefined, { body: BYTES.subarray(2000, 3000) }),
      ranged(3000),
    ]);
    expect(outcome.bytes).toEqual(BYTES);
    expect(outcome.ranges).toEqual([undefined, 'bytes=2000-', 'bytes=3000-']);
    expect(outcome.events).toEqual([
      { type: 'blob.retry', digest: DIGEST, reason: 'reset', offset: 2000 },
      { type: 'blob.retry', digest: DIGEST, reason: 'reset', offset: 3000 },
    ]);
    expect(outcome.pauses).toEqual([
      { askedMs: undefined, registry: 'r.test', reason: 'reset' },
      { askedMs: undefined, registry: 'r.test', reason: 'reset' },
    ]);
  });

  it('too often ends in an error that says where', async () => {
    const { error, calls } = await get([
      { body: BYTES.subarray(0, 2000) },
      ranged(2000, undefined, { body: '' }),
    ]);
    expect(error).toMatchObject({
      code: 'REGISTRY_TRUNCATED',
      message: `r.test/team/app:1, blob ${DIGEST}: r.test: the transfer ended at 2000 of 5000 bytes`,
    });
    expect(calls).toHaveLength(5);
  });

  it('for good, by a refusal, a fault or the signal, ends at once', async () => {
    const tls = new HttpFailure('tls', 'bad');
    const refused = ociError('REGISTRY_FORBIDDEN', 'no', { hint: 'ask' });
    const fault = new TypeError('no');
    const stop = new AbortController();
    for (const [breaks, expected] of [
      [tls, { code: 'REGISTRY_TLS', message: `r.test/team/app:1, blob ${DIGEST}: bad` }],
      [refused, refused],
      [fault, fault],
    ] as const) {
      const { error, pauses, events } = await get([{ body: 'x', breaks }]);
      expect(error).toMatchObject(expected);
      expect([pauses, events]).toEqual([[], []]);
    }
    const reply = (): Canned => {
      stop.abort(new Error('enough'));
      return { body: 'x', breaks: gone };
    };
    expect((await get(reply, { signal: stop.signal })).error).toEqual(new Error('enough'));
  });

  it('and cannot be asked for again ends as that does', async () => {
    const refused = ociError('REGISTRY_FORBIDDEN', 'no', { hint: 'ask' });
    const { error } = await get([{ body: 'x', breaks: gone }, refused]);
    expect(error).toBe(refused);
  });

  it('has all tries again after each mebibyte', async () => {
    const size = 3 * MIB;
    const whole = Buffer.alloc(size, 'xyz');
    const parts = (each: number): Replies => {
      let at = 0;
      return () => {
        const from = at;
        at += each;
        const body = whole.subarray(from, at);
        const reply: Canned = { body, ...(at < size ? { breaks: gone } : {}) };
        if (from === 0) return reply;
        return { ...reply, status: 206, headers: { 'content-range': `bytes ${from}-${size - 1}/*` } };
      };
    };
    const enough = await get(parts(MIB), { size });
    expect(enough.bytes.equals(whole)).toBe(true);
    expect([enough.calls.length, enough.begun()]).toEqual([3, 3]);
    const less = await get(parts(MIB - 1), { size });
    expect(less.bytes.equals(whole)).toBe(true);
    expect([less.calls.length, less.begun()]).toEqual([4, 1]);
  });
});
