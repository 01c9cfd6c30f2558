import { type Clock, HttpFailure, type HttpResponse, isHttpFailure } from '../../../kernel/http/index.ts';
import { isSkycapError } from '../../../kernel/index.ts';
import { ociError } from '../../errors.ts';
import { quoted } from '../../names/index.ts';
import type { OciEvent, TransferOptions } from '../../port.ts';
import { failureError, isRateLimit, readRefusal, refusalError } from './answer.ts';
import type { Authorizer, Grant } from './auth.ts';
import { parseChallenges } from './challenge.ts';
import type { Host, HostRequest } from './host.ts';
import { backOff, isTransientStatus, type RetryPolicy, retryAfter } from './retry.ts';

/** Bytes after which a broken transfer counts as a new one; fewer, and a registry could keep us for good. */
export const PROGRESS = 1024 * 1024;

const MOST_REDIRECTS = 6;
const NOTHING = new Uint8Array(0);
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

export interface Call extends Omit<HostRequest, 'signal' | 'headers'> {
  readonly host: Host;
  /** Below `/v2/`, or the absolute address that the registry gave. */
  readonly path: string | URL;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly repository: string;
  /** Most needed first. */
  readonly scopes: readonly string[];
  /** What the user asked for, for messages. */
  readonly subject: string;
  readonly options: TransferOptions;
  /** Statuses that are an answer and no failure. */
  readonly accept: readonly number[];
  /** Reads the answer's body, at most so many bytes, so that a broken one is asked for again. */
  readonly collect?: number;
  /** False where the body cannot be sent twice: one try, whatever happens. */
  readonly replayable?: boolean;
}

export interface Answer {
  readonly response: HttpResponse;
  /** Where the answer came from, after redirects. */
  readonly url: URL;
  /** Empty unless asked for with `collect`. */
  readonly bytes: Uint8Array;
}

export interface Caller {
  /**
   * One request, with authorization, redirects and retries.
   *
   * @throws the coded errors of `answer.ts`, or the signal's reason
   */
  call(call: Call): Promise<Answer>;
  /** Waits before the next try, or throws `error` when no try is left. */
  pause(attempt: Attempt, error: unknown, options: PauseOptions): Promise<void>;
  begin(): Attempt;
}

export interface Attempt {
  count: number;
  readonly started: number;
}

export interface PauseOptions {
  readonly askedMs: number | undefined;
  readonly transfer: TransferOptions;
  readonly registry: string;
  readonly reason: string;
}

export interface CallerSettings {
  readonly authorizer: Authorizer;
  readonly clock: Clock;
  readonly random: () => number;
  readonly retry: RetryPolicy;
}

export function createCaller(settings: CallerSettings): Caller {
  const { authorizer, clock, retry } = settings;

  async function pause(attempt: Attempt, error: unknown, options: PauseOptions): Promise<void> {
    const wait = backOff(retry, attempt.count, { asked: options.askedMs, random: settings.random() });
    // Where nobody listens, nobody will in a minute: half as many tries.
    attempt.count += options.reason === 'connect' ? 2 : 1;
    const late = clock.now() + wait - attempt.started > retry.deadlineMs;
    if (attempt.count >= retry.attempts || late) throw error;
    const { registry, reason } = options;
    const event: OciEvent = { type: 'registry.retry', registry, reason, delayMs: Math.round(wait) };
    options.transfer.emit(event);
    await clock.sleep(wait, options.transfer.signal);
  }

  /** One try: authorize, send, follow. Asks for a new token once when the old one is no longer taken. */
  async function attemptOnce(call: Call): Promise<{ answer: Answer; grant: Grant | undefined }> {
    const { host, repository, scopes } = call;
    const { signal } = call.options;
    const origin = await host.origin(signal);
    const url = typeof call.path === 'string' ? new URL(`/v2/${call.path}`, origin) : call.path;
    const request = { host, repository, scopes, signal };
    const grant = await authorizer.authorize(request);
    const answer = await follow(call, url, grant);
    const ours = answer.url.origin === origin.origin;
    if (answer.response.status !== 401 || !ours || call.accept.includes(401)) return { answer, grant };
    if (grant !== undefined) authorizer.forget(grant);
    if (call.replayable === false) return { answer, grant };
    const challenges = parseChallenges(answer.response.values('www-authenticate'));
    const renewed = await authorizer.authorize(
      challenges.length === 0 ? request : { ...request, challenges },
    );
    // The same again would only count towards a lock-out.
    if (renewed === undefined || renewed.header === grant?.header) return { answer, grant };
    await answer.response.discard();
    return { answer: await follow(call, url, renewed), grant: renewed };
  }

  async function follow(call: Call, start: URL, grant: Grant | undefined): Promise<Answer> {
    const { host } = call;
    const origin = (await host.origin(call.options.signal)).origin;
    let url = start;
    for (let hops = 0; hops <= MOST_REDIRECTS; hops += 1) {
      // What belongs to the registry stays with the registry: storage behind it signs its own addresses.
      const authorization = url.origin === origin ? grant?.header : undefined;
      const response = await host.send(url, {
        ...bare(call),
        headers: { ...call.headers, authorization },
        signal: call.options.signal,
      });
      if (!REDIRECTS.has(response.status) || !mayFollow(call, response.status))
        return { response, url, bytes: NOTHING };
      const location = response.values('location')[0];
      await response.discard();
      if (location === undefined || !URL.canParse(location, url.href)) {
        throw ociError('REGISTRY_ANSWER_INVALID', `${call.subject}: ${host.name} redirects to nowhere`, {
          hint: 'ask who runs the registry',
        });
      }
      url = new URL(location, url);
    }
    throw ociError('REGISTRY_ANSWER_INVALID', `${call.subject}: ${host.name} redirects in circles`, {
      hint: 'ask who runs the registry',
    });
  }

  async function call(call: Call): Promise<Answer> {
    const attempt: Attempt = { count: 0, started: clock.now() };
    for (;;) {
      const outcome = await tryCall(call);
      if ('answer' in outcome) return outcome.answer;
      if (!outcome.again || call.replayable === false) throw outcome.error;
      const { askedMs, reason } = outcome;
      await pause(attempt, outcome.error, {
        askedMs,
        reason,
        transfer: call.options,
        registry: call.host.name,
      });
    }
  }

  async function tryCall(call: Call): Promise<{ answer: Answer } | Failed> {
    const { subject } = call;
    try {
      const { answer, grant } = await attemptOnce(call);
      warn(call, answer.response);
      if (call.accept.includes(answer.response.status)) {
        if (call.collect === undefined) return { answer };
        return { answer: { ...answer, bytes: await answer.response.bytes(call.collect) } };
      }
      const refusal = await readRefusal(answer.response);
      const retryAfterMs = retryAfter(refusal.retryAfter, refusal.text, clock.now());
      const authenticated = grant?.authenticated === true;
      const error = refusalError(refusal, { subject, host: answer.url.host, authenticated, retryAfterMs });
      const again = isTransientStatus(refusal.status) || isRateLimit(refusal);
      return { error, again, askedMs: retryAfterMs, reason: `status ${refusal.status}` };
    } catch (error) {
      call.options.signal.throwIfAborted();
      return {
        error: failureError(error, subject),
        again: isPassing(error),
        askedMs: askedWait(error),
        reason: reasonOf(error),
      };
    }
  }

  return { call, pause, begin: () => ({ count: 0, started: clock.now() }) };
}

interface Failed {
  readonly error: unknown;
  readonly again: boolean;
  readonly askedMs: number | undefined;
  readonly reason: string;
}

/** Of an error that was made from an answer. */
export function askedWait(error: unknown): number | undefined {
  const asked = isSkycapError(error) ? error.details?.retryAfterMs : undefined;
  return typeof asked === 'number' ? asked : undefined;
}

function isPassing(error: unknown): boolean {
  if (isHttpFailure(error)) return error.transient;
  // A token server that is busy, seen through the error that it became.
  return isSkycapError(error, 'REGISTRY_BUSY');
}

export function reasonOf(error: unknown): string {
  return error instanceof HttpFailure ? error.kind : isSkycapError(error) ? error.code : 'failure';
}

function bare(call: Call): HostRequest {
  const { method, body, contentLength, deadlines, lane, lend } = call;
  return {
    ...(method === undefined ? {} : { method }),
    ...(body === undefined ? {} : { body }),
    ...(contentLength === undefined ? {} : { contentLength }),
    ...(deadlines === undefined ? {} : { deadlines }),
    ...(lane === undefined ? {} : { lane }),
    ...(lend === undefined ? {} : { lend }),
  };
}

/** 307 and 308 keep method and body; the others would turn a write into a read. */
function mayFollow(call: Call, status: number): boolean {
  const reading = call.method === undefined || call.method === 'GET' || call.method === 'HEAD';
  if (reading) return true;
  return (status === 307 || status === 308) && call.replayable !== false;
}

/** distribution-spec, "Warnings": only agent `-`, code 299. */
function warn(call: Call, response: HttpResponse): void {
  for (const line of response.values('warning').slice(0, 10)) {
    const text = /^299 - "((?:[^"\\]|\\.)*)"/.exec(line)?.[1];
    if (text === undefined) continue;
    call.options.emit({
      type: 'registry.warning',
      registry: call.host.name,
      message: quoted(text.replace(/\\(.)/g, '$1')),
    });
  }
}
