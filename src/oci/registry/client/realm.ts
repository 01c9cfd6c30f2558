import { namesLoopback } from '../../../kernel/http/index.ts';
import { ociError } from '../../errors.ts';
import { quoted } from '../../names/index.ts';
import type { Host } from './host.ts';

/** Public registries whose token server has another name. */
const PAIRS: Readonly<Record<string, readonly string[]>> = {
  'registry-1.docker.io': ['auth.docker.io'],
  'registry.gitlab.com': ['gitlab.com'],
  'docker.elastic.co': ['docker-auth.elastic.co'],
  'registry.digitalocean.com': ['api.digitalocean.com'],
};

export interface RealmContext {
  readonly host: Host;
  /** The registry's own. */
  readonly origin: URL;
  readonly withCredentials: boolean;
  readonly known: Readonly<Record<string, readonly string[]>>;
}

/**
 * The token server that a registry names may be anyone. Credentials go to the registry's own host or a known pair,
 * and only as safely as to the registry itself.
 *
 * Whether its address may be asked at all is `Host.send`'s to say.
 *
 * @throws REGISTRY_AUTH_INVALID
 */
export function checkRealm(realm: string, context: RealmContext): URL {
  const { host, origin } = context;
  if (!URL.canParse(realm)) {
    throw ociError(
      'REGISTRY_AUTH_INVALID',
      `${host.name} names ${quoted(realm)} as its token server, which is no address`,
      {
        hint: 'ask who runs the registry',
      },
    );
  }
  const url = new URL(realm);
  if (!context.withCredentials || url.origin === origin.origin) return url;
  const allowed = [...(PAIRS[host.name] ?? []), ...(context.known[host.name] ?? [])];
  if (sameHost(url, origin) || allowed.includes(url.host) || allowed.includes(url.hostname)) return url;
  throw ociError(
    'REGISTRY_AUTH_INVALID',
    `${host.name} wants its credentials sent to ${quoted(url.host)}, another host`,
    {
      hint: `if that is right, add to the configuration: hosts: {"${host.name}": {realms: ["${url.host}"]}}`,
    },
  );
}

function sameHost(a: URL, b: URL): boolean {
  return a.hostname === b.hostname || (namesLoopback(a) && namesLoopback(b));
}
