import { isSkycapError } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import { checkedEntries, type FileNode } from '../image/file-tree.ts';
import { isIndexType, isManifestType, MAX_INDEX_DEPTH } from '../image/media-types.ts';
import { type Index, type Manifest, parseImageConfig, parseManifestOrIndex } from '../image/parse.ts';
import { pastWrongMirror } from '../image/past-mirror.ts';
import { createDigester, digestParts, formatPlatform, matchPlatform } from '../names/index.ts';
import type { BlobBytes, TransferOptions } from '../port.ts';
import type { Descriptor, Digest, Platform } from '../types.ts';
import { checkBytes, readSmallBlob } from './plan.ts';
import type { ImageSource } from './types.ts';

export interface Finding {
  readonly severity: 'error' | 'warning';
  /** Of the manifest, config or blob that is wrong. */
  readonly digest: Digest;
  /** What it is in the image: `index`, `manifest linux/arm64`, `layer 2 of linux/arm64`. */
  readonly what: string;
  readonly code: string;
  readonly message: string;
}

export interface Validation {
  readonly source: string;
  readonly digest: Digest;
  readonly manifests: number;
  readonly blobs: number;
  /** Of all that was read. */
  readonly sizeBytes: number;
  readonly findings: readonly Finding[];
}

export interface ValidateOptions extends TransferOptions {
  /** Only these platforms of an index; empty: all. */
  readonly platforms: readonly Platform[];
}

const IMAGE_CONFIG = /container\.image\.v1\+json$|image\.config\.v1\+json$/;
const LAYER = /^application\/vnd\.(oci\.image\.layer\.|docker\.image\.rootfs\.)/;
const EMPTY = 'application/vnd.oci.empty.v1+json';

/**
 * Reads a whole image and says all that is wrong with it: digests and sizes of every byte, the form of manifests and
 * configs, layers that do not unpack to the diffIDs that the config names or that no one should unpack, platforms that
 * are not what the index says. Nothing is written.
 *
 * @throws what the source throws where it cannot be asked at all: a registry that is not reached, a missing file
 */
export async function validateImage(source: ImageSource, options: ValidateOptions): Promise<Validation> {
  const check = new Check(source, options);
  const root = await source.root(options);
  await check.manifest(root, 'the root', 0);
  return {
    source: source.name,
    digest: root.digest,
    manifests: check.manifests,
    blobs: check.seen.size,
    sizeBytes: check.sizeBytes,
    findings: check.findings,
  };
}

/** A blob that is read whole in the end, whatever reads it first. */
interface Counted {
  open(): AsyncIterable<Uint8Array>;
  /** @throws OCI_BLOB_CORRUPT */
  finish(): Promise<void>;
}

class Check {
  readonly findings: Finding[] = [];
  readonly seen = new Set<Digest>();
  manifests = 0;
  sizeBytes = 0;
  readonly #source: ImageSource;
  readonly #options: ValidateOptions;

  constructor(source: ImageSource, options: ValidateOptions) {
    this.#source = source;
    this.#options = options;
  }

  async manifest(descriptor: Descriptor, what: string, depth: number): Promise<void> {
    if (this.seen.has(descriptor.digest)) return;
    this.seen.add(descriptor.digest);
    const parsed = await this.#guard(descriptor, what, async () => {
      if (depth > MAX_INDEX_DEPTH) {
        throw ociError('OCI_MANIFEST_INVALID', `it is nested more than ${MAX_INDEX_DEPTH} indexes deep`);
      }
      const bytes = await this.#source.manifest(descriptor, this.#options);
      checkBytes(descriptor, bytes, this.#source.name);
      checkData(descriptor, bytes);
      return parseManifestOrIndex(bytes, descriptor.mediaType || undefined);
    });
    this.manifests += 1;
    this.sizeBytes += descriptor.size;
    if (parsed?.kind === 'index') await this.#index(descriptor, parsed, depth);
    else if (parsed !== undefined) await this.#image(descriptor, parsed, what);
  }

  async #index(descriptor: Descriptor, index: Index, depth: number): Promise<void> {
    const { platforms } = this.#options;
    const wanted = platforms.map((platform) => matchPlatform(index.manifests, platform));
    for (const [at, found] of wanted.entries()) {
      if (found !== undefined) continue;
      const name = formatPlatform(platforms[at] as Platform);
      this.#add(descriptor, 'the index', ociError('OCI_PLATFORM_MISSING', `it has no image for ${name}`));
    }
    const known = new Map<string, Digest>();
    for (const child of index.manifests) {
      if (platforms.length > 0 && !wanted.includes(child)) continue;
      const name = child.platform === undefined ? child.digest.slice(0, 19) : formatPlatform(child.platform);
      const other = child.platform?.os === 'unknown' ? undefined : known.get(name);
      if (other !== undefined && other !== child.digest) {
        this.#warn(child, 'the index', `two images are for ${name}; readers take the first`);
      }
      known.set(name, other ?? child.digest);
      if (isIndexType(child.mediaType) || isManifestType(child.mediaType)) {
        await this.manifest(child, `the manifest for ${name}`, depth + 1);
      } else await this.#blob(child, `the part ${name}`);
    }
  }

  async #image(descriptor: Descriptor, manifest: Manifest, what: string): Promise<void> {
    const { config, layers } = manifest;
    const of = what.replace(/^the manifest for /, '');
    const isImage = IMAGE_CONFIG.test(config.mediaType);
    if (!isImage && manifest.artifactType === undefined && config.mediaType === EMPTY) {
      this.#warn(descriptor, what, 'it is an artifact and names no artifactType');
    }
    this.seen.add(config.digest);
    this.sizeBytes += config.size;
    const parsed = await this.#guard(config, `the config of ${of}`, async () => {
      const bytes = await readSmallBlob(this.#source, config, this.#options);
      checkData(config, bytes);
      return isImage ? parseImageConfig(bytes, layers.length) : undefined;
    });
    if (parsed !== undefined) this.#platform(descriptor, parsed.platform, what);
    for (const [at, layer] of layers.entries()) {
      if ((layer.urls ?? []).length > 0) {
        this.#warn(layer, `layer ${at + 1} of ${of}`, 'it lies elsewhere and was not read');
      } else if (isImage && LAYER.test(layer.mediaType)) {
        await this.#layer(layer, parsed?.diffIds[at], `layer ${at + 1} of ${of}`);
      } else await this.#blob(layer, `layer ${at + 1} of ${of}`);
    }
  }

  #platform(descriptor: Descriptor, own: Platform, what: string): void {
    const { platform } = descriptor;
    if (own.os === '' || own.architecture === '') {
      this.#add(descriptor, what, ociError('OCI_MANIFEST_INVALID', 'its config names no os or architecture'));
    } else if (
      platform !== undefined &&
      formatPlatform({ ...own, osVersion: '' }) !== formatPlatform({ ...platform, osVersion: '' })
    ) {
      const message = `its config is for ${formatPlatform(own)}, and the index says ${formatPlatform(platform)}`;
      this.#add(descriptor, what, ociError('OCI_PLATFORM_MISSING', message));
    }
  }

  /** Digest, size, diffID and entries in one reading. */
  async #layer(layer: Descriptor, diffId: Digest | undefined, what: string): Promise<void> {
    if (this.seen.has(layer.digest)) return;
    this.seen.add(layer.digest);
    this.sizeBytes += layer.size;
    await this.#read(layer, what, async (read) => {
      const any = (path: string): { path: string; node: FileNode } => ({ path, node: someFile(path) });
      let fault: { readonly error: unknown } | undefined;
      try {
        for await (const _entry of checkedEntries({ diffId, open: read.open }, this.#options, any));
      } catch (error) {
        fault = { error };
      }
      // Other bytes than announced explain everything else, so that is what is said.
      await read.finish();
      if (fault !== undefined) throw fault.error;
    });
  }

  async #blob(blob: Descriptor, what: string): Promise<void> {
    if (this.seen.has(blob.digest)) return;
    this.seen.add(blob.digest);
    this.sizeBytes += blob.size;
    await this.#read(blob, what, async (read) => await read.finish());
  }

  /** What a mirror gave wrongly says nothing about the image: then the registry itself is asked. */
  async #read(blob: Descriptor, what: string, work: (read: Counted) => Promise<void>): Promise<void> {
    await this.#guard(blob, what, async () => {
      await pastWrongMirror(
        (offset, read) => this.#source.blob(blob, offset, read),
        this.#options,
        async (open) => await work(this.#counted(blob, open)),
      );
    });
  }

  #counted(blob: Descriptor, from: (offset: number) => Promise<BlobBytes>): Counted {
    const { signal, emit } = this.#options;
    let digester = createDigester(digestParts(blob.digest).algorithm);
    let size = 0;
    let isWhole = false;
    async function* open(): AsyncGenerator<Uint8Array> {
      digester = createDigester(digestParts(blob.digest).algorithm);
      size = 0;
      let told = 0;
      for await (const chunk of await from(0)) {
        signal.throwIfAborted();
        size += chunk.length;
        if (size > blob.size) break;
        digester.update(chunk);
        if (size - told >= 1 << 20 || size === blob.size) {
          told = size;
          emit({ type: 'blob.progress', digest: blob.digest, doneBytes: size, sizeBytes: blob.size });
        }
        yield chunk;
      }
      isWhole = true;
    }
    return {
      open,
      async finish() {
        if (!isWhole) for await (const _chunk of open());
        if (size === blob.size && digester.digest() === blob.digest) return;
        const message =
          size === blob.size ? 'it has another digest' : `it has not the ${blob.size} bytes announced`;
        throw ociError('OCI_BLOB_CORRUPT', message);
      },
    };
  }

  /** Coded faults of the image are findings; that the source cannot be asked is none. */
  async #guard<T>(descriptor: Descriptor, what: string, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      if (!isSkycapError(error) || !isAboutTheImage(error.code)) throw error;
      this.#add(descriptor, what, error);
      return undefined;
    }
  }

  #add(
    { digest }: Descriptor,
    what: string,
    { code, message }: { readonly code: string; readonly message: string },
  ): void {
    this.findings.push({ severity: 'error', digest, what, code, message });
  }

  #warn({ digest }: Descriptor, what: string, message: string): void {
    this.findings.push({ severity: 'warning', digest, what, code: 'OCI_MANIFEST_INVALID', message });
  }
}

function isAboutTheImage(code: string): boolean {
  return (
    /^OCI_(BLOB|MANIFEST|LAYER|PLATFORM)_/.test(code) ||
    ['REGISTRY_NOT_FOUND', 'REGISTRY_DIGEST_MISMATCH', 'REGISTRY_TRUNCATED', 'PLATFORM_INVALID'].includes(
      code,
    )
  );
}

/** image-spec, descriptor.md, "data": if it is there, it has to be the content. */
function checkData(descriptor: Descriptor, bytes: Uint8Array): void {
  if (descriptor.data === undefined || Buffer.from(descriptor.data, 'base64').equals(bytes)) return;
  throw ociError('OCI_MANIFEST_INVALID', 'the data in its descriptor is not its content');
}

/** What lower layers have does not matter for one layer's own soundness. */
function someFile(path: string): FileNode {
  const entry = {
    path,
    type: 'file' as const,
    mode: 0o644,
    uid: 0,
    gid: 0,
    size: 0,
    mtime: { seconds: 0, nanos: 0 },
    linkPath: '',
    devMajor: 0,
    devMinor: 0,
  };
  return { entry, layer: 0, ordinal: 0 };
}
