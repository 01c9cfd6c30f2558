import { isObject, parseStrictJson } from '../image/json.ts';
import { digestParts } from '../names/index.ts';
import type { Digest } from '../types.ts';

/** Tags under which cosign keeps what belongs to an image: signatures, attestations, a bill of materials. */
export function cosignTags(digest: Digest): readonly string[] {
  const { algorithm, hex } = digestParts(digest);
  return ['sig', 'att', 'sbom'].map((kind) => `${algorithm}-${hex}.${kind}`);
}

/** Whether a manifest says that it is about this digest. A list of referrers alone is no proof. */
export function isSubject(manifest: Uint8Array, subject: Digest): boolean {
  try {
    const value = parseStrictJson(manifest, 'a manifest');
    return isObject(value) && isObject(value.subject) && value.subject.digest === subject;
  } catch {
    return false;
  }
}
