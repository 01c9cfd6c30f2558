import type { IncomingMessage, ServerResponse } from 'node:http';

/** One request in the making of its answer. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly method: string;
  readonly query: URLSearchParams;
  readonly signal: AbortSignal;
}

/** An answer of the protocol that is an error (distribution-spec, "Error Codes"). */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

export function reply(
  exchange: Exchange,
  status: number,
  headers: Readonly<Record<string, string | number>>,
  body?: Uint8Array | string,
): void {
  const bytes = body === undefined ? undefined : Buffer.from(body);
  exchange.response.writeHead(status, { 'content-length': bytes?.length ?? 0, ...headers });
  exchange.response.end(exchange.method === 'HEAD' ? undefined : bytes);
}

export function replyJson(
  exchange: Exchange,
  value: unknown,
  headers: Readonly<Record<string, string | number>> = {},
): void {
  reply(exchange, 200, { 'content-type': 'application/json', ...headers }, JSON.stringify(value));
}

/** At most `limit` bytes of the request's body. */
export async function readBody(exchange: Exchange, limit: number): Promise<Uint8Array> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of exchange.request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > limit) throw new Refused(413, 'SIZE_INVALID', `at most ${limit} bytes are taken here`);
    parts.push(part);
  }
  return Buffer.concat(parts, size);
}

/** `n` and `last` over a sorted list (distribution-spec, "Listing Tags"). */
export function page(
  exchange: Exchange,
  names: readonly string[],
  path: string,
): { readonly names: readonly string[]; readonly link: string | undefined } {
  const wanted = exchange.query.get('n');
  const last = exchange.query.get('last');
  const after = last === null ? names : names.filter((name) => name > last);
  if (wanted === null) return { names: after, link: undefined };
  if (!/^\d{1,9}$/.test(wanted)) throw new Refused(400, 'PAGINATION_NUMBER_INVALID', 'n is no number');
  const shown = after.slice(0, Number(wanted));
  const final = shown.at(-1);
  if (final === undefined || shown.length === after.length) return { names: shown, link: undefined };
  const query = new URLSearchParams({ n: wanted, last: final });
  return { names: shown, link: `<${path}?${query}>; rel="next"` };
}
