import { ociError } from '../errors.ts';
import type { Digest } from '../types.ts';
import { quoted } from './quoted.ts';

export type DigestAlgorithm = 'sha256' | 'sha512';

const DIGEST = /^(?:sha256:[a-f0-9]{64}|sha512:[a-f0-9]{128})$/;

/** Of a registered algorithm, lower-case hex of the right length (image-spec, descriptor.md, "Digests"). */
export function isDigest(value: unknown): value is Digest {
  return typeof value === 'string' && DIGEST.test(value);
}

/**
 * Nothing becomes part of a path or address before it went through here (CVE-2024-3727).
 *
 * @throws DIGEST_INVALID
 */
export function parseDigest(text: string): Digest {
  if (isDigest(text)) return text;
  const hint = 'write sha256: with 64, or sha512: with 128 lower-case hex digits';
  throw ociError('DIGEST_INVALID', `not a digest: ${quoted(text)}`, { hint });
}

export function digestParts(digest: Digest): { readonly algorithm: DigestAlgorithm; readonly hex: string } {
  const colon = digest.indexOf(':');
  return { algorithm: digest.slice(0, colon) as DigestAlgorithm, hex: digest.slice(colon + 1) };
}

export interface Digester {
  update(bytes: Uint8Array): void;
  /** Ends the digester. */
  digest(): Digest;
}

// node:crypto takes 4 ms to load, and this room's names are wanted by commands that hash nothing.
let createHash: typeof import('node:crypto').createHash | undefined;

export function createDigester(algorithm: DigestAlgorithm = 'sha256'): Digester {
  createHash ??= process.getBuiltinModule('node:crypto').createHash;
  const hash = createHash(algorithm);
  return {
    update: (bytes) => void hash.update(bytes),
    digest: () => `${algorithm}:${hash.digest('hex')}` as Digest,
  };
}

/** A string is hashed as UTF-8. */
export function digestOf(bytes: Uint8Array | string, algorithm: DigestAlgorithm = 'sha256'): Digest {
  const digester = createDigester(algorithm);
  digester.update(typeof bytes === 'string' ? Buffer.from(bytes) : bytes);
  return digester.digest();
}
