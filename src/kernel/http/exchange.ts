import type { ClientRequest, IncomingMessage } from 'node:http';
import { failureFrom, HttpFailure } from './failure.ts';
import { lendBody } from './lend.ts';
import type { HttpResponse, RequestBody } from './types.ts';

/** One timer that is set again at each sign of life. */
export class Watchdog {
  readonly #bark: (error: HttpFailure) => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(bark: (error: HttpFailure) => void) {
    this.#bark = bark;
  }

  arm(ms: number, message: string): void {
    this.stop();
    if (ms > 0) this.#timer = setTimeout(() => this.#bark(new HttpFailure('timeout', message)), ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

const SMALL_REST = 64 * 1024;

export interface ResponseSettings {
  readonly idleMs: number;
  readonly idleBytes: number;
  readonly where: string;
  readonly signal: AbortSignal | undefined;
  readonly proxied: boolean;
  readonly lend: boolean;
  /** The answer to HEAD: what its headers say of a body is of one that does not come (RFC 9110, 9.3.2). */
  readonly bodiless: boolean;
  /** Called once when the exchange is over, well or badly. */
  readonly done: () => void;
}

export function wrapResponse(message: IncomingMessage, settings: ResponseSettings): HttpResponse {
  message.on('error', () => {});
  message.once('close', settings.done);
  const pieces = (settings.lend ? lendBody(message) : undefined) ?? (message as AsyncIterable<Uint8Array>);
  const body = readBody(message, pieces, settings);
  const bytes = async (limit: number): Promise<Uint8Array> => {
    const announced = settings.bodiless ? 0 : Number(message.headers['content-length'] ?? 0);
    const parts: Uint8Array[] = [];
    let size = 0;
    const refuse = (): HttpFailure =>
      new HttpFailure('too-large', `${settings.where}: answer of more than ${limit} bytes`);
    if (announced > limit) {
      message.destroy();
      throw refuse();
    }
    for await (const part of body) {
      size += part.length;
      if (size > limit) throw refuse();
      parts.push(part);
    }
    return Buffer.concat(parts, size);
  };
  return {
    status: message.statusCode ?? 0,
    headers: message.headers,
    values: (name) => message.headersDistinct[name.toLowerCase()] ?? [],
    remoteAddress: message.socket?.remoteAddress,
    proxied: settings.proxied,
    body,
    bytes,
    text: async (limit) => Buffer.from(await bytes(limit)).toString('utf8'),
    discard: async () => {
      try {
        await bytes(SMALL_REST);
      } catch {
        message.destroy();
      }
    },
  };
}

async function* readBody(
  message: IncomingMessage,
  pieces: AsyncIterable<Uint8Array>,
  settings: ResponseSettings,
): AsyncGenerator<Uint8Array, void> {
  const { idleMs, idleBytes } = settings;
  const watchdog = new Watchdog((error) => message.destroy(error));
  const text = `${settings.where}: too little data within ${idleMs} ms`;
  let left = idleMs;
  let gathered = 0;
  let since = performance.now();
  try {
    watchdog.arm(idleMs, text);
    for await (const part of pieces) {
      // The consumer's own slowness is not the peer's silence.
      watchdog.stop();
      gathered += part.length;
      left -= performance.now() - since;
      if (gathered >= idleBytes) {
        gathered = 0;
        left = idleMs;
      }
      yield part;
      since = performance.now();
      if (idleMs > 0) watchdog.arm(Math.max(left, 1), text);
    }
  } catch (error) {
    settings.signal?.throwIfAborted();
    throw failureFrom(error, settings.where);
  } finally {
    watchdog.stop();
    settings.done();
  }
}

/**
 * Writes the body with back-pressure. Ends quietly when the peer has already answered with an error: what it says
 * matters more than the broken pipe that follows.
 */
export async function sendBody(
  request: ClientRequest,
  body: RequestBody | undefined,
  hooks: { readonly alive: () => void; readonly stopped: () => boolean },
): Promise<void> {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    request.end(body);
    return;
  }
  for await (const part of body) {
    if (hooks.stopped()) return;
    hooks.alive();
    if (part.length === 0) continue;
    if (request.write(part)) continue;
    await drained(request);
  }
  if (!hooks.stopped()) request.end();
}

function drained(request: ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      request.off('drain', finish);
      request.off('close', finish);
      request.off('response', finish);
      resolve();
    };
    request.once('drain', finish);
    request.once('close', finish);
    // A peer that answers and stops reading would never drain us.
    request.once('response', finish);
  });
}
