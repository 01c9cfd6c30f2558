import type { RegistryRule } from './types.ts';

/** Where to ask for a name, in this order. */
export interface RegistryEndpoint {
  /** `host[:port]/path`. */
  readonly location: string;
  readonly insecure: boolean;
  readonly mirror: boolean;
}

export interface RegistryResolution {
  readonly blocked: boolean;
  readonly endpoints: readonly RegistryEndpoint[];
  readonly rule?: RegistryRule;
}

/**
 * Addresses of a repository by the longest matching prefix (containers-registries.conf(5), "Choosing a registry" and
 * "Remapping and mirroring registries"). The name stays what it was; only the address changes.
 *
 * @param repository `host[:port]/path`, docker.io filled in
 */
export function resolveRegistry(rules: readonly RegistryRule[], repository: string): RegistryResolution {
  const rule = ruleFor(rules, repository);
  if (rule === undefined) {
    return { blocked: false, endpoints: [{ location: repository, insecure: false, mirror: false }] };
  }
  if (rule.blocked) return { blocked: true, endpoints: [], rule };
  const rest = restAfter(rule.prefix, repository);
  return {
    blocked: false,
    rule,
    endpoints: [
      ...rule.mirrors.map((mirror) => ({
        location: `${mirror.location}${rest}`,
        insecure: mirror.insecure,
        mirror: true,
      })),
      {
        location: rule.location === undefined ? repository : `${rule.location}${rest}`,
        insecure: rule.insecure,
        mirror: false,
      },
    ],
  };
}

/** The rule with the longest matching prefix. */
export function ruleFor(rules: readonly RegistryRule[], repository: string): RegistryRule | undefined {
  let best: RegistryRule | undefined;
  for (const rule of rules) {
    if (!prefixMatches(rule.prefix, repository)) continue;
    if (best === undefined || rule.prefix.length > best.prefix.length) best = rule;
  }
  return best;
}

/** `*.host` matches hosts below it and nothing else; a plain prefix ends at `/`, `:` or `@`. */
export function prefixMatches(prefix: string, repository: string): boolean {
  if (prefix.startsWith('*.')) {
    const host = hostOf(repository).replace(/:\d+$/, '');
    return host.endsWith(prefix.slice(1)) && host.length > prefix.length - 1;
  }
  return (
    repository === prefix ||
    (repository.startsWith(prefix) && '/:@'.includes(repository[prefix.length] as string))
  );
}

/**
 * Rules of the user in front of the machine's. For one prefix the user's rule stands, but what the machine's
 * administrator blocks stays blocked, below the prefix too.
 */
export function mergeRules(
  machine: readonly RegistryRule[],
  user: readonly RegistryRule[],
): readonly RegistryRule[] {
  const blocked = machine.filter((rule) => rule.blocked);
  const mine = user.map((rule) =>
    blocked.some((other) => prefixMatches(other.prefix, rule.prefix)) ? { ...rule, blocked: true } : rule,
  );
  const taken = new Set(mine.map((rule) => rule.prefix));
  return [...mine, ...machine.filter((rule) => !taken.has(rule.prefix))];
}

function restAfter(prefix: string, repository: string): string {
  return repository.slice(prefix.startsWith('*.') ? hostOf(repository).length : prefix.length);
}

function hostOf(repository: string): string {
  return repository.split('/', 1)[0] as string;
}
