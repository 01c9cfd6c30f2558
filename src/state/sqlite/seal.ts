import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** What a value belongs to. It is authenticated, so a ciphertext cannot be moved to another place. */
export interface SealContext {
  readonly installation: string;
  readonly run: string;
  readonly name: string;
}

export interface DataKey {
  readonly id: string;
  readonly secret: Buffer;
}

const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** JSON keeps the parts apart whatever characters they have. */
export function associatedData(context: SealContext, keyId: string): Buffer {
  return Buffer.from(
    JSON.stringify(['skycap', VERSION, context.installation, context.run, context.name, keyId]),
  );
}

/** AES-256-GCM (NIST SP 800-38D) with a random nonce: version, nonce, ciphertext, tag. */
export function seal(key: DataKey, plain: Uint8Array, context: SealContext): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key.secret, nonce);
  cipher.setAAD(associatedData(context, key.id));
  return Buffer.concat([
    Buffer.of(VERSION),
    nonce,
    cipher.update(plain),
    cipher.final(),
    cipher.getAuthTag(),
  ]);
}

/** @returns undefined if the bytes are not what was sealed for this context under this key */
export function unseal(key: DataKey, sealed: Uint8Array, context: SealContext): Buffer | undefined {
  if (sealed.length < 1 + NONCE_BYTES + TAG_BYTES || sealed[0] !== VERSION) return undefined;
  const body = sealed.length - TAG_BYTES;
  const decipher = createDecipheriv('aes-256-gcm', key.secret, sealed.subarray(1, 1 + NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(associatedData(context, key.id));
  decipher.setAuthTag(sealed.subarray(body));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(1 + NONCE_BYTES, body)), decipher.final()]);
  } catch {
    return undefined;
  }
}
