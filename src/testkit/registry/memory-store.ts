import { ociError } from '../../oci/errors.ts';
import type { Descriptor, Digest, Store, TransferOptions } from '../../oci/index.ts';
import { createDigester, digestParts } from '../../oci/names/index.ts';

export interface MemoryStore extends Store {
  /** Takes bytes as they are. */
  add(bytes: Uint8Array | string, mediaType?: string): Promise<Descriptor>;
  readonly blobs: ReadonlyMap<Digest, Uint8Array>;
}

/** The parts of a store that a registry needs, in memory; `directory` is where uploads are kept. */
export function memoryStore(directory: string): MemoryStore {
  const blobs = new Map<Digest, Uint8Array>();
  const tags = new Map<string, Descriptor>();
  const never = (): never => {
    throw new Error('not in the memory store');
  };

  async function ingest(
    blob: Descriptor,
    open: (offset: number) => Promise<AsyncIterable<Uint8Array>>,
  ): Promise<void> {
    if (blobs.has(blob.digest)) return;
    const digester = createDigester(digestParts(blob.digest).algorithm);
    const parts: Uint8Array[] = [];
    for await (const part of await open(0)) {
      digester.update(part);
      parts.push(part);
    }
    const bytes = Buffer.concat(parts);
    if (digester.digest() !== blob.digest || bytes.length !== blob.size) {
      throw ociError('OCI_BLOB_CORRUPT', `the bytes are not ${blob.digest}`);
    }
    blobs.set(blob.digest, bytes);
  }

  const get = (digest: Digest): Uint8Array => {
    const bytes = blobs.get(digest);
    if (bytes === undefined) throw ociError('OCI_BLOB_MISSING', `no ${digest}`);
    return bytes;
  };

  return {
    directory,
    blobs,
    add: async (bytes, mediaType = 'application/octet-stream') => {
      const buffer = Buffer.from(bytes);
      const digester = createDigester();
      digester.update(buffer);
      const digest = digester.digest();
      blobs.set(digest, buffer);
      return { mediaType, digest, size: buffer.length };
    },
    hasBlob: async (digest) => blobs.has(digest),
    blobSize: async (digest) => blobs.get(digest)?.length,
    readBlob: async function* (digest, offset = 0) {
      const bytes = get(digest);
      for (let at = offset; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
    },
    readSmall: async (digest) => get(digest),
    ingest: (blob, open, _options: TransferOptions) => ingest(blob, open),
    tag: async (reference, descriptor) => {
      get(descriptor.digest);
      tags.set(reference, descriptor);
    },
    untag: async (reference) => tags.delete(reference),
    resolve: async (reference) => tags.get(reference),
    list: async () =>
      [...tags].map(([reference, descriptor]) => ({
        reference,
        descriptor,
        sizeBytes: descriptor.size,
        platforms: [],
      })),
    lowers: never,
    lease: async () => ({ [Symbol.asyncDispose]: async () => {} }),
    prune: never,
    fsck: never,
    [Symbol.asyncDispose]: async () => {},
  };
}
