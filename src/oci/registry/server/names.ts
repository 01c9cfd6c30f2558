import { isSkycapError } from '../../../kernel/index.ts';
import { formatReference, parseReference } from '../../names/index.ts';
import type { StoredImage } from '../../port.ts';
import type { Descriptor, Digest, Reference } from '../../types.ts';

/** Where pushed images stand in the store: never under the name of a registry that they did not come from. */
const PUSHED = 'localhost';

/**
 * A repository of the served registry is a name as one would write it: `alpine` offers `docker.io/library/alpine`,
 * `ghcr.io/a/b` offers itself; what was pushed here comes first.
 */
export function storeNames(repository: string): readonly string[] {
  const pushed = `${PUSHED}/${repository}`;
  const written = referenceOf(repository);
  return written === undefined ? [pushed] : [pushed, formatReference(written)];
}

export function pushedReference(
  repository: string,
  what: { readonly tag?: string; readonly digest?: Digest },
): string {
  return formatReference({ registry: PUSHED, repository, ...what });
}

export interface Entry {
  readonly reference: Reference;
  readonly text: string;
  readonly descriptor: Descriptor;
}

/** The store's entries that this repository shows. */
export function entriesOf(images: readonly StoredImage[], repository: string): readonly Entry[] {
  const names = storeNames(repository);
  return images.flatMap((image) => {
    const reference = referenceOf(image.reference);
    if (reference === undefined || !names.includes(`${reference.registry}/${reference.repository}`))
      return [];
    return [{ reference, text: image.reference, descriptor: image.descriptor }];
  });
}

/** All repositories, under the names by which they can be asked for. */
export function repositoriesOf(images: readonly StoredImage[]): readonly string[] {
  const names = images.flatMap((image) => {
    const reference = referenceOf(image.reference);
    if (reference === undefined || reference.registry.includes(':')) return [];
    return [
      reference.registry === PUSHED ? reference.repository : `${reference.registry}/${reference.repository}`,
    ];
  });
  return [...new Set(names)].toSorted();
}

/** A repository's path may be more than a reference can say: one so long, or of 64 hex digits. */
function referenceOf(text: string): Reference | undefined {
  try {
    return parseReference(text);
  } catch (error) {
    if (isSkycapError(error)) return undefined;
    throw error;
  }
}
