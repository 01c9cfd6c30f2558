import type { RegistryMirror, RegistryRule } from '../../../settings/index.ts';
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

/** Where the API of a registry is asked: Docker Hub's has a name of its own. */
export function apiHost(host: string): string {
  return host === DOCKER_HUB || host === `index.${DOCKER_HUB}` ? DOCKER_HUB_API : host;
}

/**
 * Applies the longest matching rule, of equal ones the first (containers-registries.conf(5), "Choosing a registry" and
 * "Remapping and mirroring registries"). What the machine's rules block, no other rule lifts, and no rule leads there.
 *
 * @throws REGISTRY_BLOCKED, or REGISTRY_ADDRESS_REFUSED for a malformed location
 */
export function endpointsOf(reference: Reference, rules: readonly RegistryRule[]): Endpoints {
  const rule = ruleFor(reference, rules);
  const lawful = rules.filter((other) => other.machine === true);
  for (const blocking of [ruleFor(hubNamed(reference), lawful), ruleFor(hubNamed(reference), rules), rule])
    if (blocking?.blocked === true) throw blocked(reference, blocking);
  const at = (location: string | undefined, flags: { insecure: boolean; mirror: boolean }): Endpoint => {
    const { host, repository } = place(rewrite(reference, rule?.prefix, location), location);
    // The administrator's own rules may well lead where others may not go directly.
    const there = hubNamed({ registry: host, repository });
    const other = rule?.machine === true ? undefined : ruleFor(there, lawful);
    if (other?.blocked === true) throw blocked(reference, other);
    return { host: apiHost(host), repository, ...flags };
  };
  const write = at(rule?.location, { insecure: rule?.insecure ?? false, mirror: false });
  const mirrors = (rule?.mirrors ?? [])
    .filter((mirror) => isFor(mirror, reference))
    .map((mirror) => at(mirror.location, { insecure: mirror.insecure, mirror: true }));
  return { read: [...mirrors, write], write };
}

/** Docker Hub under the name that rules call it by, whichever of its names was used. */
function hubNamed(reference: Reference): Reference {
  return apiHost(reference.registry) === DOCKER_HUB_API ? { ...reference, registry: DOCKER_HUB } : reference;
}

function blocked(reference: Reference, rule: RegistryRule): Error {
  return ociError(
    'REGISTRY_BLOCKED',
    `${formatReference(reference)}: the configuration blocks ${quoted(rule.prefix)}`,
    {
      hint:
        rule.machine === true
          ? "take the image from another registry, or ask this machine's administrator"
          : 'remove the rule, or take the image from another registry',
    },
  );
}

/** A digest means the same everywhere; what a mirror knows as a tag may be old. */
function isFor(mirror: RegistryMirror, reference: Reference): boolean {
  if (mirror.pullFromMirror === 'digest-only') return reference.digest !== undefined;
  if (mirror.pullFromMirror === 'tag-only') return reference.digest === undefined;
  return true;
}

function ruleFor(reference: Reference, rules: readonly RegistryRule[]): RegistryRule | undefined {
  let best: RegistryRule | undefined;
  let longest = 0;
  for (const rule of rules) {
    if (coveredBy(rule.prefix, reference) === 0) continue;
    // The star stands for nothing that was written: the host itself goes before it.
    const length = rule.prefix.replace('*', '').length;
    if (length <= longest) continue;
    best = rule;
    longest = length;
  }
  return best;
}

/** Characters of the whole reference that the prefix covers, ending at `/`, `:` or `@`; 0 for no match. */
function coveredBy(prefix: string, reference: Reference): number {
  const host = reference.registry;
  if (prefix.startsWith('*.')) {
    const domain = prefix.slice(1).toLowerCase();
    // No host begins with the dot that the domain begins with.
    return host.replace(/:\d+$/, '').endsWith(domain) ? host.length : 0;
  }
  const slash = prefix.indexOf('/');
  const end = slash === -1 ? prefix.length : slash;
  const normal = `${prefix.slice(0, end).toLowerCase()}${prefix.slice(end)}`;
  const whole = formatReference(reference);
  if (!whole.startsWith(normal)) return 0;
  const next = whole[normal.length];
  return next === undefined || '/:@'.includes(next) ? normal.length : 0;
}

function rewrite(reference: Reference, prefix: string | undefined, location: string | undefined): string {
  const name = repositoryOf(reference);
  if (prefix === undefined || location === undefined) return name;
  // A wildcard covers the whole host, a prefix may reach into the tag; what of the name follows is kept.
  return `${location.replace(/\/+$/, '')}${name.slice(coveredBy(prefix, reference))}`;
}

function place(
  name: string,
  location: string | undefined,
): { readonly host: string; readonly repository: string } {
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
  return { host, repository };
}
