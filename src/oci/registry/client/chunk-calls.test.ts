import { describe, expect, it } from 'vitest';
import { type Canned, calling, type Made } from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf } from '../../names/index.ts';
import { sendChunks } from './upload-parts.ts';

const MIB = 1024 * 1024;
const OCTETS = 'application/octet-stream';
const TAKEN = [200, 201, 204, 413, 416];
const MORE = [200, 202, 204, 413, 416];

interface Sent {
  readonly calls: readonly Made[];
  /** `METHOD range` of what was sent, `GET` where it was asked how far it is. */
  readonly lines: readonly string[];
  readonly done: readonly number[];
  readonly refused: readonly number[];
  readonly error: unknown;
}

interface Input {
  readonly total: number;
  readonly size: number;
  readonly smallest?: number;
  readonly minChunk?: number;
  readonly from?: number;
  readonly streamed?: boolean;
}

/** Sends `total` bytes to a registry that answers the calls in turn. */
async function send(input: Input, reply: (call: Made, at: number) => Canned | Error): Promise<Sent> {
  const bytes = Buffer.alloc(input.total, 'abcdefg');
  const blob = { mediaType: 'x', digest: digestOf(bytes), size: bytes.length };
  const { target, calls, events } = calling(reply);
  const refused: number[] = [];
  const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
    if (input.streamed !== true) throw new Error('what is held is not read again');
    yield bytes.subarray(offset);
  };
  let error: unknown;
  const session = { location: new URL('https://r.test/up/0'), minChunk: input.minChunk ?? 0 };
  try {
    await sendChunks(
      { target, blob, source, ...(input.streamed === true ? {} : { bytes }) },
      { session, offset: input.from ?? 0 },
      { size: input.size, smallest: input.smallest ?? 1, onRefused: (size) => refused.push(size) },
    );
  } catch (caught) {
    error = caught;
  }
  for (const { body, headers } of calls) {
    const range = headers?.['content-range'];
    if (range === undefined) continue;
    const [first = 0, last = 0] = range.split('-').map(Number);
    expect(body?.equals(bytes.subarray(first, last + 1))).toBe(true);
  }
  return {
    calls,
    lines: calls.map(({ method, headers }) =>
      method === undefined ? 'GET' : `${method} ${headers?.['content-range'] ?? 'nothing'}`,
    ),
    done: events.map((event) => (event as { doneBytes: number }).doneBytes),
    refused,
    error,
  };
}

const taken = (range?: string, at = 0): Canned => ({
  status: 202,
  headers: { location: `/up/${at}`, ...(range === undefined ? {} : { range }) },
});
const refusing = (status = 413): Canned => ({ status });
const there = (bytes: number): Canned => ({
  status: 204,
  headers: bytes === 0 ? {} : { range: `0-${bytes - 1}` },
});
const STUCK = {
  code: 'REGISTRY_REFUSED',
  message: expect.stringMatching(/^r\.test\/team\/app:1: r\.test refuses the chunks of sha256:/) as string,
  hint: 'try another chunk size',
};

describe('chunks', () => {
  it.each([false, true])(
    'go one after another, each where the last one led (streamed: %s)',
    async (streamed) => {
      const sent = await send({ total: 250, size: 100, streamed }, (call, at) =>
        call.method === 'PUT' ? { status: 201 } : taken(undefined, at + 1),
      );
      expect(sent.error).toBeUndefined();
      const digest = digestOf(Buffer.alloc(250, 'abcdefg'));
      const common = {
        subject: `r.test/team/app:1, blob ${digest}`,
        scopes: ['repository:team/app:pull,push'],
        lane: 'write',
        body: expect.any(Buffer) as Buffer,
      };
      const headers = (range: string) => ({ 'content-type': OCTETS, 'content-range': range });
      expect(sent.calls).toEqual([
        { ...common, method: 'PATCH', path: 'https://r.test/up/0', accept: MORE, headers: headers('0-99') },
        {
          ...common,
          method: 'PATCH',
          path: 'https://r.test/up/1',
          accept: MORE,
          headers: headers('100-199'),
        },
        {
          ...common,
          method: 'PUT',
          path: `https://r.test/up/2?digest=${encodeURIComponent(digest)}`,
          accept: TAKEN,
          headers: headers('200-249'),
        },
      ]);
      expect(sent.done).toEqual([100, 200]);
    },
  );

  it('go on from where the upload is', async () => {
    const sent = await send({ total: 250, size: 100, from: 120 }, (call) =>
      call.method === 'PUT' ? { status: 201 } : taken(),
    );
    expect(sent.lines).toEqual(['PATCH 120-219', 'PUT 220-249']);
  });

  it('are not done where the registry stored another blob', async () => {
    const headers = { 'docker-content-digest': digestOf('other') };
    const sent = await send({ total: 100, size: 100 }, () => ({ status: 201, headers }));
    expect(sent.error).toMatchObject({ code: 'REGISTRY_ANSWER_INVALID' });
  });

  it('of a source that is too short are an error of ours', async () => {
    const bytes = Buffer.alloc(50);
    const { target, calls } = calling([taken()]);
    const source = async function* (): AsyncGenerator<Uint8Array> {
      yield bytes;
    };
    const blob = { mediaType: 'x', digest: digestOf(bytes), size: 60 };
    const session = { location: new URL('https://r.test/up/0'), minChunk: 0 };
    const policy = { size: 55, smallest: 1, onRefused: () => {} };
    await expect(sendChunks({ target, blob, source }, { session, offset: 0 }, policy)).rejects.toMatchObject({
      code: 'OCI_BLOB_CORRUPT',
      hint: 'check the store with: skycap image fsck',
    });
    expect(calls).toEqual([]);
  });
});

describe('what a registry says it took of a chunk', () => {
  it.each<[string | undefined, string]>([
    [undefined, 'PATCH 200-299'],
    ['0-149', 'PATCH 150-249'],
    ['0-199', 'PATCH 200-299'],
    // Always said by some; nothing of what was sent; more than was sent; no range.
    ['0-0', 'PATCH 200-299'],
    ['0-99', 'PATCH 200-299'],
    ['0-200', 'PATCH 200-299'],
    ['5-149', 'PATCH 200-299'],
    ['0-100', 'PATCH 101-200'],
  ])('after byte 200 of which 100 were there: %s', async (range, next) => {
    const sent = await send({ total: 1000, size: 100, from: 100 }, (call, at) =>
      at === 0 ? taken(range) : call.method === 'PUT' ? { status: 201 } : taken(),
    );
    expect(sent.lines[1]).toBe(next);
    expect(sent.error).toBeUndefined();
  });

  it('is nothing of its own where it is the first byte', async () => {
    const sent = await send({ total: 200, size: 100 }, (call) =>
      call.method === 'PUT' ? { status: 201 } : taken('0-0'),
    );
    expect(sent.lines).toEqual(['PATCH 0-99', 'PUT 100-199']);
  });

  it('is enough where it is a quarter each time, and not where it is less', async () => {
    const parts = (each: number) => {
      let got = 0;
      return send({ total: 900, size: 100 }, (call) => {
        if (call.method === 'PUT') return { status: 201 };
        got += each;
        return taken(`0-${got - 1}`);
      });
    };
    const slow = await parts(25);
    expect(slow.error).toBeUndefined();
    expect(slow.lines.length).toBeGreaterThan(30);
    const stuck = await parts(24);
    expect(stuck.error).toMatchObject({ ...STUCK, details: { status: 202 } });
    expect(stuck.lines).toHaveLength(4);
    expect(stuck.done).toEqual([24, 48, 72, 96]);
  });

  it('counts anew after each mebibyte', async () => {
    /** Two bytes three times, then up to `end`, then two bytes `after` times. */
    const run = (end: number, after: number, second = 0) => {
      let got = 0;
      return send({ total: 4 * MIB, size: MIB, smallest: 1 }, (call, at) => {
        if (call.method === 'PUT') return { status: 201 };
        if (at === 3) got = end;
        else if (at === 3 + after + 1 && second > 0) got += second;
        else if (at <= 3 + after || second > 0) got += 2;
        else return taken();
        return taken(`0-${got - 1}`);
      });
    };
    expect((await run(MIB, 3)).error).toBeUndefined();
    expect((await run(MIB - 1, 1)).error).toMatchObject(STUCK);
    expect((await run(MIB, 4)).error).toMatchObject(STUCK);
    // What was reached before does not count towards the next mebibyte.
    expect((await run(MIB, 3, 400_000)).error).toMatchObject(STUCK);
  });
});

describe('chunks that are refused', () => {
  /** Takes no request of more than `limit` bytes, and says truly how far it is. */
  const upTo = (limit: number, status = 413) => {
    let got = 0;
    return (call: Made): Canned => {
      if (call.method === undefined) return there(got);
      const length = call.body?.length ?? 0;
      if (length > limit) return refusing(status);
      got += length;
      return call.method === 'PUT' ? { status: 201 } : taken();
    };
  };

  it.each([413, 416])('with %i get half as large, and that is remembered', async (status) => {
    const sent = await send({ total: 500, size: 200, smallest: 25 }, upTo(60, status));
    expect(sent.error).toBeUndefined();
    expect(sent.lines.slice(0, 6)).toEqual([
      'PATCH 0-199',
      'GET',
      'PATCH 0-99',
      'GET',
      'PATCH 0-49',
      'PATCH 50-99',
    ]);
    expect(sent.refused).toEqual([200, 100]);
  });

  it('are halved as they were sent, where the blob has less than a chunk', async () => {
    const sent = await send({ total: 101, size: 400 }, upTo(60));
    expect(sent.lines).toEqual(['PUT 0-100', 'GET', 'PATCH 0-49', 'PATCH 50-99', 'PUT 100-100']);
    expect(sent.refused).toEqual([400]);
  });

  it('never get smaller than they may', async () => {
    const least = await send({ total: 500, size: 200, smallest: 100 }, upTo(60));
    expect(least.lines).toEqual(['PATCH 0-199', 'GET', 'PATCH 0-99', 'GET']);
    expect(least.error).toMatchObject({ ...STUCK, details: { status: 413 } });
    expect(least.refused).toEqual([200]);
    const wanted = await send({ total: 500, size: 200, minChunk: 150 }, upTo(60, 416));
    expect(wanted.lines).toEqual(['PATCH 0-199', 'GET', 'PATCH 0-149', 'GET']);
    expect(wanted.error).toMatchObject({ ...STUCK, details: { status: 416 } });
    const same = await send({ total: 500, size: 200, minChunk: 200 }, upTo(60));
    expect(same.lines).toEqual(['PATCH 0-199', 'GET']);
    expect(same.refused).toEqual([]);
  });

  it('go on where the registry is, at the address that it names, three times without progress', async () => {
    let asked = 0;
    const moving =
      (most: number) =>
      (call: Made): Canned => {
        if (call.method === undefined) {
          asked += 1;
          return { status: 204, headers: { location: `/at/${asked}`, range: `0-${asked * 10}` } };
        }
        if (asked < most) return refusing(416);
        return call.method === 'PUT' ? { status: 201 } : taken();
      };
    const good = await send({ total: 300, size: 100 }, moving(3));
    expect(good.error).toBeUndefined();
    expect(good.lines).toEqual([
      'PATCH 0-99',
      'GET',
      'PATCH 11-110',
      'GET',
      'PATCH 21-120',
      'GET',
      'PATCH 31-130',
      'PATCH 131-230',
      'PUT 231-299',
    ]);
    expect(good.calls[2]?.path).toBe('https://r.test/at/1');
    expect(good.refused).toEqual([]);
    asked = 0;
    const bad = await send({ total: 300, size: 100 }, moving(9));
    expect(bad.error).toMatchObject({ ...STUCK, details: { status: 416 } });
    expect(bad.lines).toHaveLength(8);
  });

  it('end in an error where the registry does not say how far it is', async () => {
    const sent = await send({ total: 100, size: 60 }, (call) =>
      call.method === undefined ? ociError('REGISTRY_NOT_FOUND', 'said', { hint: 'do' }) : refusing(416),
    );
    expect(sent.error).toMatchObject({ ...STUCK, details: { status: 416 } });
    expect(sent.lines).toEqual(['PATCH 0-59', 'GET']);
  });

  it('are closed by a request without bytes where all of them are there already', async () => {
    const sent = await send({ total: 100, size: 100 }, (call, at) =>
      at === 0 ? refusing(416) : call.method === undefined ? there(100) : { status: 201 },
    );
    expect(sent.error).toBeUndefined();
    expect(sent.lines).toEqual(['PUT 0-99', 'GET', 'PUT nothing']);
    expect(sent.calls[2]?.body).toEqual(Buffer.alloc(0));
  });
});
