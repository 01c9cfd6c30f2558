import type { RegistryRule } from '../../../settings/index.ts';
import { ociError } from '../../errors.ts';
import {
  formatReference,
  isRegistryHost,
  isRepositoryPath,
  quoted,
  repositoryOf,
} from '../../names/index.ts';
import type { Reference } from '../../types.ts';

/** Where a repository is really asked for. */
export interface Endpoint {
  /** `host[:port]`; credentials are looked up by it, so a mirror never gets those of what it mirrors. */
  readonly host: string;
  readonly repository: string;
  readonly insecure: boolean;
  readonly mirror: boolean;
}

export interface Endpoints {
  /** Mirrors first, for reading. */
  readonly read: readonly Endpoint[];
  /** Writing always goes to the place itself. */
  readonly write: Endpoint;
}

const DOCKER_HUB = 'docker.io';
const DOCKER_HUB_API = 'registry-1.docker.io';

/**
 * Applies the longest matching rule (registries.conf semantics, containers-registries.conf(5)).
 *
 * @throws REGISTRY_BLOCKED, or REGISTRY_ADDRESS_REFUSED for a malformed location
 */
export function endpointsOf(reference: Reference, rules: readonly RegistryRule[]): Endpoints {
  const rule = ruleFor(reference, rules);
  if (rule?.blocked === true) {
    throw ociError(
      'REGISTRY_BLOCKED',
      `${formatReference(reference)}: the configuration blocks ${quoted(rule.prefix)}`,
      {
        hint: 'remove the rule, or take the image from another registry',
      },
    );
  }
  const at = (location: string | undefined, flags: { insecure: boolean; mirror: boolean }): Endpoint =>
    place(rewrite(reference, rule?.prefix, location), location, flags);
  const write = at(rule?.location, { insecure: rule?.insecure ?? false, mirror: false });
  const mirrors = (rule?.mirrors ?? []).map((mirror) =>
    at(mirror.location, { insecure: mirror.insecure, mirror: true }),
  );
  return { read: [...mirrors, write], write };
}

function ruleFor(reference: Reference, rules: readonly RegistryRule[]): RegistryRule | undefined {
  const name = repositoryOf(reference);
  return rules
    .filter((rule) => matchedLength(rule.prefix, name, reference) > 0)
    .toSorted(
      (a, b) => matchedLength(b.prefix, name, reference) - matchedLength(a.prefix, name, reference),
    )[0];
}

/** Characters of `name` that the prefix covers, ending at `/` or a port's `:`; 0 for no match. */
function matchedLength(prefix: string, name: string, reference: Reference): number {
  if (prefix.startsWith('*.')) {
    const [domain = '', ...path] = prefix.slice(1).split('/');
    const host = reference.registry;
    const bare = host.replace(/:\d+$/, '');
    if (!bare.endsWith(domain.toLowerCase()) || bare.length === domain.length) return 0;
    return matchedLength([host, ...path].join('/'), name, reference);
  }
  const [host = '', ...path] = prefix.split('/');
  const normal = [host.toLowerCase(), ...path].join('/');
  if (normal === formatReference(reference)) return normal.length;
  if (!name.startsWith(normal)) return 0;
  const next = name[normal.length];
  return next === undefined || next === '/' || next === ':' ? normal.length : 0;
}

function rewrite(reference: Reference, prefix: string | undefined, location: string | undefined): string {
  const name = repositoryOf(reference);
  if (prefix === undefined || location === undefined) return name;
  // A wildcard covers the whole host; of a longer prefix what follows it is kept.
  const covered = matchedLength(prefix, name, reference);
  return `${location.replace(/\/+$/, '')}${name.slice(Math.min(covered, name.length))}`;
}

function place(
  name: string,
  location: string | undefined,
  flags: { insecure: boolean; mirror: boolean },
): Endpoint {
  const slash = name.indexOf('/');
  const host = name.slice(0, Math.max(slash, 0)).toLowerCase();
  const repository = name.slice(slash + 1);
  if (!isRegistryHost(host) || !isRepositoryPath(repository)) {
    throw ociError(
      'REGISTRY_ADDRESS_REFUSED',
      `${quoted(location ?? name)} is not a location of the form host[:port][/path]`,
      {
        hint: 'correct the location in the registries configuration',
      },
    );
  }
  return { host: host === DOCKER_HUB ? DOCKER_HUB_API : host, repository, ...flags };
}
