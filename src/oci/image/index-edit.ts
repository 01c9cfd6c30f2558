import { ociError } from '../errors.ts';
import { digestOf, formatPlatform, normalizePlatform } from '../names/index.ts';
import type { Descriptor, Digest, Platform } from '../types.ts';
import { type AnnotationEdit, changedAnnotations } from './edit.ts';
import { type JsonObject, parseStrictJson } from './json.ts';
import { OCI_INDEX } from './media-types.ts';
import { type Index, parseIndex } from './parse.ts';
import { type EncodedBlob, encodeJson } from './value.ts';

/** An index as a value: read strictly, with the document so that unknown fields survive. */
export interface IndexValue {
  readonly index: Index;
  readonly document: JsonObject;
}

/** Docker's name for what an attestation is about (BuildKit, "attestation storage"). */
const ATTESTED = 'vnd.docker.reference.digest';

/** An index (image-spec, image-index.md), or Docker's manifest list, from its bytes. @throws OCI_MANIFEST_INVALID */
export function decodeIndex(bytes: Uint8Array): IndexValue {
  return { index: parseIndex(bytes), document: parseStrictJson(bytes, 'an index') as JsonObject };
}

/** The bytes of an index. Equal values give equal digests. */
export function encodeIndex(value: IndexValue): EncodedBlob {
  const bytes = encodeJson(value.document);
  const { mediaType } = value.index;
  return { descriptor: { mediaType, digest: digestOf(bytes), size: bytes.length }, bytes };
}

/** An index that names nothing. */
export function emptyIndex(): IndexValue {
  return decodeIndex(encodeJson({ schemaVersion: 2, mediaType: OCI_INDEX, manifests: [] }));
}

function withChildren(value: IndexValue, manifests: readonly unknown[]): IndexValue {
  return decodeIndex(encodeJson({ ...value.document, manifests }));
}

/** The entries as they stand in the document, unknown fields included. */
function entries(value: IndexValue): readonly unknown[] {
  return value.document.manifests as readonly unknown[];
}

/** A platform in the spelling of the specification (image-index.md, "platform"). */
function platformDocument(platform: Platform): JsonObject {
  const { os, architecture, variant, osVersion } = normalizePlatform(platform);
  return {
    architecture,
    os,
    ...(osVersion === undefined ? {} : { 'os.version': osVersion }),
    ...(variant === undefined ? {} : { variant }),
  };
}

/**
 * The index with one more manifest at its end.
 *
 * @throws OCI_EDIT_INVALID where that manifest, or another for its platform, is named already
 */
export function indexAdd(value: IndexValue, child: Descriptor): IndexValue {
  const same = value.index.manifests.find((known) => known.digest === child.digest);
  if (same !== undefined) {
    throw ociError('OCI_EDIT_INVALID', `the index names ${child.digest} already`, {
      hint: 'nothing has to be added',
    });
  }
  const { platform } = child;
  const taken = platform === undefined ? undefined : childrenFor(value.index, [platform])[0];
  if (taken !== undefined && platform !== undefined) {
    throw ociError(
      'OCI_EDIT_INVALID',
      `the index has an image for ${formatPlatform(platform)} already: ${taken.digest}`,
      { hint: 'remove that one first: readers take the first of two' },
    );
  }
  const { platform: _parsed, ...rest } = child;
  const entry = { ...rest, ...(platform === undefined ? {} : { platform: platformDocument(platform) }) };
  return withChildren(value, [...entries(value), entry]);
}

/** What is to be taken out of an index: manifests by digest, or by exactly this platform. */
export type IndexPick = { readonly digest: Digest } | { readonly platform: Platform };

/**
 * The index without some manifests, and without the attestations about them.
 *
 * @throws OCI_EDIT_INVALID where nothing fits
 */
export function indexRemove(value: IndexValue, pick: IndexPick): IndexValue {
  const gone =
    'digest' in pick
      ? value.index.manifests.filter((child) => child.digest === pick.digest)
      : childrenFor(value.index, [pick.platform]);
  if (gone.length === 0) {
    const what = 'digest' in pick ? pick.digest : `image for ${formatPlatform(pick.platform)}`;
    throw ociError('OCI_EDIT_INVALID', `the index has no ${what}`, { hint: offered(value.index) });
  }
  const digests = new Set<string>(gone.map((child) => child.digest));
  return withChildren(
    value,
    entries(value).filter((_entry, at) => {
      const child = value.index.manifests[at] as Descriptor;
      return !digests.has(child.digest) && !digests.has(child.annotations?.[ATTESTED] ?? '');
    }),
  );
}

/**
 * The index cut to these platforms, with the attestations about what stays. Order and all else stay.
 *
 * @throws OCI_PLATFORM_MISSING where it has no image for one of them
 */
export function indexFilter(value: IndexValue, platforms: readonly Platform[]): IndexValue {
  for (const platform of platforms) {
    if (childrenFor(value.index, [platform]).length > 0) continue;
    throw ociError('OCI_PLATFORM_MISSING', `the index has no image for ${formatPlatform(platform)}`, {
      hint: offered(value.index),
    });
  }
  const kept = new Set<string>(childrenFor(value.index, platforms).map((child) => child.digest));
  return withChildren(
    value,
    entries(value).filter((_entry, at) => {
      const child = value.index.manifests[at] as Descriptor;
      return kept.has(child.digest) || kept.has(child.annotations?.[ATTESTED] ?? '');
    }),
  );
}

/**
 * The index with other annotations.
 *
 * @throws OCI_EDIT_INVALID for a Docker manifest list, which has none
 */
export function annotateIndex(value: IndexValue, edit: AnnotationEdit): IndexValue {
  if (value.index.mediaType !== OCI_INDEX) {
    throw ociError('OCI_EDIT_INVALID', `an index of type ${value.index.mediaType} has no annotations`, {
      hint: 'make an OCI index: skycap image index create',
    });
  }
  const { annotations: _before, ...document } = value.document;
  const annotations = changedAnnotations(value.index.annotations, edit);
  const more = Object.keys(annotations).length === 0 ? {} : { annotations };
  return decodeIndex(encodeJson({ ...document, ...more }));
}

/** Children for exactly these platforms, variants included: `linux/arm64` is not taken for `linux/arm/v7`. */
function childrenFor(index: Index, platforms: readonly Platform[]): readonly Descriptor[] {
  const wanted = new Set(platforms.map(formatPlatform));
  return index.manifests.filter(
    (child) => child.platform !== undefined && wanted.has(formatPlatform(child.platform)),
  );
}

function offered(index: Index): string {
  const names = index.manifests.flatMap((child) =>
    child.platform === undefined ? [] : [formatPlatform(child.platform)],
  );
  return names.length === 0 ? 'it names no platforms' : `it has ${[...new Set(names)].join(', ')}`;
}
