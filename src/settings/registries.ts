import type { RegistryRule } from './types.ts';

/**
 * Rules of all sources, those first that come first here: of two with the same prefix the first one counts, and the
 * longest prefix before that (`endpointsOf` of oci/registry). A machine's rule stays in the list behind the user's
 * of the same prefix, for what it blocks stays blocked.
 */
export function mergeRules(
  user: readonly RegistryRule[],
  machine: readonly RegistryRule[],
): readonly RegistryRule[] {
  return [...firstOfEach(user), ...firstOfEach(machine).map((rule) => ({ ...rule, machine: true }))];
}

function firstOfEach(rules: readonly RegistryRule[]): readonly RegistryRule[] {
  const seen = new Set<string>();
  return rules.filter(({ prefix }) => {
    const isNew = !seen.has(prefix);
    seen.add(prefix);
    return isNew;
  });
}
