import type { Bundle, InvocationImage, ReferencedImage } from '../bundle/index.ts';
import { own } from '../kernel/index.ts';
import type { PinnedImage, Platform } from '../oci/index.ts';
import {
  formatPlatform,
  formatReference,
  parsePlatform,
  parseReference,
  withDefaultTag,
} from '../oci/names/index.ts';
import type { ImageAccess } from './access.ts';
import { imagesError } from './errors.ts';
import { readInterface } from './interface.ts';
import { type Lock, type LockedImage, type LockedPlatform, sortKeys } from './lock.ts';

export interface PinRequest {
  readonly bundle: Bundle;
  readonly lock: Lock;
  readonly lockFile: string;
  /** Names in `invocationImages` that the action's steps use. */
  readonly names: readonly string[];
  readonly platform: Platform;
}

/**
 * The images of an action, complete in the store, each compared field by field with its verified bytes: the lock
 * only proposes, so editing it gains nothing (docs/security.md, "What was verified is what runs"). No registry is
 * asked for a tag. The first fault ends the other images' transfers, and is thrown when all have ended.
 *
 * @throws LOCK_ENTRY_MISSING, LOCK_STALE, LOCK_MISMATCH, IMAGE_PLATFORM, IMAGE_SOURCE_LATER
 */
export async function pinImages(
  request: PinRequest,
  access: ImageAccess,
): Promise<ReadonlyMap<string, PinnedImage>> {
  const stop = new AbortController();
  let fault: { readonly error: unknown } | undefined;
  const jobs = request.names.map(async (name) => {
    try {
      return [name, await pinImage(request, name, { access, signal: stop.signal })] as const;
    } catch (error) {
      fault ??= { error };
      stop.abort();
      throw error;
    }
  });
  // Until all have ended: what still runs holds leases.
  await Promise.allSettled(jobs);
  if (fault !== undefined) throw fault.error;
  return new Map(await Promise.all(jobs));
}

async function pinImage(
  request: PinRequest,
  name: string,
  { access, signal }: { readonly access: ImageAccess; readonly signal: AbortSignal },
): Promise<PinnedImage> {
  const image = declaredImage(request.bundle, name);
  if (image.source.kind !== 'registry') {
    throw imagesError(
      'IMAGE_SOURCE_LATER',
      `invocation image ${name} comes from \`${image.source.kind}:\`, which this version locks and lints but cannot run`,
      {
        hint: `build it with your own tool, push it, and name it with \`image:\``,
      },
    );
  }
  const reference = parseReference(image.source.image);
  const entry = own(request.lock.invocationImages, name);
  if (entry === undefined || !('reference' in entry)) {
    throw imagesError(
      'LOCK_ENTRY_MISSING',
      `${request.lockFile} does not pin the invocation image ${name} (${image.source.image})`,
      {
        hint: 'pin it with: skycap lock',
        place: { file: request.lockFile },
      },
    );
  }
  const written = formatReference(withDefaultTag(reference));
  if (entry.reference !== written || (reference.digest !== undefined && reference.digest !== entry.digest)) {
    throw imagesError(
      'LOCK_STALE',
      `${request.lockFile} pins ${entry.reference} for ${name}, and ${request.bundle.file} names ${written}`,
      {
        hint: `move the pin with: skycap lock --update ${name}`,
        place: { file: request.lockFile },
      },
    );
  }
  const platform = image.platform === undefined ? request.platform : parsePlatform(image.platform);
  const { tag: _, ...named } = reference;
  const pinned = await access.fetch(
    formatReference({ ...named, digest: entry.digest as never }),
    platform,
    signal,
  );
  compare(request.lockFile, name, { entry, pinned });
  return { ...pinned, reference: written };
}

/**
 * Digests of the bundle's `images:` by key: the file's own where it names one, else the lock's.
 *
 * @throws LOCK_ENTRY_MISSING, LOCK_STALE
 */
export function pinReferences({
  bundle,
  lock,
  lockFile,
}: Pick<PinRequest, 'bundle' | 'lock' | 'lockFile'>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    bundle.images.map((image) => {
      if (image.digest !== undefined) return [image.key, image.digest];
      const written = formatReference(withDefaultTag(parseReference(referencedText(image))));
      const entry = own(lock.images, image.key);
      if (entry?.reference === written) return [image.key, entry.digest];
      throw imagesError(
        entry === undefined ? 'LOCK_ENTRY_MISSING' : 'LOCK_STALE',
        `${lockFile} ${entry === undefined ? 'does not pin' : `pins ${entry.reference} for`} the image ${image.key}, and ${bundle.file} names ${written}`,
        { hint: 'pin it with: skycap lock', place: { file: lockFile } },
      );
    }),
  );
}

/** An entry of `images:` as a reference. */
export function referencedText({ repository, tag, digest }: ReferencedImage): string {
  return `${repository}${tag === undefined ? '' : `:${tag}`}${digest === undefined ? '' : `@${digest}`}`;
}

function declaredImage(bundle: Bundle, name: string): InvocationImage {
  const image = bundle.invocationImages.find((candidate) => candidate.name === name);
  if (image === undefined) throw new Error(`lint let through an unknown invocation image ${name}`);
  return image;
}

/** What the lock says of one platform, made from verified bytes. */
export function lockedPlatform(image: PinnedImage): LockedPlatform {
  const found = readInterface(image);
  return {
    digest: image.manifestDigest,
    entrypoint: image.config.entrypoint,
    cmd: image.config.cmd,
    env: image.config.env,
    user: image.config.user,
    workingDir: image.config.workingDir,
    size: image.size,
    ...(found === undefined ? {} : { interface: found }),
  };
}

function compare(
  lockFile: string,
  name: string,
  { entry, pinned }: { entry: LockedImage; pinned: PinnedImage },
): void {
  const platform = formatPlatform(pinned.platform);
  const locked = entry.platforms[platform];
  if (locked === undefined) {
    throw imagesError(
      'LOCK_ENTRY_MISSING',
      `${lockFile} pins ${name} for ${Object.keys(entry.platforms).join(', ') || 'no platform'}, not for ${platform}`,
      {
        hint: `move the pin with: skycap lock --update ${name}`,
        place: { file: lockFile },
      },
    );
  }
  const verified = lockedPlatform(pinned);
  for (const field of Object.keys({ ...verified, ...locked }) as (keyof LockedPlatform)[]) {
    if (equal(locked[field], verified[field])) continue;
    throw imagesError(
      'LOCK_MISMATCH',
      `${lockFile}: ${name} (${platform}): ${field} is ${JSON.stringify(locked[field])}, and the verified image says ${JSON.stringify(verified[field])}`,
      {
        hint: `the lock was edited or the image replaced; look into it, then: skycap lock --update ${name}`,
        place: { file: lockFile },
        details: { image: name, field },
      },
    );
  }
}

function equal(a: unknown, b: unknown): boolean {
  return JSON.stringify(sortKeys(a)) === JSON.stringify(sortKeys(b));
}
