import { childOf, type MapNode } from '../document/index.ts';

/** Files of ours are read strictly; a step with `invoke` says so as well as `invocationImages` does. */
export function usesInvoke(root: MapNode): boolean {
  if (childOf(root, 'invocationImages') !== undefined) return true;
  return root.entries.some(
    (entry) =>
      entry.value.kind === 'seq' && entry.value.items.some((item) => childOf(item, 'invoke') !== undefined),
  );
}
