import { describe, expect, it } from 'vitest';
import { type Canned, calling, type Made } from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf } from '../../names/index.ts';
import { putBlob, type UploadOptions } from './upload.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const opened: Canned = { status: 202, headers: { location: '/up/1' } };
type Reply = Canned | Error;

const refused = (status: number): Error =>
  ociError('REGISTRY_REFUSED', `status ${status}`, { hint: 'do', details: { status } });
const coded = (code: Parameters<typeof ociError>[0], details: object = {}): Error =>
  ociError(code, 'said', { hint: 'do', details: { ...details } });

interface Input extends Partial<UploadOptions> {
  readonly total?: number;
  /** What is answered to PUT and PATCH, in turn, the last one for good. */
  readonly sent?: readonly Reply[];
  readonly position?: Reply;
  readonly opens?: readonly Reply[];
  readonly head?: number;
  /** The world of a push before. */
  readonly after?: ReturnType<typeof world>;
}

function world(reply: (call: Made) => Reply) {
  let inner = reply;
  const made = calling((call) => inner(call));
  return {
    ...made,
    answer: (next: (call: Made) => Reply) => {
      inner = next;
    },
  };
}

/** Pushes a blob that is not there; a line each for what was asked after HEAD: its method and the bytes it brought. */
async function push(input: Input = {}) {
  const { total = 100 * KIB, sent = [{ status: 201 }], opens = [opened] } = input;
  let at = 0;
  let opening = 0;
  const reply = (call: Made): Reply => {
    if (call.method === 'HEAD') return { status: input.head ?? 404 };
    if (call.method === 'DELETE') return { status: 204 };
    if (call.method === undefined) return input.position ?? { status: 204 };
    if (call.method === 'POST') return opens[Math.min(opening++, opens.length - 1)] as Reply;
    return sent[Math.min(at++, sent.length - 1)] as Reply;
  };
  const used = input.after ?? world(reply);
  used.answer(reply);
  const skip = used.calls.length;
  const pauses = used.pauses.length;
  const bytes = Buffer.alloc(total, 'abc');
  const blob = { mediaType: 'x', digest: digestOf(bytes), size: total };
  const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
    yield bytes.subarray(offset);
  };
  let outcome: unknown;
  try {
    const { chunkSize, mountFrom } = input;
    outcome = await putBlob(used.target, blob, source, { chunkSize, mountFrom });
  } catch (error) {
    outcome = error;
  }
  const calls = used.calls.slice(skip);
  return {
    used,
    outcome,
    calls,
    pauses: used.pauses.slice(pauses),
    lines: calls
      .slice(1)
      .map(({ method = 'GET', body }) => (body === undefined ? method : `${method} ${body.length}`)),
  };
}

describe('a blob', () => {
  it('that is there is not sent', async () => {
    expect(await push({ head: 200 })).toMatchObject({ outcome: 'present', lines: [] });
  });

  it('of up to 64 KiB goes with the opening request, a larger one does not', async () => {
    const small = await push({ total: 64 * KIB, opens: [{ status: 201 }] });
    expect(small).toMatchObject({ outcome: 'uploaded', lines: ['POST 65536'] });
    const larger = await push({ total: 64 * KIB + 1 });
    expect(larger).toMatchObject({ outcome: 'uploaded', lines: ['POST', 'PUT 65537'] });
  });

  it('goes so once only to a registry that does not take it', async () => {
    const first = await push({ total: 9, opens: [coded('REGISTRY_UNSUPPORTED'), opened] });
    expect(first.lines).toEqual(['POST 9', 'POST', 'PUT 9']);
    const second = await push({ total: 10, after: first.used });
    expect(second.lines).toEqual(['POST', 'PUT 10']);
    const session = await push({ total: 9 });
    expect(session.lines).toEqual(['POST 9', 'PUT 9']);
    expect((await push({ total: 9, after: session.used })).lines).toEqual(['POST', 'PUT 9']);
    const taken = await push({ total: 9, opens: [{ status: 201 }] });
    expect((await push({ total: 9, opens: [{ status: 201 }], after: taken.used })).lines).toEqual(['POST 9']);
  });

  it('is mounted from another repository, not from its own', async () => {
    const mounted = await push({ mountFrom: 'lib/base', opens: [{ status: 201 }] });
    expect(mounted).toMatchObject({ outcome: 'mounted', lines: ['POST'] });
    const own = await push({ mountFrom: 'team/app' });
    expect(own.calls[1]?.path).toBe('team/app/blobs/uploads/');
    const uploading = await push({ total: 9, mountFrom: 'lib/base' });
    expect(uploading.lines).toEqual(['POST', 'PUT 9']);
    const none = await push({ total: 9, mountFrom: 'lib/base', opens: [{ status: 404 }, { status: 201 }] });
    expect(none.lines).toEqual(['POST', 'POST 9']);
  });
});

describe('chunks', () => {
  const more: Canned = { status: 202 };

  it('are sent where the blob is larger than one, and only then', async () => {
    const two = await push({ chunkSize: 70 * KIB, sent: [more, { status: 201 }] });
    expect(two.lines).toEqual(['POST', `PATCH ${70 * KIB}`, `PUT ${30 * KIB}`]);
    expect((await push({ chunkSize: 100 * KIB })).lines).toEqual(['POST', `PUT ${100 * KIB}`]);
  });

  it('are as large as the registry wants them, up to 16 MiB or what was asked for', async () => {
    const wanting = (least: number) => [
      { status: 202, headers: { location: '/up/1', 'oci-chunk-min-length': String(least) } },
    ];
    const sent = [more, { status: 201 }];
    const total = 17 * MIB;
    const least = await push({ total, chunkSize: MIB, opens: wanting(16 * MIB), sent });
    expect(least.lines).toEqual(['POST', `PATCH ${16 * MIB}`, `PUT ${MIB}`]);
    const held = await push({ total, chunkSize: MIB, opens: wanting(16 * MIB + 1) });
    expect(held.lines).toEqual(['POST', `PUT ${total}`]);
    const own = await push({ total: 18 * MIB, chunkSize: total, opens: wanting(5), sent });
    expect(own.lines).toEqual(['POST', `PATCH ${total}`, `PUT ${MIB}`]);
    const smaller = await push({ total: 200 * KIB, chunkSize: 100 * KIB, opens: wanting(150 * KIB), sent });
    expect(smaller.lines).toEqual(['POST', `PATCH ${150 * KIB}`, `PUT ${50 * KIB}`]);
  });

  it('that were refused are half as large for the next blob too, never under 64 KiB', async () => {
    const taken = [more, more, more, { status: 201 }];
    const first = await push({ total: 300 * KIB, chunkSize: 200 * KIB, sent: [{ status: 413 }, ...taken] });
    expect(first.lines.slice(0, 4)).toEqual(['POST', `PATCH ${200 * KIB}`, 'GET', `PATCH ${100 * KIB}`]);
    const next = await push({ total: 150 * KIB, sent: taken, after: first.used });
    expect(next.lines.slice(0, 2)).toEqual(['POST', `PATCH ${100 * KIB}`]);
    const small = await push({ total: 200 * KIB, chunkSize: 130 * KIB, sent: [{ status: 416 }, ...taken] });
    expect(small.lines[3]).toBe(`PATCH ${65 * KIB}`);
    const odd = await push({ total: 150 * KIB, chunkSize: 120 * KIB, sent: [{ status: 413 }] });
    expect(odd.outcome).toMatchObject({ code: 'REGISTRY_REFUSED', hint: 'try another chunk size' });
  });
});

describe('a request that is too large', () => {
  it('is followed by chunks of 4 MiB, then half as large, in a new upload each', async () => {
    const sent = [refused(413), { status: 202 }, { status: 201 }];
    const first = await push({ total: 6 * MIB, sent });
    expect(first.lines).toEqual([
      'POST',
      `PUT ${6 * MIB}`,
      'DELETE',
      'POST',
      `PATCH ${4 * MIB}`,
      `PUT ${2 * MIB}`,
    ]);
    const next = await push({ total: 5 * MIB, sent: sent.slice(1), after: first.used });
    expect(next.lines).toEqual(['POST', `PATCH ${4 * MIB}`, `PUT ${MIB}`]);
    const chunked = [refused(416), { status: 202 }, { status: 202 }, { status: 201 }];
    const half = await push({ total: 500 * KIB, chunkSize: 400 * KIB, sent: chunked });
    expect(half.lines.slice(1, 5)).toEqual([`PATCH ${400 * KIB}`, 'DELETE', 'POST', `PATCH ${200 * KIB}`]);
  });

  it('of 64 KiB or of a blob of that size stays refused', async () => {
    const sent = [refused(413)];
    const least = await push({ total: 300 * KIB, chunkSize: 128 * KIB, sent });
    expect(least.lines).toEqual([
      'POST',
      `PATCH ${128 * KIB}`,
      'DELETE',
      'POST',
      `PATCH ${64 * KIB}`,
      'DELETE',
    ]);
    expect(least.outcome).toBe(sent[0]);
    const small = await push({ total: 64 * KIB, opens: [opened], sent });
    expect(small.lines).toEqual(['POST 65536', 'PUT 65536', 'DELETE']);
    expect(small.outcome).toBe(sent[0]);
    const larger = await push({ total: 64 * KIB + 1, sent: [refused(413), { status: 201 }] });
    expect(larger).toMatchObject({ outcome: 'uploaded' });
    expect((await push({ sent: [refused(400)] })).lines).toEqual(['POST', `PUT ${100 * KIB}`, 'DELETE']);
  });
});

describe('an upload that fails', () => {
  const K100 = `PUT ${100 * KIB}`;
  const half: Canned = { status: 204, headers: { location: '/up/2', range: `0-${50 * KIB - 1}` } };

  it.each([
    ['REGISTRY_TRUNCATED', 'REGISTRY_TRUNCATED'],
    ['REGISTRY_BUSY', 'REGISTRY_BUSY'],
    ['REGISTRY_UNREACHABLE', 'REGISTRY_UNREACHABLE'],
  ] as const)('with %s goes on where the registry is, after a wait', async (code, reason) => {
    const error = coded(code, { retryAfterMs: 7 });
    const { outcome, lines, pauses, calls } = await push({ sent: [error, { status: 201 }], position: half });
    expect(outcome).toBe('uploaded');
    expect(lines).toEqual(['POST', K100, 'GET', `PUT ${50 * KIB}`]);
    expect(calls.at(-1)?.path).toMatch(/^https:\/\/r\.test\/up\/2\?digest=/);
    expect(pauses).toEqual([{ askedMs: 7, registry: 'r.test', reason }]);
  });

  it('for want of a fresh token goes on at once, the second time it ends', async () => {
    const error = coded('REGISTRY_UNAUTHORIZED');
    const once = await push({ sent: [error, { status: 201 }], position: half });
    expect(once).toMatchObject({ outcome: 'uploaded', pauses: [] });
    expect(once.lines).toEqual(['POST', K100, 'GET', `PUT ${50 * KIB}`]);
    const twice = await push({ sent: [error, error], position: half });
    expect(twice.outcome).toBe(error);
    expect(twice.lines).toEqual(['POST', K100, 'GET', `PUT ${50 * KIB}`, 'DELETE']);
  });

  it('begins anew where the registry does not say how far it is', async () => {
    const sent = [coded('REGISTRY_TRUNCATED'), { status: 201 }];
    const { lines } = await push({ sent, position: coded('REGISTRY_NOT_FOUND') });
    expect(lines).toEqual(['POST', K100, 'GET', 'POST', K100]);
  });

  it('for an upload that the registry has forgotten begins anew, three times', async () => {
    const gone = coded('REGISTRY_NOT_FOUND');
    const good = await push({ sent: [gone, gone, gone, { status: 201 }] });
    expect(good).toMatchObject({ outcome: 'uploaded', pauses: [] });
    const bad = await push({ sent: [gone] });
    expect(bad.outcome).toBe(gone);
    const anew = ['POST', K100, 'DELETE'];
    expect(bad.lines).toEqual([...anew, ...anew, ...anew, ...anew]);
  });

  it('by a refusal of what it was continued with begins anew, once', async () => {
    const broken = coded('REGISTRY_TRUNCATED');
    for (const error of [refused(400), coded('REGISTRY_UNSUPPORTED')]) {
      const good = await push({ sent: [broken, error, { status: 201 }], position: half });
      expect(good.outcome).toBe('uploaded');
      expect(good.lines).toEqual(['POST', K100, 'GET', `PUT ${50 * KIB}`, 'DELETE', 'POST', K100]);
      const bad = await push({ sent: [broken, error, broken, error], position: half });
      expect(bad.outcome).toBe(error);
      expect(bad.lines.filter((line) => line === 'POST')).toHaveLength(2);
    }
    // Sent whole and refused, it is refused.
    const whole = await push({ sent: [refused(400)] });
    expect(whole.lines).toEqual(['POST', K100, 'DELETE']);
  });

  it('for good is deleted and told, whatever it was', async () => {
    for (const error of [coded('REGISTRY_FORBIDDEN'), new TypeError('no')]) {
      const { outcome, lines, pauses } = await push({ sent: [error] });
      expect(outcome).toBe(error);
      expect([lines, pauses]).toEqual([['POST', K100, 'DELETE'], []]);
    }
  });

  it('again and again ends; each mebibyte that came through counts anew', async () => {
    const broken = coded('REGISTRY_TRUNCATED');
    const none = await push({ sent: [broken], position: { status: 204 } });
    expect(none.outcome).toBe(broken);
    expect(none.lines.filter((line) => line === K100)).toHaveLength(5);
    expect(none.used.begun()).toBe(1);
    const total = 3 * MIB;
    const at = (bytes: number): Canned => ({ status: 204, headers: { range: `0-${bytes - 1}` } });
    const steps = { total, sent: [broken, { status: 201 }] };
    expect((await push({ ...steps, position: at(MIB) })).used.begun()).toBe(2);
    expect((await push({ ...steps, position: at(MIB - 1) })).used.begun()).toBe(1);
  });

  it('by the signal ends by that, and nothing more is asked', async () => {
    const stop = new AbortController();
    const { target, calls } = calling(
      ({ method }) => {
        if (method === 'HEAD') return { status: 404 };
        if (method === 'POST') return opened;
        stop.abort(new Error('enough'));
        return coded('REGISTRY_TRUNCATED');
      },
      { signal: stop.signal },
    );
    const bytes = Buffer.alloc(100 * KIB);
    const blob = { mediaType: 'x', digest: digestOf(bytes), size: bytes.length };
    const source = async function* (): AsyncGenerator<Uint8Array> {
      yield bytes;
    };
    const options = { chunkSize: undefined, mountFrom: undefined };
    await expect(putBlob(target, blob, source, options)).rejects.toThrow('enough');
    expect(calls.map(({ method }) => method)).toEqual(['HEAD', 'POST', 'PUT']);
  });
});
