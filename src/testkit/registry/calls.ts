import { HttpFailure, type HttpResponse } from '../../kernel/http/index.ts';
import type { OciEvent } from '../../oci/index.ts';
import { formatReference, parseReference } from '../../oci/names/index.ts';
import type { Answer, Call, PauseOptions } from '../../oci/registry/client/caller.ts';
import type { Target } from '../../oci/registry/client/target.ts';
import type { Reference } from '../../oci/types.ts';

/** What a registry answers, without a network between. */
export interface Canned {
  /** Default 200. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | Uint8Array;
  /** Breaks off with this after the body. */
  readonly breaks?: Error;
  /** Where it came from; default: the address that was asked. */
  readonly url?: string;
  readonly proxied?: boolean;
  readonly remoteAddress?: string;
}

/** Sends its body in pieces of 1000 bytes. */
export function cannedResponse(canned: Canned = {}): HttpResponse {
  const body = Buffer.from(canned.body ?? '');
  const whole = (limit: number): Buffer => {
    if (canned.breaks !== undefined) throw canned.breaks;
    if (body.length > limit) throw new HttpFailure('too-large', `more than ${limit} bytes`);
    return body;
  };
  return {
    status: canned.status ?? 200,
    headers: {},
    values: (name) => {
      const value = canned.headers?.[name];
      return value === undefined ? [] : typeof value === 'string' ? [value] : value;
    },
    remoteAddress: canned.remoteAddress ?? '127.0.0.1',
    ...(canned.proxied === undefined ? {} : { proxied: canned.proxied }),
    body: (async function* () {
      for (let at = 0; at < body.length; at += 1000) yield body.subarray(at, at + 1000);
      if (canned.breaks !== undefined) throw canned.breaks;
    })(),
    bytes: async (limit) => whole(limit),
    text: async (limit) => whole(limit).toString(),
    discard: async () => {},
  };
}

/** A call as it was made: without what is the same for all calls of one target, its body read. */
export type Made = Omit<Call, 'host' | 'repository' | 'options' | 'path' | 'body'> & {
  readonly path: string;
  readonly body?: Buffer;
};

export interface Calling {
  readonly target: Target;
  readonly calls: readonly Made[];
  readonly pauses: readonly Omit<PauseOptions, 'transfer'>[];
  readonly events: readonly OciEvent[];
  /** How often a count of tries was begun. */
  readonly begun: () => number;
}

async function read(body: NonNullable<Call['body']>): Promise<Buffer> {
  if (typeof body === 'string' || body instanceof Uint8Array) return Buffer.from(body);
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(Buffer.from(part));
  return Buffer.concat(parts);
}

const ORIGIN = 'https://r.test';

/**
 * A repository `team/app` of `r.test` whose registry answers as told, in turn, the last answer for good; what it was
 * asked stands in `calls`. A wait is noted in `pauses` and not waited for; the fifth of one count of tries fails.
 */
export function calling(
  replies: readonly (Canned | Error)[] | ((call: Made, at: number) => Canned | Error),
  more: { readonly reference?: string; readonly lend?: boolean; readonly signal?: AbortSignal } = {},
): Calling {
  const calls: Made[] = [];
  const pauses: Omit<PauseOptions, 'transfer'>[] = [];
  const events: OciEvent[] = [];
  let begun = 0;
  const reference: Reference = parseReference(`r.test/${more.reference ?? 'team/app:1'}`);
  const signal = more.signal ?? new AbortController().signal;
  const answerTo = async (call: Call): Promise<Answer> => {
    const { host, repository, options, path, body, ...made } = call;
    if (host !== target.host || repository !== target.repository || options.signal === undefined)
      throw new Error('a call that is none of this target');
    const entry: Made = {
      ...made,
      path: String(path),
      ...(body === undefined ? {} : { body: await read(body) }),
    };
    const at = calls.push(entry) - 1;
    const canned =
      typeof replies === 'function' ? replies(entry, at) : replies[Math.min(at, replies.length - 1)];
    if (canned === undefined) throw new Error('no reply is left');
    if (canned instanceof Error) throw canned;
    const response = cannedResponse(canned);
    if (!call.accept.includes(response.status)) throw new Error(`${response.status} is not accepted`);
    return {
      response,
      url: new URL(canned.url ?? (typeof path === 'string' ? `${ORIGIN}/v2/${path}` : path)),
      bytes: call.collect === undefined ? new Uint8Array(0) : await response.bytes(call.collect),
    };
  };
  const target: Target = {
    host: {
      name: 'r.test',
      challenges: [],
      origin: async () => new URL(ORIGIN),
      learn: () => {},
      checkTarget: () => {},
      send: async () => {
        throw new Error('not past the caller');
      },
    },
    repository: reference.repository,
    reference,
    subject: formatReference(reference),
    caller: {
      call: answerTo,
      begin: () => {
        begun += 1;
        return { count: 0, started: 0 };
      },
      pause: async (attempt, error, { transfer: _, ...options }) => {
        pauses.push(options);
        attempt.count += 1;
        if (attempt.count === 5) throw error;
      },
    },
    options: { signal, emit: (event) => void events.push(event) },
    ...(more.lend === undefined ? {} : { lend: more.lend }),
  };
  return { target, calls, pauses, events, begun: () => begun };
}
