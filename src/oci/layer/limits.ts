import { ociError } from '../errors.ts';

/** What an untrusted layer may be. Anything beyond is refused with OCI_LAYER_LIMIT. */
export interface LayerLimits {
  /** Entries of the archive, whiteouts included, and directories that it needs and does not name. */
  readonly maxEntries: number;
  /** Bytes of the uncompressed archive. */
  readonly maxBytes: number;
  /** Uncompressed to compressed bytes; asked only beyond `ratioFreeBytes`. */
  readonly maxRatio: number;
  readonly ratioFreeBytes: number;
  /** Bytes of a path or a link target (PATH_MAX less the NUL). */
  readonly maxPathBytes: number;
  /** Components of a path. */
  readonly maxDepth: number;
  /** Bytes of one component (NAME_MAX). */
  readonly maxNameBytes: number;
  /** Bytes of one PAX or GNU long-name record. */
  readonly maxMetaBytes: number;
}

/** docs/layers.md, L24. */
export const DEFAULT_LIMITS: LayerLimits = {
  maxEntries: 1_000_000,
  maxBytes: 128 * 2 ** 30,
  maxRatio: 250,
  ratioFreeBytes: 2 ** 30,
  maxPathBytes: 4095,
  maxDepth: 1024,
  maxNameBytes: 255,
  maxMetaBytes: 1 << 20,
};

export function overLimit(what: string): Error {
  return ociError('OCI_LAYER_LIMIT', `the layer has ${what}`, {
    hint: 'do not use this image, or ask its author for smaller layers',
  });
}

export function invalid(what: string): Error {
  return ociError('OCI_LAYER_INVALID', `the layer is not a valid tar archive: ${what}`, {
    hint: 'the image was built wrongly or is hostile; ask its author',
  });
}

export function unsafe(what: string): Error {
  return ociError('OCI_LAYER_UNSAFE', `the layer is refused: ${what}`, {
    hint: 'the image was built wrongly or is hostile; ask its author',
  });
}
