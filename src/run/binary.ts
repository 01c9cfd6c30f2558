import type { KnownValue } from '../plan/index.ts';

/** Whether a value is bytes that are no text; its JSON is then their base64. */
export function isBinary({ json, bytes }: Pick<KnownValue, 'json' | 'bytes'>): boolean {
  return typeof json === 'string' && !Buffer.from(json).equals(bytes);
}
