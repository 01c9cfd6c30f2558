import { digestParts } from '../names/index.ts';
import type { Digest } from '../types.ts';

/**
 * The tag at which an index of referrers is kept where a registry does not keep one itself (distribution-spec,
 * "Referrers Tag Schema"): algorithm and hex digits, cut to 32 and 64 characters.
 */
export function referrersTag(subject: Digest): string {
  const { algorithm, hex } = digestParts(subject);
  return `${algorithm.slice(0, 32)}-${hex.slice(0, 64)}`;
}
