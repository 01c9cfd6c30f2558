import { ociError } from '../../errors.ts';

/** The layer is sound and cannot be one file-system image, or could not be used as one: it has to be a folder. */
export class NotErofs extends Error {
  /** The end of a sentence about the layer. */
  readonly because: string;

  constructor(because: string) {
    super(`the layer ${because}`);
    this.name = 'NotErofs';
    this.because = because;
  }
}

/** What Linux could not hold in any other file system either. */
export function unfit(what: string): Error {
  return ociError('OCI_LAYER_WRITE', `a layer cannot be written: ${what}`, {
    hint: 'the image was built wrongly or is hostile; ask its author',
  });
}

export function damaged(what: string): Error {
  return ociError('OCI_STORE_INVALID', `an unpacked layer of the store is not as it was written: ${what}`, {
    hint: 'run `skycap image fsck --repair`, then the same command again',
  });
}
