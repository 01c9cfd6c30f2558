import { describe, expect, it } from 'vitest';
import { HttpFailure } from '../../../kernel/http/index.ts';
import { type Canned, cannedResponse, jumpingClock } from '../../../testkit/registry/index.ts';
import { ociError } from '../../errors.ts';
import type { OciEvent } from '../../port.ts';
import type { AuthorizeRequest, Grant } from './auth.ts';
import { askedWait, type Call, createCaller, reasonOf } from './caller.ts';
import type { Host, HostRequest } from './host.ts';
import { RETRY } from './retry.ts';

interface Sent extends HostRequest {
  readonly url: string;
}

/** A caller of `r.test` that answers as told, in turn, the last answer for good. */
function world(replies: readonly (Canned | Error)[], grants: readonly (Grant | undefined)[] = []) {
  const sent: Sent[] = [];
  const authorized: AuthorizeRequest[] = [];
  const forgotten: Grant[] = [];
  const events: OciEvent[] = [];
  const clock = jumpingClock();
  const host: Host = {
    name: 'r.test',
    challenges: [],
    learn: () => {},
    checkTarget: () => {},
    origin: async () => new URL('https://r.test'),
    send: async (url, request) => {
      sent.push({ url: url.href, ...request });
      const reply = replies[Math.min(sent.length, replies.length) - 1];
      if (reply === undefined || reply instanceof Error) throw reply ?? new Error('no reply is left');
      return cannedResponse(reply);
    },
  };
  const caller = createCaller({
    authorizer: {
      authorize: async (request) => grants[authorized.push(request) - 1],
      forget: (grant) => void forgotten.push(grant),
    },
    clock,
    random: () => 1,
    retry: RETRY,
  });
  const { signal } = new AbortController();
  const call = (more: Partial<Call> = {}) =>
    caller.call({
      host,
      path: 'team/app/x',
      repository: 'team/app',
      scopes: ['scope'],
      subject: 'r.test/team/app:1',
      options: { signal, emit: (event) => void events.push(event) },
      accept: [200],
      ...more,
    });
  return { call, caller, sent, authorized, forgotten, events, clock, host, signal };
}

const grant = (header: string, authenticated = true): Grant => ({ header, authenticated });
const redirect = (location: string | undefined, status = 307): Canned => ({
  status,
  headers: location === undefined ? {} : { location },
});
const urls = (sent: readonly Sent[]): readonly string[] => sent.map(({ url }) => url);

describe('a request', () => {
  it('goes to the registry with its grant and everything that it is', async () => {
    const { call, sent, authorized, host, signal } = world([{}], [grant('Basic a')]);
    const given = {
      method: 'PUT',
      body: 'text',
      contentLength: 4,
      deadlines: { idleMs: 1 },
      lane: 'write',
      lend: true,
    } as const;
    const answer = await call({ ...given, headers: { a: 'b', c: undefined } });
    expect(answer.url.href).toBe('https://r.test/v2/team/app/x');
    expect(answer.bytes).toEqual(new Uint8Array(0));
    expect(sent).toEqual([
      {
        url: 'https://r.test/v2/team/app/x',
        ...given,
        headers: { a: 'b', c: undefined, authorization: 'Basic a' },
        signal,
      },
    ]);
    expect(authorized).toEqual([{ host, repository: 'team/app', scopes: ['scope'], signal }]);
  });

  it('has nothing that it was not given', async () => {
    const { call, sent, signal } = world([{}]);
    await call();
    expect(Object.keys(sent[0] as Sent).toSorted()).toEqual(['headers', 'signal', 'url']);
    expect(sent[0]).toMatchObject({ headers: { authorization: undefined }, signal });
  });

  it('goes to an address that the registry gave, and reads its answer only where that is wanted', async () => {
    const { call, sent } = world([{ body: 'abc' }]);
    const answer = await call({ path: new URL('https://r.test/up?s=1'), collect: 3 });
    expect(urls(sent)).toEqual(['https://r.test/up?s=1']);
    expect(Buffer.from(answer.bytes).toString()).toBe('abc');
    await expect(call({ collect: 2 })).rejects.toMatchObject({ code: 'REGISTRY_ANSWER_TOO_LARGE' });
    expect((await call()).bytes).toHaveLength(0);
  });
});

describe('a redirect', () => {
  it.each([301, 302, 303, 307, 308])('with %i is followed when reading', async (status) => {
    for (const method of [undefined, 'GET', 'HEAD']) {
      const { call, sent } = world([redirect('/two', status), {}]);
      const answer = await call(method === undefined ? {} : { method });
      expect(answer.url.href).toBe('https://r.test/two');
      expect(sent.map((one) => one.method)).toEqual([method, method]);
    }
  });

  it('with another status is no redirect', async () => {
    for (const status of [300, 304, 306]) {
      const { call, sent } = world([redirect('/two', status)]);
      await expect(call()).rejects.toMatchObject({ code: 'REGISTRY_ANSWER_INVALID' });
      expect(sent).toHaveLength(1);
    }
  });

  it('is followed when writing where method and body stay, and can be sent twice', async () => {
    for (const [status, replayable, count] of [
      [307, undefined, 2],
      [308, true, 2],
      [307, false, 1],
      [301, undefined, 1],
      [302, undefined, 1],
      [303, undefined, 1],
    ] as const) {
      const { call, sent } = world([redirect('/two', status), {}]);
      const more = replayable === undefined ? {} : { replayable };
      await call({ method: 'PUT', body: 'x', accept: [200, status], ...more });
      expect([status, replayable, sent.length]).toEqual([status, replayable, count]);
      expect(sent.every(({ method, body }) => method === 'PUT' && body === 'x')).toBe(true);
    }
  });

  it('leaves the grant behind where it leaves the registry, and has it again where it comes back', async () => {
    const replies = [redirect('https://cdn.test/a'), redirect('https://r.test/b'), {}];
    const { call, sent } = world(replies, [grant('Basic a')]);
    await call();
    expect(sent.map(({ url, headers }) => [url, headers?.authorization])).toEqual([
      ['https://r.test/v2/team/app/x', 'Basic a'],
      ['https://cdn.test/a', undefined],
      ['https://r.test/b', 'Basic a'],
    ]);
  });

  it('may be the sixth and not the seventh', async () => {
    const many = (count: number): Canned[] => [...Array.from({ length: count }, () => redirect('a')), {}];
    const six = world(many(6));
    await six.call();
    expect(six.sent).toHaveLength(7);
    const seven = world(many(7));
    await expect(seven.call()).rejects.toMatchObject({
      code: 'REGISTRY_ANSWER_INVALID',
      message: 'r.test/team/app:1: r.test redirects in circles',
      hint: 'ask who runs the registry',
    });
    expect(seven.sent).toHaveLength(7);
  });

  it.each([undefined, 'http://['])('to %s is an error', async (location) => {
    await expect(world([redirect(location)]).call()).rejects.toMatchObject({
      code: 'REGISTRY_ANSWER_INVALID',
      message: 'r.test/team/app:1: r.test redirects to nowhere',
      hint: 'ask who runs the registry',
    });
  });
});

describe('a request that is refused with 401', () => {
  const challenged: Canned = { status: 401, headers: { 'www-authenticate': 'Basic realm="x"' } };

  it('is sent once more with what is got for its challenge, the old grant forgotten', async () => {
    const [old, fresh] = [grant('Bearer 1'), grant('Bearer 2')];
    const { call, sent, authorized, forgotten, host, signal } = world([challenged, {}], [old, fresh]);
    await call();
    expect(sent.map(({ headers }) => headers?.authorization)).toEqual(['Bearer 1', 'Bearer 2']);
    expect(forgotten).toEqual([old]);
    const request = { host, repository: 'team/app', scopes: ['scope'], signal };
    const challenges = [{ scheme: 'basic', params: { realm: 'x' } }];
    expect(authorized).toEqual([request, { ...request, challenges }]);
  });

  it('asks as before where there is no challenge', async () => {
    const { call, authorized, forgotten } = world([{ status: 401 }, {}], [undefined, grant('Basic a')]);
    await call();
    expect(authorized[1]).not.toHaveProperty('challenges');
    expect(forgotten).toEqual([]);
  });

  it('is not sent with the same again, nor with nothing, nor a second time', async () => {
    for (const [grants, count, hint] of [
      [[grant('Basic a'), grant('Basic a')], 1, 'check the credentials'],
      [[undefined, undefined], 1, 'log in'],
      [[grant('Bearer 1', false), undefined], 1, 'log in'],
      [[grant('Bearer 1'), grant('Bearer 2')], 2, 'check the credentials'],
      [[undefined, grant('Bearer 2')], 2, 'check the credentials'],
    ] as const) {
      const { call, sent, clock } = world([challenged], grants);
      await expect(call()).rejects.toMatchObject({
        code: 'REGISTRY_UNAUTHORIZED',
        hint: expect.stringContaining(hint) as string,
      });
      expect(sent).toHaveLength(count);
      expect(clock.slept).toEqual([]);
    }
  });

  it('asks for nothing new where the body cannot be sent twice, but forgets the grant', async () => {
    const old = grant('Bearer 1');
    const { call, sent, authorized, forgotten } = world([challenged], [old]);
    await expect(call({ replayable: false })).rejects.toMatchObject({ code: 'REGISTRY_UNAUTHORIZED' });
    expect([sent.length, authorized.length, forgotten]).toEqual([1, 1, [old]]);
  });

  it('has its answer where that is one', async () => {
    const { call, authorized, forgotten } = world([challenged], [grant('Bearer 1')]);
    expect((await call({ accept: [401] })).response.status).toBe(401);
    expect([authorized.length, forgotten]).toEqual([1, []]);
  });

  it('elsewhere is told of where it was, and is no reason to authorize', async () => {
    const { call, authorized, forgotten } = world([redirect('https://cdn.test/a'), challenged], [grant('a')]);
    await expect(call()).rejects.toMatchObject({
      code: 'REGISTRY_UNAUTHORIZED',
      message: 'r.test/team/app:1: cdn.test answered with status 401',
      details: { registry: 'cdn.test' },
    });
    expect([authorized.length, forgotten]).toEqual([1, []]);
  });
});

describe('a request that fails', () => {
  it('is sent again, and what it waits for is told', async () => {
    const busy: Canned = { status: 503, headers: { 'retry-after': '2' } };
    const { call, sent, clock, events } = world([busy, new HttpFailure('reset', 'gone'), {}]);
    await call();
    expect(sent).toHaveLength(3);
    expect(clock.slept).toEqual([2000, 500]);
    expect(events).toEqual([
      { type: 'registry.retry', registry: 'r.test', reason: 'status 503', delayMs: 2000 },
      { type: 'registry.retry', registry: 'r.test', reason: 'reset', delayMs: 500 },
    ]);
  });

  it.each<[Canned | Error, string, number]>([
    [{ status: 503 }, 'REGISTRY_BUSY', 6],
    [{ status: 403, body: 'toomanyrequests: no' }, 'REGISTRY_BUSY', 6],
    [new HttpFailure('timeout', 'slow'), 'REGISTRY_UNREACHABLE', 6],
    [new HttpFailure('connect', 'nobody'), 'REGISTRY_UNREACHABLE', 3],
    [ociError('REGISTRY_BUSY', 'busy', { hint: 'wait' }), 'REGISTRY_BUSY', 6],
    [{ status: 400 }, 'REGISTRY_REFUSED', 1],
    [{ status: 501 }, 'REGISTRY_UNSUPPORTED', 1],
    [new HttpFailure('tls', 'bad'), 'REGISTRY_TLS', 1],
    [ociError('REGISTRY_TLS', 'bad', { hint: 'mend' }), 'REGISTRY_TLS', 1],
  ])('with %j ends as %s after %i tries', async (reply, code, tries) => {
    const { call, sent } = world([reply]);
    await expect(call()).rejects.toMatchObject({ code, message: expect.stringMatching(/./) as string });
    expect(sent).toHaveLength(tries);
    const once = world([reply]);
    await expect(once.call({ replayable: false })).rejects.toMatchObject({ code });
    expect(once.sent).toHaveLength(1);
  });

  it('with the fault of a program ends with that, with the signal by its reason', async () => {
    const fault = new TypeError('no');
    await expect(world([fault]).call()).rejects.toBe(fault);
    const signal = AbortSignal.abort(new Error('enough'));
    for (const kind of ['reset', 'tls'] as const) {
      const stopped = world([new HttpFailure(kind, 'gone')]).call({ options: { signal, emit: () => {} } });
      await expect(stopped).rejects.toThrow('enough');
    }
  });
});

describe('a wait', () => {
  const waiting = (count: number, passedMs: number, askedMs: number | undefined, reason = 'reset') => {
    const { caller, clock, signal } = world([]);
    const attempt = { ...caller.begin(), count };
    clock.advance(passedMs);
    const transfer = { signal, emit: () => {} };
    const error = new Error('the last');
    const options = { askedMs, transfer, registry: 'r.test', reason };
    const waited = caller.pause(attempt, error, options).then(
      () => clock.slept[0],
      (thrown: unknown) => (thrown === error ? 'thrown' : thrown),
    );
    return { waited, attempt };
  };

  it('may end at the deadline and not after it', async () => {
    expect(await waiting(0, 60_000, 60_000).waited).toBe(60_000);
    expect(await waiting(0, 60_001, 60_000).waited).toBe('thrown');
  });

  it('comes before the last try and not after it; where nobody listens each counts twice', async () => {
    const four = waiting(4, 0, undefined);
    expect(await four.waited).toBe(4000);
    expect(four.attempt.count).toBe(5);
    expect(await waiting(5, 0, undefined).waited).toBe('thrown');
    expect(await waiting(3, 0, undefined, 'connect').waited).toBe(2000);
    expect(await waiting(4, 0, undefined, 'connect').waited).toBe('thrown');
  });
});

it('a warning is passed on where it is the registry’s own, ten at most', async () => {
  const many = Array.from({ length: 11 }, (_, at) => `299 - "w${at}"`);
  const { call, events } = world([{ headers: { warning: many } }]);
  await call();
  expect(events).toEqual(
    many.slice(0, 10).map((_, at) => ({ type: 'registry.warning', registry: 'r.test', message: `"w${at}"` })),
  );
  const odd = ['299 - "a \\"b\\" \\\\"', 'x299 - "no"', '299 - no', '299 - "cut', '299 - "with a date" "x"'];
  const other = world([{ headers: { warning: odd } }]);
  await other.call();
  expect(other.events.map((event) => (event as { message: string }).message)).toEqual([
    JSON.stringify('a "b" \\'),
    '"with a date"',
  ]);
});

it('what an error says of waiting and of its reason is read from it', () => {
  const busy = (retryAfterMs: unknown) =>
    ociError('REGISTRY_BUSY', 'busy', { hint: 'wait', details: { retryAfterMs } });
  expect([askedWait(busy(5)), askedWait(busy('5')), askedWait(new Error('x'))]).toEqual([
    5,
    undefined,
    undefined,
  ]);
  expect([reasonOf(new HttpFailure('dns', 'x')), reasonOf(busy(1)), reasonOf(new Error('x'))]).toEqual([
    'dns',
    'REGISTRY_BUSY',
    'failure',
  ]);
});
