import { parseManifestOrIndex } from '../../oci/image/index.ts';
import type { Descriptor, Digest, Reference, RegistryClient, Store } from '../../oci/index.ts';
import { formatReference } from '../../oci/names/index.ts';

export interface StoreRegistryOptions {
  /** Called before each part of a blob goes out; may wait, or throw to break the transfer. */
  readonly beforePart?: (digest: Digest, offset: number) => Promise<void> | void;
  /** Changes what is sent. */
  readonly tamper?: (digest: Digest, bytes: Uint8Array) => Uint8Array;
}

export interface StoreRegistry extends RegistryClient {
  /** What was asked for, in order: `manifest DIGEST`, `blob DIGEST OFFSET`, `put DIGEST`. */
  readonly log: readonly string[];
}

const PART = 64 * 1024;

/** A registry that serves a store's content by function calls: for tests of those who pull and push. */
export function storeRegistry(store: Store, options: StoreRegistryOptions = {}): StoreRegistry {
  const log: string[] = [];
  const tamper = options.tamper ?? ((_digest, bytes) => bytes);
  const find = async (reference: Reference): Promise<Descriptor | undefined> => {
    if (reference.digest === undefined) return await store.resolve(formatReference(reference));
    const size = await store.blobSize(reference.digest);
    if (size === undefined) return undefined;
    const bytes = await store.readSmall(reference.digest);
    return { mediaType: parseManifestOrIndex(bytes, undefined).mediaType, digest: reference.digest, size };
  };
  async function* send(digest: Digest, offset: number): AsyncGenerator<Uint8Array> {
    let at = offset;
    for await (const chunk of store.readBlob(digest, offset)) {
      for (let start = 0; start < chunk.length; start += PART) {
        const part = chunk.subarray(start, start + PART);
        await options.beforePart?.(digest, at);
        yield tamper(digest, part);
        at += part.length;
      }
    }
  }
  return {
    log,
    async getManifest(reference) {
      const descriptor = await find(reference);
      if (descriptor === undefined) throw new Error(`no manifest ${formatReference(reference)}`);
      log.push(`manifest ${descriptor.digest}`);
      const { mediaType, digest, size } = descriptor;
      return {
        descriptor: { mediaType, digest, size },
        bytes: tamper(digest, await store.readSmall(digest)),
      };
    },
    async headManifest(reference) {
      return await find(reference);
    },
    async putManifest(reference, manifest, transfer) {
      log.push(`put ${manifest.descriptor.digest}${reference.tag === undefined ? '' : ` ${reference.tag}`}`);
      await store.ingest(
        manifest.descriptor,
        async (offset) => one(manifest.bytes.subarray(offset)),
        transfer,
      );
      if (reference.tag !== undefined) await store.tag(formatReference(reference), manifest.descriptor);
    },
    async deleteManifest(reference) {
      await store.untag(formatReference(reference));
    },
    async getBlob(_reference, blob, offset) {
      log.push(`blob ${blob.digest} ${offset}`);
      return send(blob.digest, offset);
    },
    async hasBlob(_reference, digest) {
      return await store.hasBlob(digest);
    },
    async putBlob(_reference, blob, source, transfer) {
      if (await store.hasBlob(blob.digest)) return 'present';
      log.push(`put ${blob.digest}`);
      await store.ingest(blob, async (offset) => source(offset), transfer);
      return 'uploaded';
    },
    async listTags() {
      return [];
    },
    async [Symbol.asyncDispose]() {},
  };
}

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
