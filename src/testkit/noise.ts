import { createHash } from 'node:crypto';

/** Bytes that do not compress, different for each name and the same in every run. */
export function noise(name: string, length: number): Buffer {
  const parts = Array.from({ length: Math.ceil(length / 32) }, (_, index) =>
    createHash('sha256').update(`${name} ${index}`).digest(),
  );
  return Buffer.concat(parts).subarray(0, length);
}
