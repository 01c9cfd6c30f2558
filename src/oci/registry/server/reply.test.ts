import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { digestOf } from '../../names/index.ts';
import { type Exchange, page, Refused, readBody, reply, replyJson } from './reply.ts';

interface Sent {
  readonly exchange: Exchange;
  readonly answer: { status?: number; headers?: object; body?: string | undefined };
}

function exchangeOf(
  from: { method?: string; query?: string; headers?: Record<string, string>; body?: readonly string[] } = {},
): Sent {
  const answer: Sent['answer'] = {};
  const request = Object.assign(Readable.from((from.body ?? []).map((part) => Buffer.from(part))), {
    headers: from.headers ?? {},
  });
  const response = {
    writeHead: (status: number, headers: object) => Object.assign(answer, { status, headers }),
    end: (body: Buffer | undefined) => Object.assign(answer, { body: body?.toString() }),
  };
  const exchange = {
    request,
    response,
    method: from.method ?? 'GET',
    query: new URLSearchParams(from.query),
    signal: new AbortController().signal,
  };
  return { exchange: exchange as unknown as Exchange, answer };
}

describe('an answer', () => {
  it('has its length, also where there is none, and for HEAD no body', () => {
    const { exchange, answer } = exchangeOf();
    reply(exchange, 200, { a: 'b' }, 'grüße');
    expect(answer).toEqual({ status: 200, headers: { 'content-length': 7, a: 'b' }, body: 'grüße' });
    reply(exchange, 202, {});
    expect(answer).toEqual({ status: 202, headers: { 'content-length': 0 }, body: undefined });
    const head = exchangeOf({ method: 'HEAD' });
    reply(head.exchange, 200, {}, 'abc');
    expect(head.answer).toEqual({ status: 200, headers: { 'content-length': 3 }, body: undefined });
  });

  it('has the length that its sender knows better', () => {
    const { exchange, answer } = exchangeOf({ method: 'HEAD' });
    reply(exchange, 200, { 'content-length': 9 });
    expect(answer.headers).toEqual({ 'content-length': 9 });
  });

  it('says nothing of a length where nothing has changed', () => {
    const { exchange, answer } = exchangeOf();
    reply(exchange, 304, { etag: '"x"' });
    expect(answer).toEqual({ status: 304, headers: { etag: '"x"' }, body: undefined });
  });
});

describe('a list', () => {
  const body = '{"a":1}';
  const etag = `"${digestOf(body)}"`;

  it('comes with an entity tag of its bytes', () => {
    const { exchange, answer } = exchangeOf();
    replyJson(exchange, { a: 1 }, { link: 'x' });
    const headers = { 'content-type': 'application/json', 'content-length': 7, etag, link: 'x' };
    expect(answer).toEqual({ status: 200, headers, body });
  });

  it('may have a media type of its own', () => {
    const { exchange, answer } = exchangeOf();
    replyJson(exchange, { a: 1 }, { 'content-type': 'x/y' });
    expect(answer.headers).toMatchObject({ 'content-type': 'x/y' });
  });

  it('is not sent to who has it, who is told which it is', () => {
    const { exchange, answer } = exchangeOf({ headers: { 'if-none-match': etag } });
    replyJson(exchange, { a: 1 }, { link: 'x' });
    expect(answer).toEqual({ status: 304, headers: { etag }, body: undefined });
  });
});

describe('a body', () => {
  const tooLarge = { status: 413, code: 'SIZE_INVALID', message: 'at most 5 bytes are taken here' };

  it('is taken up to the limit, in as many parts as it comes', async () => {
    for (const headers of [{}, { 'content-length': '5' }] as Record<string, string>[]) {
      const { exchange } = exchangeOf({ headers, body: ['ab', 'cde'] });
      expect(Buffer.from(await readBody(exchange, 5)).toString()).toBe('abcde');
    }
    expect(await readBody(exchangeOf().exchange, 5)).toHaveLength(0);
  });

  it('is refused before it comes where it announces too much', async () => {
    const { exchange } = exchangeOf({ headers: { 'content-length': '6' } });
    await expect(readBody(exchange, 5)).rejects.toMatchObject(tooLarge);
    expect(exchange.request.readableDidRead).toBe(false);
  });

  it('is refused as soon as it is too much, whatever it announces', async () => {
    for (const headers of [{}, { 'content-length': '1' }] as Record<string, string>[]) {
      const { exchange } = exchangeOf({ headers, body: ['ab', 'cdef', 'never'] });
      await expect(readBody(exchange, 5)).rejects.toMatchObject(tooLarge);
    }
  });
});

describe('a page', () => {
  const all = ['a', 'b', 'c', 'd'];
  const paged = (query: string, more: { fits?: number; keep?: Record<string, string> } = {}): unknown => {
    const { items, headers } = page(exchangeOf({ query }).exchange, all, {
      path: '/list',
      key: (item) => item,
      fits: () => more.fits ?? 100,
      ...(more.keep === undefined ? {} : { keep: more.keep }),
    });
    return [items.join(''), headers];
  };
  const link = (query: string): object => ({ link: `</list?${query}>; rel="next"` });

  it.each([
    ['', 'abcd', {}],
    ['n=2', 'ab', link('n=2&last=b')],
    ['n=2&last=b', 'cd', {}],
    ['n=1&last=b', 'c', link('n=1&last=c')],
    ['n=3', 'abc', link('n=3&last=c')],
    ['n=4', 'abcd', {}],
    ['n=5', 'abcd', {}],
    ['n=999999999', 'abcd', {}],
    ['n=0', '', {}],
    ['last=b', 'cd', {}],
    ['last=bb', 'cd', {}],
    ['last=', 'abcd', {}],
    ['last=d', '', {}],
  ])('of %j', (query, items, headers) => {
    expect(paged(query)).toEqual([items, headers]);
  });

  it('holds no more than fits, and keeps the rest of the query', () => {
    expect(paged('', { fits: 3 })).toEqual(['abc', link('last=c')]);
    expect(paged('n=4', { fits: 3 })).toEqual(['abc', link('n=4&last=c')]);
    expect(paged('n=2', { fits: 3, keep: { type: 'x/y' } })).toEqual(['ab', link('type=x%2Fy&n=2&last=b')]);
  });

  it('what fits is asked of what is still to come', () => {
    const seen: unknown[] = [];
    const fits = (items: readonly string[]): number => seen.push(items);
    page(exchangeOf({ query: 'last=b' }).exchange, all, { path: '/', key: (item) => item, fits });
    expect(seen).toEqual([['c', 'd']]);
  });

  it.each(['n=-1', 'n=x', 'n=', 'n=1x', 'n=x1', 'n=1.5', 'n=1234567890'])('refuses %s', (query) => {
    expect(() => paged(query)).toThrow(Refused);
    expect(() => paged(query)).toThrow(
      expect.objectContaining({ status: 400, code: 'PAGINATION_NUMBER_INVALID', message: 'n is no number' }),
    );
  });
});
