import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { kernelError } from '../../kernel/index.ts';
import type { FolderOwners } from '../../oci/image/index.ts';
import type { PinnedImage, Platform } from '../../oci/index.ts';
import { isDigest, normalizePlatform, parseReference, repositoryOf } from '../../oci/names/index.ts';

export const ROOTFS = 'rootfs';
export const UNPACKED = 'skycap-image.json';
const VERSION = 1;

/** What a folder of `image unpack` was made of. */
export interface UnpackedImage {
  /** By the digest of one platform's manifest. */
  readonly image: string;
  readonly platform: Platform;
  readonly owners: FolderOwners;
}

export function encodeUnpacked({
  image,
  owners,
}: {
  readonly image: PinnedImage;
  readonly owners: FolderOwners;
}): string {
  const name = `${repositoryOf(parseReference(image.reference))}@${image.manifestDigest}`;
  return `${JSON.stringify({ version: VERSION, image: name, platform: image.platform, owners }, null, 2)}\n`;
}

/** @throws FILE_UNREADABLE for a folder that `image unpack` has not made */
export async function readUnpacked(directory: string): Promise<UnpackedImage> {
  const file = join(directory, UNPACKED);
  const refused = (what: string): Error =>
    kernelError('FILE_UNREADABLE', `${file} ${what}`, {
      hint: 'name a folder that `skycap image unpack` has made; `skycap image import` takes any other',
      place: { file },
    });
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) throw refused('is not there');
  try {
    const { version, image, platform, owners } = JSON.parse(text) as UnpackedImage & { version: number };
    const { digest } = parseReference(image);
    if (version === VERSION && isDigest(digest) && ['image', 'user'].includes(owners))
      return { image, platform: normalizePlatform(platform), owners };
  } catch {
    // Said below.
  }
  throw refused('is not as `image unpack` writes it');
}
