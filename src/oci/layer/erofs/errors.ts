import { ociError } from '../../errors.ts';

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
