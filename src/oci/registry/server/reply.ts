import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { digestOf } from '../../names/index.ts';
import { entityTag, isUnchanged } from './conditions.ts';
import { Refused } from './refused.ts';

export { Refused } from './refused.ts';

/** One request in the making of its answer. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly method: string;
  readonly query: URLSearchParams;
  readonly signal: AbortSignal;
}

export function reply(
  exchange: Exchange,
  status: number,
  headers: Readonly<Record<string, string | number | readonly string[]>>,
  body?: Uint8Array | string,
): void {
  const bytes = body === undefined ? undefined : Buffer.from(body);
  const length = status === 304 ? {} : { 'content-length': bytes?.length ?? 0 };
  exchange.response.writeHead(status, { ...length, ...headers } as OutgoingHttpHeaders);
  exchange.response.end(exchange.method === 'HEAD' ? undefined : bytes);
}

/** A list; its entity tag changes with it. */
export function replyJson(
  exchange: Exchange,
  value: unknown,
  headers: Readonly<Record<string, string | number>> = {},
): void {
  const body = JSON.stringify(value);
  const digest = digestOf(body);
  const etag = { etag: entityTag(digest) };
  if (isUnchanged(exchange.method, exchange.request.headers, digest)) reply(exchange, 304, etag);
  else reply(exchange, 200, { 'content-type': 'application/json', ...etag, ...headers }, body);
}

/** At most `limit` bytes of the request's body. */
export async function readBody(exchange: Exchange, limit: number): Promise<Uint8Array> {
  const tooLarge = (): Refused => new Refused(413, 'SIZE_INVALID', `at most ${limit} bytes are taken here`);
  if (Number(exchange.request.headers['content-length'] ?? 0) > limit) throw tooLarge();
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of exchange.request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > limit) throw tooLarge();
    parts.push(part);
  }
  return Buffer.concat(parts, size);
}

export interface Page<T> {
  readonly items: readonly T[];
  /** A `Link` to the next page, where there is one. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface Paging<T> {
  /** Of this list, for the link. */
  readonly path: string;
  /** What `last` is compared with; the items are sorted by it. */
  readonly key: (item: T) => string;
  /** Further queries that the link keeps. */
  readonly keep?: Readonly<Record<string, string>>;
  /** How many of these make a page, where the client asks for no fewer. */
  readonly fits: (items: readonly T[]) => number;
}

/** `n` and `last` over a sorted list (distribution-spec, "Listing Tags" and "Listing Referrers"). */
export function page<T>(exchange: Exchange, items: readonly T[], paging: Paging<T>): Page<T> {
  const wanted = exchange.query.get('n');
  const last = exchange.query.get('last');
  if (wanted !== null && !/^\d{1,9}$/.test(wanted))
    throw new Refused(400, 'PAGINATION_NUMBER_INVALID', 'n is no number');
  const after = last === null ? items : items.filter((item) => paging.key(item) > last);
  const shown = after.slice(0, Math.min(Number(wanted ?? Number.MAX_SAFE_INTEGER), paging.fits(after)));
  const final = shown.at(-1);
  if (final === undefined || shown.length === after.length) return { items: shown, headers: {} };
  const query = new URLSearchParams({
    ...paging.keep,
    ...(wanted === null ? {} : { n: wanted }),
    last: paging.key(final),
  });
  return { items: shown, headers: { link: `<${paging.path}?${query}>; rel="next"` } };
}
