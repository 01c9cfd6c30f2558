import { type Clock, Turns } from '../../../kernel/http/index.ts';
import { ociError } from '../../errors.ts';
import { quoted } from '../../names/index.ts';
import type { Challenge } from './challenge.ts';
import type { Host } from './host.ts';
import { covers, mergeScopes } from './scope.ts';
import { basic, fetchToken } from './token.ts';
import type { CredentialsProvider } from './types.ts';

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
  /** What the registry answered to this very request; without it, as it answered before. */
  readonly challenges?: readonly Challenge[];
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
  const underWay = new Map<string, { readonly task: Promise<Grant>; readonly signal: AbortSignal }>();
  const refreshed = new Map<string, string>();
  const exchanges = new Turns(1);

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
    for (let waiting = underWay.get(key); waiting !== undefined; waiting = underWay.get(key)) {
      try {
        return await waiting.task;
      } catch (error) {
        request.signal.throwIfAborted();
        // Another's cancellation is not ours. Its refusal is: asking again would count towards a lock-out.
        if (!waiting.signal.aborted) throw error;
      }
    }
    const task = fetchGrant(challenge, { ...request, scopes }).finally(() => underWay.delete(key));
    underWay.set(key, { task, signal: request.signal });
    return await task;
  }

  async function fetchGrant(challenge: Challenge, request: AuthorizeRequest): Promise<Grant> {
    const { host, repository, scopes, signal } = request;
    const credential = await settings.credentials({ host: host.name, repository }, { signal });
    if (credential?.kind === 'registry-token')
      return { header: `Bearer ${credential.token}`, authenticated: true };
    // `issued_at` is not looked at: clocks differ, and a token that ends early is refused and got anew.
    const started = settings.clock.now();
    const { realms, clock } = settings;
    const answer = await fetchToken(challenge, {
      host,
      scopes,
      signal,
      credential,
      realms,
      clock,
      refreshed,
      exchanges,
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
      const challenges = request.challenges ?? request.host.challenges;
      const challenge = choose(challenges);
      if (challenge === undefined) {
        if (request.challenges !== undefined && challenges.length > 0)
          throw noScheme(request.host, challenges);
        return undefined;
      }
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

function noScheme(host: Host, challenges: readonly Challenge[]): Error {
  const schemes = challenges.map(({ scheme }) => (scheme === 'bearer' ? 'bearer without a realm' : scheme));
  return ociError(
    'REGISTRY_AUTH_INVALID',
    `${host.name} asks for authentication by ${quoted(schemes.slice(0, 5).join(', '))}, which is not known here`,
    { hint: 'ask who runs the registry for basic or bearer authentication' },
  );
}
