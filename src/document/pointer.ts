import type { DocNode } from './node.ts';
import type { Span } from './types.ts';

/** The steps of a JSON pointer (RFC 6901); undefined when it is none. */
export function parsePointer(pointer: string): readonly string[] | undefined {
  if (pointer === '') return [];
  if (!pointer.startsWith('/')) return undefined;
  return pointer
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

export function formatPointer(path: readonly string[]): string {
  return path.map((part) => `/${part.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/**
 * Where a JSON pointer leads in a document: the key (for a member of a map) and the value. Where the pointer leads
 * nowhere, the deepest node on its way, so that a validator's message always has a place.
 */
export function locate(
  root: DocNode,
  path: readonly string[],
): { readonly found: boolean; readonly node: DocNode; readonly keySpan?: Span } {
  let node = root;
  let keySpan: Span | undefined;
  for (const part of path) {
    if (node.kind === 'map') {
      const entry = node.entries.find((candidate) => candidate.key === part);
      if (entry === undefined) return result(false, node, keySpan);
      node = entry.value;
      keySpan = entry.keySpan;
      continue;
    }
    const item =
      node.kind === 'seq' && /^(0|[1-9]\d{0,8})$/.test(part) ? node.items[Number(part)] : undefined;
    if (item === undefined) return result(false, node, keySpan);
    node = item;
    keySpan = undefined;
  }
  return result(true, node, keySpan);
}

function result(found: boolean, node: DocNode, keySpan: Span | undefined) {
  return keySpan === undefined ? { found, node } : { found, node, keySpan };
}
