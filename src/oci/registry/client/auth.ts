import type { Clock } from '../../../kernel/http/index.ts';
import { ociError } from '../../errors.ts';
import { quoted } from '../../names/index.ts';
import { readRefusal, refusalError } from './answer.ts';
import type { Challenge } from './challenge.ts';
import type { Host } from './host.ts';
import { checkRealm } from './realm.ts';
import { retryAfter } from './retry.ts';
import type { Credential, CredentialsProvider } from './types.ts';

const LARGEST_TOKEN_ANSWER = 1024 * 1024;
const SHORTEST_LIFE_MS = 60_000;
/** A token is renewed a little before it ends, so that it does not end on its way. */
const MARGIN_MS = 5_000;

export interface Grant {
  readonly header: string;
  readonly authenticated: boolean;
}

export interface AuthorizeRequest {
  readonly host: Host;
  readonly repository: string;
  /** Most needed first: some servers read the first only. */
  readonly scopes: readonly string[];
  readonly signal: AbortSignal;
}

export interface Authorizer {
  /** Undefined where the registry has not asked for anything. */
  authorize(request: AuthorizeRequest): Promise<Grant | undefined>;
  /** The registry did not take it: the next `authorize` gets a new one. */
  forget(grant: Grant): void;
}

interface Kept {
  readonly grant: Grant;
  readonly host: Host;
  readonly realm: string;
  readonly scopes: ReadonlySet<string>;
  readonly expires: number;
}

export interface AuthorizerSettings {
  readonly credentials: CredentialsProvider;
  readonly realms: Readonly<Record<string, readonly string[]>>;
  readonly clock: Clock;
}

export function createAuthorizer(settings: AuthorizerSettings): Authorizer {
  let kept: readonly Kept[] = [];
  const underWay = new Map<string, Promise<Grant>>();

  async function bearer(challenge: Challenge, request: AuthorizeRequest): Promise<Grant> {
    const { host } = request;
    const scopes = mergeScopes(request.scopes, challenge.params.scope);
    const realm = challenge.params.realm ?? '';
    const now = settings.clock.now();
    const fitting = kept.find(
      (entry) =>
        entry.host === host &&
        entry.realm === realm &&
        entry.expires > now &&
        scopes.every((scope) => covers(entry.scopes, scope)),
    );
    if (fitting !== undefined) return fitting.grant;
    const key = JSON.stringify([host.name, realm, request.repository, scopes]);
    const waiting = underWay.get(key);
    if (waiting !== undefined) {
      try {
        return await waiting;
      } catch (error) {
        // Another's cancellation is not ours.
        request.signal.throwIfAborted();
        if (underWay.has(key)) throw error;
      }
    }
    const task = fetchGrant(challenge, { ...request, scopes });
    underWay.set(key, task);
    try {
      return await task;
    } finally {
      underWay.delete(key);
    }
  }

  async function fetchGrant(challenge: Challenge, request: AuthorizeRequest): Promise<Grant> {
    const { host, repository, scopes, signal } = request;
    const credential = await settings.credentials({ host: host.name, repository }, { signal });
    if (credential?.kind === 'registry-token')
      return { header: `Bearer ${credential.token}`, authenticated: true };
    const started = settings.clock.now();
    const answer = await fetchToken(challenge, {
      ...request,
      credential,
      realms: settings.realms,
      clock: settings.clock,
    });
    const grant: Grant = { header: `Bearer ${answer.token}`, authenticated: credential !== undefined };
    const life = Math.max(answer.expiresInMs, SHORTEST_LIFE_MS) - MARGIN_MS;
    const entry = {
      grant,
      host,
      realm: challenge.params.realm ?? '',
      scopes: new Set(scopes),
      expires: started + life,
    };
    kept = [...kept.filter((old) => old.expires > started), entry];
    return grant;
  }

  return {
    authorize: async (request) => {
      const challenge = choose(request.host.challenges);
      if (challenge === undefined) return undefined;
      if (challenge.scheme === 'bearer') return await bearer(challenge, request);
      const credential = await settings.credentials(
        { host: request.host.name, repository: request.repository },
        { signal: request.signal },
      );
      if (credential === undefined) return undefined;
      if (credential.kind !== 'basic') {
        throw ociError(
          'REGISTRY_AUTH_INVALID',
          `${request.host.name} wants a user and password, but a token is stored for it`,
          {
            hint: `log in again with: skycap login ${request.host.name}`,
          },
        );
      }
      return { header: basic(credential.username, credential.password), authenticated: true };
    },
    forget: (grant) => {
      kept = kept.filter((entry) => entry.grant !== grant);
    },
  };
}

/** Bearer where offered, else Basic; other schemes are not for us. */
function choose(challenges: readonly Challenge[]): Challenge | undefined {
  const usable = challenges.find(
    (challenge) => challenge.scheme === 'bearer' && challenge.params.realm !== undefined,
  );
  return usable ?? challenges.find((challenge) => challenge.scheme === 'basic');
}

/** `repository:a/b:pull` is covered by `repository:a/b:pull,push`. The name may hold a port's colon. */
function covers(granted: ReadonlySet<string>, wanted: string): boolean {
  if (granted.has(wanted)) return true;
  const [name, actions] = splitScope(wanted);
  return [...granted].some((scope) => {
    const [other, allowed] = splitScope(scope);
    return other === name && actions.every((action) => allowed.includes(action));
  });
}

function splitScope(scope: string): readonly [string, readonly string[]] {
  const colon = scope.lastIndexOf(':');
  return [scope.slice(0, Math.max(colon, 0)), scope.slice(colon + 1).split(',')];
}

/** What we need first, then what the challenge names beyond that. */
function mergeScopes(wanted: readonly string[], challenged: string | undefined): readonly string[] {
  const extra = (challenged ?? '')
    .split(' ')
    .filter((scope) => scope !== '' && !covers(new Set(wanted), scope));
  return [...wanted, ...extra];
}

function basic(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

interface TokenRequest extends AuthorizeRequest {
  readonly clock: Clock;
  readonly credential: Credential | undefined;
  readonly realms: Readonly<Record<string, readonly string[]>>;
}

async function fetchToken(
  challenge: Challenge,
  request: TokenRequest,
): Promise<{ token: string; expiresInMs: number }> {
  const { host, credential, signal } = request;
  const realm = checkRealm(challenge.params.realm ?? '', {
    host,
    origin: await host.origin(signal),
    withCredentials: credential !== undefined,
    known: request.realms,
  });
  const service = challenge.params.service;
  if (credential?.kind === 'identity-token') {
    const answer = await postToken(realm, {
      ...request,
      service,
      grant: { grant_type: 'refresh_token', refresh_token: credential.token },
    });
    if (answer !== undefined) return answer;
    // Such servers take the token in the place of a password.
    const username = credential.username ?? '00000000-0000-0000-0000-000000000000';
    const second = await getToken(realm, {
      ...request,
      service,
      credential: { kind: 'basic', username, password: credential.token },
    });
    if (second !== undefined) return second;
    throw noToken(host, realm);
  }
  const answer = await getToken(realm, { ...request, service, credential });
  if (answer !== undefined) return answer;
  if (credential?.kind === 'basic') {
    const grant = { grant_type: 'password', username: credential.username, password: credential.password };
    const second = await postToken(realm, { ...request, service, grant });
    if (second !== undefined) return second;
  }
  throw noToken(host, realm);
}

type Token = { readonly token: string; readonly expiresInMs: number };
type Ask = AuthorizeRequest & { readonly service: string | undefined; readonly clock: Clock };

/** docs.docker.com, "Token Authentication Specification". Undefined: this way is not offered. */
async function getToken(
  realm: URL,
  request: Ask & { readonly credential: Credential | undefined },
): Promise<Token | undefined> {
  const url = new URL(realm);
  if (request.service !== undefined) url.searchParams.set('service', request.service);
  for (const scope of request.scopes) url.searchParams.append('scope', scope);
  const { credential } = request;
  const headers: Record<string, string> = { accept: 'application/json' };
  if (credential?.kind === 'basic') {
    url.searchParams.set('account', credential.username);
    headers.authorization = basic(credential.username, credential.password);
  }
  return await readToken(await request.host.send(url, { headers, signal: request.signal, lane: 'control' }), {
    ...request,
    realm,
  });
}

/** docs.docker.com, "OAuth2 Token Authentication". */
async function postToken(
  realm: URL,
  request: Ask & { readonly grant: Readonly<Record<string, string>> },
): Promise<Token | undefined> {
  const form = new URLSearchParams({
    ...request.grant,
    client_id: 'skycap',
    scope: request.scopes.join(' '),
  });
  if (request.service !== undefined) form.set('service', request.service);
  const headers = { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' };
  const response = await request.host.send(realm, {
    method: 'POST',
    headers,
    body: form.toString(),
    signal: request.signal,
    lane: 'control',
  });
  return await readToken(response, { ...request, realm });
}

type HttpAnswer = Awaited<ReturnType<Host['send']>>;

async function readToken(
  response: HttpAnswer,
  request: Ask & { readonly realm: URL },
): Promise<Token | undefined> {
  const { host, realm } = request;
  const where = `token for ${host.name} from ${realm.host}`;
  if (response.status === 404 || response.status === 405) {
    await response.discard();
    return undefined;
  }
  if (response.status !== 200) {
    const refusal = await readRefusal(response);
    // A redirect would carry the credentials to a place that nobody checked.
    const retryAfterMs = retryAfter(refusal.retryAfter, refusal.text, request.clock.now());
    throw refusalError(refusal, { subject: where, host: realm.host, authenticated: true, retryAfterMs });
  }
  const text = await response.text(LARGEST_TOKEN_ANSWER);
  let value: { token?: unknown; access_token?: unknown; expires_in?: unknown } | null;
  try {
    value = JSON.parse(text) as typeof value;
  } catch {
    throw ociError('REGISTRY_ANSWER_INVALID', `${where}: the answer is not JSON`, {
      hint: 'check whether a proxy or login page answers in its place',
    });
  }
  const token = [value?.token, value?.access_token].find(
    (entry) => typeof entry === 'string' && entry !== '',
  );
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token)) throw noToken(host, realm);
  const seconds = Number(value?.expires_in ?? 0);
  return { token, expiresInMs: Number.isFinite(seconds) ? seconds * 1000 : 0 };
}

function noToken(host: Host, realm: URL): Error {
  return ociError(
    'REGISTRY_AUTH_INVALID',
    `${host.name}: ${quoted(`${realm.host}${realm.pathname}`)} gives no token`,
    {
      hint: `check the credentials with: skycap login ${host.name}`,
    },
  );
}
