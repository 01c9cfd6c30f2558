import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { kernelError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { parseManifest } from '../image/parse.ts';
import { encodeJson } from '../image/value.ts';
import { type Compression, compressLayer } from '../layer/index.ts';
import { createDigester, digestOf, digestParts } from '../names/index.ts';
import type { TransferOptions } from '../port.ts';
import type { Descriptor, Digest } from '../types.ts';
import { writing } from './layout-target.ts';
import { checkBytes } from './plan.ts';
import type { ImageSource } from './types.ts';

export interface PackOptions extends TransferOptions {
  readonly compression: Exclude<Compression, 'none'>;
  /** A private folder for the packed layers: their digests are known only when they are whole. */
  readonly scratch: string;
}

interface Packed {
  readonly descriptor: Descriptor;
  readonly path: string;
}

/**
 * An image of Docker's archive or daemon with its layers packed, for what goes over a network: there they are
 * uncompressed. Equal images give equal digests. Memory: a few chunks; disk: the packed layers until it is disposed.
 *
 * @throws OCI_LAYER_DIFFID, DISK_FULL, CANCELLED, and what the source throws
 */
export async function packedSource(source: ImageSource, options: PackOptions): Promise<ImageSource> {
  const before = await source.root(options);
  const bytes = await source.manifest(before, options);
  checkBytes(before, bytes, source.name);
  const { config, layers } = parseManifest(bytes, before.mediaType);
  const packed = new Map<Digest, Packed>();
  const dispose = async (): Promise<void> => {
    for (const { path } of packed.values()) await rm(path, { force: true });
  };
  try {
    for (const layer of layers) {
      if (!packed.has(layer.digest)) packed.set(layer.digest, await pack(source, layer, options));
    }
  } catch (error) {
    await dispose();
    throw error;
  }
  const { mediaType } = before;
  const manifest = encodeJson({
    schemaVersion: 2,
    mediaType,
    config,
    layers: layers.map((layer) => packed.get(layer.digest)?.descriptor),
  });
  const root = { mediaType, digest: digestOf(manifest), size: manifest.length };
  const paths = new Map([...packed.values()].map(({ descriptor, path }) => [descriptor.digest, path]));
  return {
    ...source,
    made: `${source.made ?? 'its layers were not packed'}, with layers packed by ${options.compression}`,
    root: async () => root,
    manifest: async () => manifest,
    blob: async (descriptor, offset, transfer) => {
      const path = paths.get(descriptor.digest);
      if (path === undefined) return await source.blob(descriptor, offset, transfer);
      return createReadStream(path, { start: offset, highWaterMark: 1 << 20 });
    },
    [Symbol.asyncDispose]: dispose,
  };
}

async function pack(source: ImageSource, layer: Descriptor, options: PackOptions): Promise<Packed> {
  const { scratch, signal, compression } = options;
  const path = join(scratch, `packed-${digestParts(layer.digest).hex.slice(0, 32)}-${process.pid}`);
  await writing(path, mkdir(scratch, { recursive: true, mode: 0o700 }));
  const packed = compressLayer(await source.blob(layer, 0, options), compression);
  const digester = createDigester();
  let size = 0;
  try {
    const handle = await writing(path, open(path, 'w', 0o600));
    try {
      for await (const chunk of packed.bytes) {
        if (signal.aborted) throw kernelError('CANCELLED', 'cancelled while a layer was packed');
        digester.update(chunk);
        size += chunk.length;
        await writing(path, writeAll(handle, chunk));
      }
    } finally {
      await handle.close();
    }
    const diffId = packed.diffId();
    if (diffId !== layer.digest) {
      throw ociError(
        'OCI_LAYER_DIFFID',
        `a layer unpacks to ${diffId}, and the image declares ${layer.digest}`,
        {
          hint: 'the image was built wrongly or is hostile; ask its author',
        },
      );
    }
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
  return { path, descriptor: { mediaType: packed.mediaType, digest: digester.digest(), size } };
}

async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) at += (await handle.write(bytes, at, bytes.length - at)).bytesWritten;
}
