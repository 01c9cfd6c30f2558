import { describe, expect, it } from 'vitest';
import { type Canned, calling, type Made } from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import { digestOf } from '../../names/index.ts';
import type { Descriptor } from '../../types.ts';
import { held, type Sending, sendRest, sendSingle } from './upload-parts.ts';
import { abandon, begin, confirm, mount, positionOf } from './upload-session.ts';

const BYTES = Buffer.from(Array.from({ length: 2500 }, (_, at) => at % 251));
const BLOB: Descriptor = { mediaType: 'x', digest: digestOf(BYTES), size: BYTES.length };
const NAME = 'r.test/team/app:1';
const PUSH = 'repository:team/app:pull,push';
const OCTETS = 'application/octet-stream';
const D = encodeURIComponent(BLOB.digest);
const session = { location: new URL('https://r.test/up/1?s=a%2B'), minChunk: 0 };
const coded = (code: Parameters<typeof ociError>[0]): Error => ociError(code, 'said', { hint: 'do' });
const stop = (): AbortSignal => AbortSignal.abort(new Error('enough'));

type Replies = Parameters<typeof calling>[0];

function sending(replies: Replies, more: Partial<Sending> & { readonly signal?: AbortSignal } = {}) {
  const { signal, ...others } = more;
  const world = calling(replies, signal === undefined ? {} : { signal });
  const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
    for (let at = offset; at < BYTES.length; at += 1000) yield BYTES.subarray(at, at + 1000);
  };
  return { ...world, sending: { target: world.target, blob: BLOB, source, ...others } };
}

const progress = (...done: readonly number[]): readonly object[] =>
  done.map((doneBytes) => ({
    type: 'blob.progress',
    digest: BLOB.digest,
    doneBytes,
    sizeBytes: BLOB.size,
  }));

describe('an upload is opened', () => {
  const opening: Made = {
    method: 'POST',
    path: 'team/app/blobs/uploads/',
    subject: NAME,
    scopes: [PUSH],
    accept: [202],
    lane: 'control',
  };

  it('with the algorithm of a digest that is not of the usual one', async () => {
    for (const [algorithm, query] of [
      ['sha256', ''],
      ['sha512', '?digest-algorithm=sha512'],
    ] as const) {
      const { target, calls } = calling([{ status: 202, headers: { location: '/up/1' } }]);
      const opened = await begin(target, digestOf('x', algorithm));
      expect(opened).toEqual({ location: new URL('https://r.test/up/1'), minChunk: 0 });
      expect(calls).toEqual([{ ...opening, path: `${opening.path}${query}` }]);
    }
  });

  it.each<[number, unknown]>([
    [200, 'mounted'],
    [201, 'mounted'],
    [202, { location: new URL('https://r.test/up/1'), minChunk: 0 }],
    [400, undefined],
    [401, undefined],
    [403, undefined],
    [404, undefined],
    [405, undefined],
  ])('to mount from a source, where %i is an answer', async (status, outcome) => {
    const { target, calls } = calling([{ status, headers: { location: '/up/1' } }]);
    expect(await mount(target, BLOB.digest, 'lib/base')).toEqual(outcome);
    expect(calls).toEqual([
      {
        ...opening,
        path: `team/app/blobs/uploads/?mount=${D}&from=lib%2Fbase`,
        scopes: [PUSH, 'repository:lib/base:pull'],
        accept: [200, 201, 202, 400, 401, 403, 404, 405],
      },
    ]);
  });

  it('and a token server that refuses the source mounts nothing, any other fault is one', async () => {
    const mounting = (error: Error) => mount(calling([error]).target, BLOB.digest, 'lib/base');
    expect(await mounting(coded('REGISTRY_UNAUTHORIZED'))).toBeUndefined();
    expect(await mounting(coded('REGISTRY_FORBIDDEN'))).toBeUndefined();
    const busy = coded('REGISTRY_BUSY');
    await expect(mounting(busy)).rejects.toBe(busy);
  });

  it('never to mount from what is no repository', async () => {
    const { target, calls } = calling([]);
    await expect(mount(target, BLOB.digest, '../x')).rejects.toMatchObject({
      code: 'REFERENCE_INVALID',
      message: '"../x" is not a repository of r.test',
      hint: 'name it without the registry',
    });
    expect(calls).toEqual([]);
  });
});

describe('with the opening request', () => {
  const single: Made = {
    method: 'POST',
    path: `team/app/blobs/uploads/?digest=${D}`,
    subject: `${NAME}, blob ${BLOB.digest}`,
    scopes: [PUSH],
    accept: [201, 202],
    headers: { 'content-type': OCTETS },
    contentLength: BLOB.size,
    replayable: false,
    lane: 'write',
    body: BYTES,
  };

  it('a blob goes whole, read once, and is done with 201', async () => {
    const { sending: one, calls, events } = sending([{ status: 201 }]);
    expect(await sendSingle(await held(one))).toBe('uploaded');
    expect(calls).toEqual([single]);
    expect(events).toEqual(progress(BLOB.size));
  });

  it('a blob of no bytes is not sent twice either', async () => {
    const blob = { ...BLOB, digest: digestOf(''), size: 0 };
    const { sending: one, calls } = sending([{ status: 201 }], { blob, bytes: new Uint8Array(0) });
    expect(await sendSingle(one)).toBe('uploaded');
    expect(calls[0]).toMatchObject({ contentLength: 0, replayable: false, body: Buffer.alloc(0) });
  });

  it('a blob that is not taken so gets the session that was opened', async () => {
    const replies = [{ status: 202, headers: { location: '/up/2', 'oci-chunk-min-length': '9' } }];
    const { sending: one, events } = sending(replies);
    expect(await sendSingle(await held(one))).toEqual({
      location: new URL('https://r.test/up/2'),
      minChunk: 9,
    });
    expect(events).toEqual([]);
  });

  it('a refusal of the registry decides nothing, a fault of ours and the signal do', async () => {
    for (const code of ['REGISTRY_REFUSED', 'REGISTRY_TRUNCATED', 'REGISTRY_UNREACHABLE'] as const)
      expect(await sendSingle(sending([coded(code)]).sending)).toBeUndefined();
    const corrupt = coded('OCI_BLOB_CORRUPT');
    await expect(sendSingle(sending([corrupt]).sending)).rejects.toBe(corrupt);
    const other = Object.assign(new Error('no'), { code: 'REGISTRY_BUSY' });
    await expect(sendSingle(sending([other]).sending)).rejects.toBe(other);
    const aborted = sending([coded('REGISTRY_REFUSED')], { signal: stop() });
    await expect(sendSingle(aborted.sending)).rejects.toThrow('enough');
  });

  it('what the registry stored as another is not uploaded', async () => {
    const said = digestOf('other');
    const { sending: one, events } = sending([{ status: 201, headers: { 'docker-content-digest': said } }]);
    await expect(sendSingle(await held(one))).rejects.toMatchObject({
      code: 'REGISTRY_ANSWER_INVALID',
      message: `${NAME}: r.test stored ${said} instead of ${BLOB.digest}`,
      hint: 'ask who runs the registry',
    });
    expect(events).toEqual([]);
  });
});

describe('with the closing request', () => {
  const closing: Made = {
    method: 'PUT',
    path: `https://r.test/up/1?s=a%2B&digest=${D}`,
    subject: `${NAME}, blob ${BLOB.digest}`,
    scopes: [PUSH],
    accept: [200, 201, 204],
    headers: { 'content-type': OCTETS },
    contentLength: BLOB.size,
    replayable: false,
    lane: 'write',
    body: BYTES,
  };

  it.each([
    [0, undefined, 2500],
    [1, '1-2499', 2499],
    [2499, '2499-2499', 1],
  ])('what is missing from byte %i goes, streamed or held', async (offset, range, contentLength) => {
    for (const bytes of [undefined, BYTES]) {
      const { sending: one, calls } = sending([{ status: 201 }], bytes === undefined ? {} : { bytes });
      await sendRest(one, { session, offset });
      expect(calls).toEqual([
        {
          ...closing,
          headers: { 'content-type': OCTETS, 'content-range': range },
          contentLength,
          body: BYTES.subarray(offset),
        },
      ]);
    }
  });

  it('nothing goes where all of it is there, and that can be sent again', async () => {
    const { sending: one, calls } = sending([{ status: 201 }]);
    await sendRest(one, { session, offset: BLOB.size });
    expect(calls).toEqual([{ ...closing, contentLength: 0, replayable: true, body: Buffer.alloc(0) }]);
  });

  it('says how far it is: after each piece of a stream, once of what is held', async () => {
    const streamed = sending([{ status: 201 }]);
    await sendRest(streamed.sending, { session, offset: 500 });
    expect(streamed.events).toEqual(progress(1500, 2500));
    const kept = sending([{ status: 201 }], { bytes: BYTES });
    await sendRest(kept.sending, { session, offset: 500 });
    expect(kept.events).toEqual(progress(2500));
  });

  it('is refused where the registry stored another blob', async () => {
    const headers = { 'docker-content-digest': digestOf('other') };
    const { sending: one, events } = sending([{ status: 201, headers }], { bytes: BYTES });
    await expect(sendRest(one, { session, offset: 0 })).rejects.toThrow('instead of');
    expect(events).toEqual([]);
  });

  it.each([
    ['a byte more', BLOB.size - 1],
    ['a byte less', BLOB.size + 1],
  ])('a source with %s than declared is an error of ours', async (_, size) => {
    const blob = { ...BLOB, size };
    const error = {
      code: 'OCI_BLOB_CORRUPT',
      message: `${NAME}: the blob ${BLOB.digest} to push does not have its ${size} bytes`,
      hint: 'check the store with: skycap image fsck',
    };
    const { sending: one, calls } = sending([{ status: 201 }], { blob });
    await expect(sendRest(one, { session, offset: 0 })).rejects.toMatchObject(error);
    await expect(held(one)).rejects.toMatchObject(error);
    expect(calls).toEqual([]);
  });
});

describe('the registry is asked how far it is', () => {
  const position = (reply: Canned | Error, size = BLOB.size, signal?: AbortSignal) => {
    const world = calling([reply], signal === undefined ? {} : { signal });
    return { ...world, found: positionOf(world.target, { ...BLOB, size }, session) };
  };

  it.each<[string | undefined, number, number]>([
    [undefined, 2500, 0],
    ['0-0', 2500, 0],
    ['0-0', 2, 0],
    ['0-0', 1, 1],
    ['0-1', 2500, 2],
    ['0-2499', 2500, 2500],
    ['0-2500', 2500, 0],
    ['5-9', 2500, 0],
  ])('and says %s of %i bytes: %i', async (range, size, offset) => {
    const headers = range === undefined ? {} : { range };
    const { found, calls } = position({ status: 204, headers }, size);
    expect(await found).toEqual({ session, offset });
    expect(calls).toEqual([
      {
        path: session.location.href,
        subject: `${NAME}, blob ${BLOB.digest}`,
        scopes: [PUSH],
        accept: [200, 202, 204],
        lane: 'control',
      },
    ]);
  });

  it('and may move the upload', async () => {
    const { found } = position({ status: 204, headers: { location: '/up/9', range: '0-9' } });
    expect(await found).toEqual({
      session: { location: new URL('https://r.test/up/9'), minChunk: 0 },
      offset: 10,
    });
  });

  it('and where it knows nothing of it there is no answer; other faults and the signal are thrown', async () => {
    expect(await position(coded('REGISTRY_NOT_FOUND')).found).toBeUndefined();
    const other = new Error('no');
    await expect(position(other).found).rejects.toBe(other);
    await expect(position(coded('REGISTRY_NOT_FOUND'), 1, stop()).found).rejects.toThrow('enough');
  });
});

describe('an upload that is given up', () => {
  it('is deleted at the registry, never elsewhere, and whatever comes of it is passed over', async () => {
    const { target, calls, events } = calling([{ status: 204 }, new Error('no')]);
    await abandon(target, session);
    expect(calls).toEqual([
      {
        method: 'DELETE',
        path: session.location.href,
        subject: NAME,
        scopes: [PUSH],
        accept: [200, 202, 204],
        replayable: false,
        lane: 'control',
      },
    ]);
    await abandon(target, session);
    expect(calls).toHaveLength(2);
    await abandon(target, { ...session, location: new URL('https://storage.test/up') });
    expect(calls).toHaveLength(2);
    expect(events).toEqual([]);
  });
});

describe('the digest of what was stored', () => {
  const check = (said: string | undefined) => {
    const headers = said === undefined ? {} : { 'docker-content-digest': said };
    const { target } = calling([]);
    const response = { values: (name: string) => (name in headers ? [said] : []), discard: async () => {} };
    return confirm(target, BLOB, response as unknown as Parameters<typeof confirm>[2]);
  };

  it.each([undefined, '', 'nonsense', BLOB.digest, digestOf('other', 'sha512')])(
    'may be %s',
    async (said) => {
      await expect(check(said)).resolves.toBeUndefined();
    },
  );

  it('may not be another of the same kind', async () => {
    await expect(check(digestOf('other'))).rejects.toMatchObject({ code: 'REGISTRY_ANSWER_INVALID' });
  });
});
