import type { Clock, Turns } from '../../../kernel/http/index.ts';
import { ociError } from '../../errors.ts';
import { quoted } from '../../names/index.ts';
import { isRateLimit, type Refusal, readRefusal, refusalError } from './answer.ts';
import type { Challenge } from './challenge.ts';
import type { Host } from './host.ts';
import { checkRealm } from './realm.ts';
import { retryAfter } from './retry.ts';
import type { Credential } from './types.ts';

const LARGEST_TOKEN_ANSWER = 1024 * 1024;

export function basic(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

export interface TokenRequest {
  readonly host: Host;
  /** Most needed first. */
  readonly scopes: readonly string[];
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly credential: Credential | undefined;
  readonly realms: Readonly<Record<string, readonly string[]>>;
  /** Refresh tokens that came in the place of others. */
  readonly refreshed: Map<string, string>;
  /** One exchange at a time for each refresh token: where another comes back, the one that was sent is spent. */
  readonly exchanges: Turns;
}

export interface Token {
  readonly token: string;
  /** Milliseconds from now; 0 where nothing was said. */
  readonly expiresInMs: number;
  readonly refreshToken?: string;
}

/**
 * A token for these scopes, by GET or by OAuth2's POST: what is the usual way for the credentials that there are goes
 * first, the other one where the server answers 404 or 405.
 *
 * @throws REGISTRY_AUTH_INVALID, REGISTRY_UNAUTHORIZED, REGISTRY_FORBIDDEN, REGISTRY_BUSY, REGISTRY_ANSWER_INVALID
 */
export async function fetchToken(challenge: Challenge, request: TokenRequest): Promise<Token> {
  const { host, credential, signal } = request;
  const realm = checkRealm(challenge.params.realm ?? '', {
    host,
    origin: await host.origin(signal),
    withCredentials: credential !== undefined,
    known: request.realms,
  });
  const ask: Ask = { ...request, realm, service: challenge.params.service };
  const answer =
    credential?.kind === 'identity-token'
      ? await byRefreshToken(credential, ask)
      : await byPassword(credential, ask);
  if (answer !== undefined) return answer;
  throw noToken(host, realm);
}

interface Ask extends TokenRequest {
  readonly realm: URL;
  readonly service: string | undefined;
}

async function byPassword(credential: Credential | undefined, ask: Ask): Promise<Token | undefined> {
  const answer = await getToken(ask, credential?.kind === 'basic' ? credential : undefined);
  if (answer !== undefined || credential?.kind !== 'basic') return answer;
  const { username, password } = credential;
  return await postToken(ask, { grant_type: 'password', username, password });
}

async function byRefreshToken(
  credential: Extract<Credential, { kind: 'identity-token' }>,
  ask: Ask,
): Promise<Token | undefined> {
  // RFC 6749, 6: a new refresh token ends the old one.
  const key = JSON.stringify([ask.host.name, ask.realm.href, credential.token]);
  const over = await ask.exchanges.take(key, ask.signal);
  try {
    return await exchange(credential, key, ask);
  } finally {
    over();
  }
}

async function exchange(
  credential: Extract<Credential, { kind: 'identity-token' }>,
  key: string,
  ask: Ask,
): Promise<Token | undefined> {
  const refreshToken = ask.refreshed.get(key) ?? credential.token;
  const answer = await postToken(ask, { grant_type: 'refresh_token', refresh_token: refreshToken });
  if (answer?.refreshToken !== undefined) ask.refreshed.set(key, answer.refreshToken);
  if (answer !== undefined) return answer;
  // Servers without OAuth2 take the token in the place of a password.
  const username = credential.username ?? '00000000-0000-0000-0000-000000000000';
  return await getToken(ask, { username, password: refreshToken });
}

/** docs.docker.com, "Token Authentication Specification". Undefined: this way is not offered. */
async function getToken(
  ask: Ask,
  credential: { readonly username: string; readonly password: string } | undefined,
): Promise<Token | undefined> {
  const url = new URL(ask.realm);
  if (ask.service !== undefined) url.searchParams.set('service', ask.service);
  for (const scope of ask.scopes) url.searchParams.append('scope', scope);
  const headers: Record<string, string> = { accept: 'application/json' };
  if (credential !== undefined) {
    url.searchParams.set('account', credential.username);
    headers.authorization = basic(credential.username, credential.password);
  }
  const { host, signal } = ask;
  return await readToken(await host.send(url, { headers, signal, lane: 'control' }), ask);
}

/** docs.docker.com, "OAuth2 Token Authentication". */
async function postToken(ask: Ask, grant: Readonly<Record<string, string>>): Promise<Token | undefined> {
  const form = new URLSearchParams({ ...grant, client_id: 'skycap', scope: ask.scopes.join(' ') });
  if (ask.service !== undefined) form.set('service', ask.service);
  const response = await ask.host.send(ask.realm, {
    method: 'POST',
    headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
    body: form.toString(),
    signal: ask.signal,
    lane: 'control',
  });
  return await readToken(response, ask);
}

type HttpAnswer = Awaited<ReturnType<Host['send']>>;

async function readToken(response: HttpAnswer, ask: Ask): Promise<Token | undefined> {
  const { host, realm } = ask;
  if (response.status === 404 || response.status === 405) {
    await response.discard();
    return undefined;
  }
  // A redirect would carry the credentials to a place that nobody checked: it is no answer.
  if (response.status !== 200) throw refused(await readRefusal(response), ask);
  const text = await response.text(LARGEST_TOKEN_ANSWER);
  let value: Readonly<Record<string, unknown>>;
  try {
    value = (JSON.parse(text) ?? {}) as typeof value;
  } catch {
    throw ociError('REGISTRY_ANSWER_INVALID', `${whereOf(ask)}: the answer is not JSON`, {
      hint: 'check whether a proxy or login page answers in its place',
    });
  }
  const token = [value.token, value.access_token].find(isTokenText);
  if (token === undefined) throw noToken(host, realm);
  const seconds = Number(value.expires_in ?? 0);
  const refreshToken = value.refresh_token;
  return {
    token,
    expiresInMs: Number.isFinite(seconds) ? seconds * 1000 : 0,
    ...(isTokenText(refreshToken) ? { refreshToken } : {}),
  };
}

/** What may stand in a header: nothing that would end it and begin another. */
function isTokenText(value: unknown): value is string {
  return typeof value === 'string' && /^[\x21-\x7e]+$/.test(value);
}

function whereOf({ host, realm }: Ask): string {
  return `token for ${host.name} from ${realm.host}`;
}

function refused(refusal: Refusal, ask: Ask): Error {
  const { status } = refusal;
  const { host, realm, credential } = ask;
  if (isRateLimit(refusal) || ![400, 401, 403].includes(status)) {
    const retryAfterMs = retryAfter(refusal.retryAfter, refusal.text, ask.clock.now());
    return refusalError(refusal, {
      subject: whereOf(ask),
      host: realm.host,
      authenticated: true,
      retryAfterMs,
    });
  }
  return ociError(
    status === 403 ? 'REGISTRY_FORBIDDEN' : 'REGISTRY_UNAUTHORIZED',
    `${whereOf(ask)}: ${realm.host} answered with ${refusal.message}`,
    {
      hint:
        credential === undefined
          ? `log in with: skycap login ${host.name}`
          : `check the credentials with: skycap login ${host.name}`,
      details: { status, registry: realm.host, registryCodes: refusal.codes },
    },
  );
}

function noToken(host: Host, realm: URL): Error {
  return ociError(
    'REGISTRY_AUTH_INVALID',
    `${host.name}: ${quoted(`${realm.host}${realm.pathname}`)} gives no token`,
    { hint: `check the credentials with: skycap login ${host.name}` },
  );
}
