import { digestOf } from '../names/index.ts';
import type { Descriptor, Digest } from '../types.ts';
import { isObject, type JsonObject, parseStrictJson } from './json.ts';
import { type ImageConfig, type Manifest, parseImageConfig, parseManifest } from './parse.ts';

/**
 * One platform's image as a value: its manifest and config, read strictly, with the documents they were read from so
 * that fields nobody here knows survive a change. The functions of the algebra take values and give new ones; nothing
 * is read or written until `encodeImage` gives the bytes of the result.
 */
export interface ImageValue {
  readonly manifest: Manifest;
  readonly config: ImageConfig;
  /** The manifest as it stands, unknown fields included; the config's is `config.raw`. */
  readonly document: JsonObject;
}

/** A layer as an image names it. */
export interface ImageLayer {
  readonly descriptor: Descriptor;
  /** Digest of the uncompressed tar (image-spec, config.md, "Layer DiffID"). */
  readonly diffId: Digest;
}

/** Bytes with the descriptor that leads to them. */
export interface EncodedBlob {
  readonly descriptor: Descriptor;
  readonly bytes: Uint8Array;
}

/**
 * An image out of its two documents.
 *
 * @throws OCI_MANIFEST_INVALID where one is malformed or they do not fit each other
 */
export function decodeImage(manifestBytes: Uint8Array, configBytes: Uint8Array): ImageValue {
  const manifest = parseManifest(manifestBytes);
  const document = parseStrictJson(manifestBytes, 'a manifest') as JsonObject;
  return { manifest, config: parseImageConfig(configBytes, manifest.layers.length), document };
}

/** The layers, lowest first. */
export function layersOf(image: ImageValue): readonly ImageLayer[] {
  return image.manifest.layers.map((descriptor, index) => ({
    descriptor,
    diffId: image.config.diffIds[index] as Digest,
  }));
}

/** The steps of the config's history as they stand; empty where it has none. */
export function historyOf(image: ImageValue): readonly JsonObject[] {
  const { history } = image.config.raw;
  return Array.isArray(history) ? history.filter(isObject) : [];
}

/** JSON as we write it: equal values give equal bytes. */
export function encodeJson(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value));
}

/** The bytes of an image's config and manifest. Equal values give equal digests. */
export function encodeImage(image: ImageValue): {
  readonly manifest: EncodedBlob;
  readonly config: EncodedBlob;
} {
  const configBytes = encodeJson(image.config.raw);
  const config = {
    mediaType: image.manifest.config.mediaType,
    digest: digestOf(configBytes),
    size: configBytes.length,
  };
  const bytes = encodeJson({ ...image.document, config });
  const { mediaType } = image.manifest;
  return {
    config: { descriptor: config, bytes: configBytes },
    manifest: { descriptor: { mediaType, digest: digestOf(bytes), size: bytes.length }, bytes },
  };
}

export interface ImageEdit {
  readonly layers?: readonly ImageLayer[];
  /** Replaces the config's document; `rootfs` and `history` are filled in from the other fields. */
  readonly config?: JsonObject;
  /** Empty: the config tells no history. */
  readonly history?: readonly JsonObject[];
  readonly annotations?: Readonly<Record<string, string>>;
}

/**
 * The image with some parts replaced; the result is checked as if it had come from elsewhere.
 *
 * @throws OCI_MANIFEST_INVALID where the parts do not fit
 */
export function editImage(image: ImageValue, edit: ImageEdit): ImageValue {
  const layers = edit.layers ?? layersOf(image);
  const { history: _history, ...rest } = edit.config ?? image.config.raw;
  const history = edit.history ?? historyOf(image);
  const config: JsonObject = {
    ...rest,
    rootfs: { type: 'layers', diff_ids: layers.map((layer) => layer.diffId) },
    ...(history.length === 0 ? {} : { history }),
  };
  const { annotations: _annotations, ...document } = image.document;
  const annotations = edit.annotations ?? image.manifest.annotations;
  const manifest: JsonObject = {
    ...document,
    layers: layers.map((layer) => layer.descriptor),
    ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
  };
  return decodeImage(encodeJson(manifest), encodeJson(config));
}
