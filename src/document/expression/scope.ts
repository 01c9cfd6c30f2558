import type { Json } from '../types.ts';
import type { Members, Scope, ScopeNode } from './types.ts';

/** The roots of a step. `outputs` belongs to dependency mappings and `matrix` to matrix steps, but both are ours everywhere. */
export const ROOTS: readonly string[] = ['bundle', 'installation', 'env', 'outputs', 'matrix'];

/**
 * A group of names.
 *
 * @example
 * names({ bundle: names({ name: value('web'), parameters: names(parameterNodes) }) })
 */
export function names(
  members: Readonly<Record<string, ScopeNode>> | ReadonlyMap<string, ScopeNode> | Members,
  options: { readonly open?: boolean } = {},
): Scope {
  return { kind: 'names', names: asMembers(members), open: options.open ?? false };
}

function asMembers(
  members: Readonly<Record<string, ScopeNode>> | ReadonlyMap<string, ScopeNode> | Members,
): Members {
  if (typeof members.get === 'function' && typeof members.keys === 'function') return members as Members;
  // A Map, so that names such as `constructor` are not found by accident.
  return new Map(Object.entries(members as Readonly<Record<string, ScopeNode>>));
}

/** A known value; further names on the path go into it (`bundle.parameters.db.host`). */
export function value(json: Json, options: { readonly sensitive?: boolean } = {}): ScopeNode {
  return { kind: 'value', value: json, sensitive: options.sensitive ?? false };
}

/** Known only during the run; `label` without brackets, as in `output ip of apply`. */
export function late(label: string): ScopeNode {
  return { kind: 'late', label, sensitive: false };
}

/** A credential or sensitive parameter at a time when it stands by name only: late, and taints what it goes into. */
export function secret(label: string): ScopeNode {
  return { kind: 'late', label, sensitive: true };
}

/** Declared and without a value; `reason` continues "NAME has no value: …". */
export function absent(reason: string): ScopeNode {
  return { kind: 'absent', reason };
}

/** Exists and may not be used here; `reason` continues "NAME cannot be used here: …". */
export function denied(reason: string, hint?: string): ScopeNode {
  return hint === undefined ? { kind: 'denied', reason } : { kind: 'denied', reason, hint };
}
