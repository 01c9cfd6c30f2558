import { ociError } from '../errors.ts';
import { decodeIndex, encodeIndex, indexFilter } from '../image/index-edit.ts';
import { isIndexType, isManifestType, MAX_INDEX_DEPTH } from '../image/media-types.ts';
import { type Index, type Manifest, parseImageConfig, parseManifestOrIndex } from '../image/parse.ts';
import { pastWrongMirror } from '../image/past-mirror.ts';
import { digestOf, digestParts, formatPlatform, LARGEST_DOCUMENT, matchPlatform } from '../names/index.ts';
import type { ManifestBytes, TransferOptions } from '../port.ts';
import type { Descriptor, Digest, Platform } from '../types.ts';
import type { CopyOptions } from './copy.ts';
import { checkConvertible } from './docker-target.ts';
import { cosignTags, isSubject } from './referrer-tags.ts';
import type { ImageSource, ImageTarget, ManifestPlace } from './types.ts';

const MAX_MANIFESTS = 10_000;
/** All manifests of one copy together. */
const MAX_BYTES = 64 * 2 ** 20;

export interface CopyPlan {
  readonly root: Descriptor;
  readonly sourceDigest: Digest;
  /** Children before parents. */
  readonly manifests: readonly { readonly manifest: ManifestBytes; readonly place: ManifestPlace }[];
  readonly blobs: ReadonlyMap<Digest, Descriptor>;
  /** Why the root is not what the source's name led to. */
  readonly changes: readonly string[];
}

interface Read {
  readonly manifest: ManifestBytes;
  readonly parsed: Manifest | Index;
}

/** What is to be copied, from verified manifests; nothing has been written yet. */
export async function planCopy(
  source: ImageSource,
  target: ImageTarget,
  options: CopyOptions,
): Promise<CopyPlan> {
  const planner = new Planner(source, target, options);
  return await planner.run();
}

class Planner {
  readonly #source: ImageSource;
  readonly #target: ImageTarget;
  readonly #options: CopyOptions;
  readonly #read = new Map<Digest, Read>();
  readonly #manifests: { manifest: ManifestBytes; place: ManifestPlace }[] = [];
  readonly #blobs = new Map<Digest, Descriptor>();
  readonly #planned = new Set<string>();
  #bytes = 0;

  constructor(source: ImageSource, target: ImageTarget, options: CopyOptions) {
    this.#source = source;
    this.#target = target;
    this.#options = options;
  }

  async run(): Promise<CopyPlan> {
    const named = await this.#source.root(this.#options);
    this.#options.emit({ type: 'image.resolved', reference: this.#source.name, digest: named.digest });
    const changes: string[] = [];
    const root = await this.#choose(await this.#manifest(named), changes);
    this.#checkName(root.manifest.descriptor.digest);
    await this.#walk(root, { kind: 'root' }, 0);
    if (this.#options.referrers) await this.#referrers();
    return {
      root: root.manifest.descriptor,
      sourceDigest: named.digest,
      manifests: this.#manifests,
      blobs: this.#blobs,
      changes,
    };
  }

  /** A target that names a digest is meant for that image only. */
  #checkName(digest: Digest): void {
    const named = this.#target.repository?.digest;
    if (named === undefined || named === digest) return;
    throw ociError(
      'OCI_TRANSPORT_INVALID',
      `${this.#target.name} names another digest than that of the image`,
      {
        hint: `name the target by a tag; the image is ${digest}`,
      },
    );
  }

  async #manifest(descriptor: Descriptor): Promise<Read> {
    const known = this.#read.get(descriptor.digest);
    if (known !== undefined) return known;
    const bytes = await this.#source.manifest(descriptor, this.#options);
    this.#bytes += bytes.length;
    if (this.#read.size >= MAX_MANIFESTS || this.#bytes > MAX_BYTES) {
      throw ociError('OCI_MANIFEST_INVALID', `${this.#source.name} has too many manifests to be copied`, {
        hint: 'copy its platforms one by one with --platform',
      });
    }
    checkBytes(descriptor, bytes, this.#source.name);
    const parsed = parseManifestOrIndex(bytes, descriptor.mediaType || undefined);
    const manifest = { descriptor: { ...descriptor, mediaType: parsed.mediaType }, bytes };
    const read = { manifest, parsed };
    this.#read.set(descriptor.digest, read);
    return read;
  }

  /** The part of the image that was asked for. */
  async #choose(root: Read, changes: string[]): Promise<Read> {
    const { single } = this.#target;
    const { defaultPlatform } = this.#options;
    const asked = this.#options.platforms;
    const one = single !== undefined && asked.length === 0 && root.parsed.kind === 'index';
    const platforms = one ? [defaultPlatform] : asked;
    if (single !== undefined && platforms.length > 1) {
      throw ociError('OCI_CONVERSION_IMPOSSIBLE', `${this.#target.name} holds one platform only`, {
        hint: 'name one --platform',
      });
    }
    let chosen = root;
    const [first, ...others] = platforms;
    if (first !== undefined && others.length === 0) chosen = await this.#onePlatform(root, first);
    else if (first !== undefined) chosen = await this.#cut(root, platforms);
    if (chosen !== root) {
      const list = platforms.map(formatPlatform).join(', ');
      changes.push(
        others.length === 0
          ? `the source is an index, and only its image for ${list} was copied`
          : `the index was cut to ${list}`,
      );
    }
    if (single !== undefined && chosen.parsed.kind === 'manifest') {
      checkConvertible(chosen.parsed, this.#target.name);
    }
    return chosen;
  }

  async #onePlatform(root: Read, platform: Platform): Promise<Read> {
    let at = root;
    for (let depth = 0; at.parsed.kind === 'index'; depth += 1) {
      if (depth > MAX_INDEX_DEPTH) throw this.#tooDeep();
      at = await this.#manifest(this.#child(at.parsed, platform));
    }
    if (root.parsed.kind === 'manifest') await this.#checkPlatform(root.parsed, platform);
    return at;
  }

  async #cut(root: Read, platforms: readonly Platform[]): Promise<Read> {
    const { parsed } = root;
    if (parsed.kind === 'manifest') {
      throw ociError('OCI_PLATFORM_MISSING', `${this.#source.name} is one image and no index of several`, {
        hint: 'name one --platform',
      });
    }
    const exact = platforms.map((platform) => this.#child(parsed, platform).platform ?? platform);
    const value = decodeIndex(root.manifest.bytes);
    const cut = indexFilter(value, exact);
    if (cut.index.manifests.length === value.index.manifests.length) return root;
    const manifest = encodeIndex(cut);
    const read = { manifest, parsed: cut.index };
    this.#read.set(manifest.descriptor.digest, read);
    return read;
  }

  #child(index: Index, platform: Platform): Descriptor {
    const found = matchPlatform(index.manifests, platform);
    if (found !== undefined) return found;
    const offered = index.manifests.flatMap((child) =>
      child.platform === undefined ? [] : [formatPlatform(child.platform)],
    );
    throw ociError(
      'OCI_PLATFORM_MISSING',
      `${this.#source.name} has no image for ${formatPlatform(platform)}`,
      { hint: offered.length === 0 ? 'it names no platforms' : `it has ${offered.join(', ')}` },
    );
  }

  async #checkPlatform(manifest: Manifest, platform: Platform): Promise<void> {
    const bytes = await readSmallBlob(this.#source, manifest.config, this.#options);
    const own = parseImageConfig(bytes, manifest.layers.length).platform;
    if (matchPlatform([{ platform: own }], platform) !== undefined) return;
    throw ociError('OCI_PLATFORM_MISSING', `${this.#source.name} is for ${formatPlatform(own)}`, {
      hint: `${formatPlatform(platform)} was asked for`,
    });
  }

  async #walk(read: Read, place: ManifestPlace, depth: number): Promise<void> {
    if (depth > MAX_INDEX_DEPTH) throw this.#tooDeep();
    const { manifest, parsed } = read;
    const { digest } = manifest.descriptor;
    const key = place.kind === 'tag' ? `${digest} ${place.tag}` : digest;
    if (this.#planned.has(key)) return;
    this.#planned.add(key);
    if (parsed.kind === 'index') {
      for (const child of parsed.manifests) await this.#visit(child, depth + 1);
    } else if (!(await this.#target.hasManifest(manifest.descriptor, this.#options))) {
      for (const blob of [parsed.config, ...parsed.layers]) {
        // Layers that may not be distributed stay where their addresses lead.
        if ((blob.urls ?? []).length === 0) this.#blobs.set(blob.digest, blob);
      }
    }
    const { artifactType, mediaType, size } = manifest.descriptor;
    const type = artifactType ?? (parsed.kind === 'manifest' ? parsed.artifactType : undefined);
    const descriptor = { mediaType, digest, size, ...(type === undefined ? {} : { artifactType: type }) };
    this.#manifests.push({ manifest: { descriptor, bytes: manifest.bytes }, place });
  }

  async #visit(child: Descriptor, depth: number): Promise<void> {
    if (!isIndexType(child.mediaType) && !isManifestType(child.mediaType)) {
      this.#blobs.set(child.digest, child);
      return;
    }
    if (!(await this.#source.has(child, this.#options))) {
      const what =
        child.platform === undefined ? child.digest : `its image for ${formatPlatform(child.platform)}`;
      throw ociError('OCI_BLOB_MISSING', `${this.#source.name} is not whole: ${what} is missing`, {
        hint: 'copy what is there with --platform',
        details: { digest: child.digest },
      });
    }
    await this.#walk(await this.#manifest(child), { kind: 'child' }, depth);
  }

  /** Referrers of all that is copied, of the referrers too, and what cosign keeps under tags. */
  async #referrers(): Promise<void> {
    if (this.#target.single !== undefined) {
      throw ociError('OCI_CONVERSION_IMPOSSIBLE', `${this.#target.name} holds no referrers and signatures`, {
        hint: 'leave --referrers out, or copy to a registry, an oci: layout or an oci-archive',
      });
    }
    // The list grows while it is walked: referrers have referrers.
    for (let at = 0; at < this.#manifests.length; at += 1) {
      const { digest } = (this.#manifests[at] as { manifest: ManifestBytes }).manifest.descriptor;
      for (const referrer of await this.#source.referrers(digest, this.#options)) {
        const read = await this.#manifest(referrer);
        // Some registries list what is none.
        if (isSubject(read.manifest.bytes, digest)) {
          await this.#walk(read, { kind: 'referrer', subject: digest }, 0);
        }
      }
      for (const tag of cosignTags(digest)) {
        const found = await this.#source.tagged(tag, this.#options);
        if (found !== undefined) await this.#walk(await this.#manifest(found), { kind: 'tag', tag }, 0);
      }
    }
  }

  #tooDeep(): Error {
    return ociError(
      'OCI_MANIFEST_INVALID',
      `${this.#source.name} is nested more than ${MAX_INDEX_DEPTH} indexes deep`,
      {
        hint: 'the image was built wrongly or is hostile; ask its author',
      },
    );
  }
}

export function checkBytes(descriptor: Descriptor, bytes: Uint8Array, where: string): void {
  const digest = digestOf(bytes, digestParts(descriptor.digest).algorithm);
  if (digest === descriptor.digest && bytes.length === descriptor.size) return;
  throw ociError('OCI_BLOB_CORRUPT', `${where} has other bytes for ${descriptor.digest}`, {
    hint: 'copy the image there again; if it stays, something on the way changes the bytes',
    details: { digest: descriptor.digest },
  });
}

/** A config, whole and checked. @throws OCI_MANIFEST_INVALID where it is too large */
export async function readSmallBlob(
  source: ImageSource,
  descriptor: Descriptor,
  options: TransferOptions,
): Promise<Uint8Array> {
  if (descriptor.size > LARGEST_DOCUMENT) {
    throw ociError('OCI_MANIFEST_INVALID', `the config ${descriptor.digest} has ${descriptor.size} bytes`, {
      hint: 'the image was built wrongly or is hostile; ask its author',
    });
  }
  return await pastWrongMirror(
    (offset, read) => source.blob(descriptor, offset, read),
    options,
    async (open) => {
      const chunks: Uint8Array[] = [];
      let size = 0;
      for await (const chunk of await open(0)) {
        size += chunk.length;
        if (size > descriptor.size) break;
        chunks.push(chunk);
      }
      const bytes = Buffer.concat(chunks);
      checkBytes(descriptor, bytes, source.name);
      return bytes;
    },
  );
}
