import { arch, platform } from 'node:os';
import type { Descriptor, Platform, Reference, Store } from '../../oci/index.ts';
import { ociError } from '../../oci/index.ts';
import type { Compression } from '../../oci/layer/index.ts';
import {
  formatReference,
  hostPlatform,
  parsePlatform,
  parseReference,
  userFault,
  withDefaultTag,
} from '../../oci/names/index.ts';
import { usage } from '../errors.ts';
import type { Argument, Flag, Flags } from '../types.ts';

export const imageArgument: Argument = {
  name: 'IMAGE',
  required: true,
  summary: 'reference of the image, e.g. ghcr.io/acme/tools:1.9',
};

export const platformFlag: Flag = {
  name: 'platform',
  type: 'string',
  value: 'OS/ARCH',
  summary: "the platform; without it this machine's",
};

export function platformOf(flags: Flags): Platform {
  const text = flags.string('platform');
  return text === undefined ? hostPlatform({ platform: platform(), arch: arch() }) : parsePlatform(text);
}

/** Of `--user`. @throws USAGE */
export function userOf(flags: Flags): string | undefined {
  const user = flags.string('user');
  const fault = user === undefined ? undefined : userFault(user);
  if (fault === undefined) return user;
  throw usage(
    `--user ${JSON.stringify(user)} ${fault}`,
    'write a name or a number below 2147483648, and after a colon a group',
  );
}

/** @param summary What is packed so. */
export function compressionFlag(summary: string): Flag {
  return {
    name: 'compression',
    own: true,
    type: 'string',
    value: 'KIND',
    choices: ['gzip', 'zstd', 'none'],
    default: 'gzip',
    summary,
  };
}

export function compressionOf(flags: Flags): Compression {
  return (flags.string('compression') ?? 'gzip') as Compression;
}

/** As the author means it: Docker Hub and `latest` filled in. @throws REFERENCE_INVALID */
export function readReference(text: string): { readonly reference: Reference; readonly name: string } {
  const reference = withDefaultTag(parseReference(text));
  return { reference, name: formatReference(reference) };
}

/** @throws OCI_IMAGE_MISSING with the nearest name of the store */
export async function findImage(
  store: Store,
  text: string,
): Promise<{ readonly name: string; readonly descriptor: Descriptor }> {
  const { name } = readReference(text);
  const descriptor = await store.resolve(name);
  if (descriptor !== undefined) {
    return { name, descriptor };
  }
  const { didYouMean } = await import('../../document/index.ts');
  const near = didYouMean(
    name,
    (await store.list()).map((image) => image.reference),
  );
  throw ociError('OCI_IMAGE_MISSING', `the store has no image ${name}`, {
    hint: near === undefined ? `bring it with skycap image pull ${text}` : `did you mean ${near}?`,
  });
}

/** The name is there, and layers of this platform are not. */
export function missingPart(name: string, platform: string): Error {
  return ociError('OCI_IMAGE_MISSING', `the store does not have all of ${name} for ${platform}`, {
    hint: `bring it with skycap image pull ${name} --platform ${platform}`,
  });
}
