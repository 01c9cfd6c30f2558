import type { Bundle, InvocationImage } from '../bundle/index.ts';
import { own } from '../kernel/index.ts';
import { formatPlatform, formatReference, parseReference, withDefaultTag } from '../oci/names/index.ts';
import type { ImageAccess } from './access.ts';
import type { BuildInputs } from './build-inputs.ts';
import {
  type Lock,
  type LockedImage,
  type LockedReference,
  type SealedReference,
  sealed,
  sortKeys,
} from './lock.ts';
import { lockedPlatform, referencedText } from './pin.ts';

export interface LockRequest {
  readonly bundle: Bundle;
  readonly previous: Lock;
  /** Names to move to what their references name now; `all` moves everything; what is missing is always added. */
  readonly update: 'all' | readonly string[];
}

/** One line for people: what was added, moved or dropped. */
export interface LockChange {
  readonly kind: 'added' | 'moved' | 'dropped';
  readonly name: string;
  readonly reference: string;
  readonly from?: string;
  readonly to?: string;
}

/**
 * A lock for every invocation image, entry of `images:` and dependency of a bundle. Pins that still fit are kept
 * without asking a registry; entries of names that are gone are dropped.
 */
export async function makeLock(
  request: LockRequest,
  access: ImageAccess,
  inputs: BuildInputs,
): Promise<{ readonly lock: Lock; readonly changes: readonly LockChange[] }> {
  const { bundle, previous } = request;
  const isMoved = (name: string): boolean => request.update === 'all' || request.update.includes(name);
  const changes: LockChange[] = [];
  const note = (name: string, before: LockedReference | undefined, after: LockedReference): void => {
    if (before === undefined)
      changes.push({ kind: 'added', name, reference: after.reference, to: after.digest });
    else if (before.digest !== after.digest || before.reference !== after.reference) {
      changes.push({
        kind: 'moved',
        name,
        reference: after.reference,
        from: before.digest,
        to: after.digest,
      });
    }
  };

  const invocationImages: Record<string, Lock['invocationImages'][string]> = {};
  for (const image of bundle.invocationImages) {
    const before = own(previous.invocationImages, image.name);
    const after = await lockImage(image, before, { access, inputs, isMoved: isMoved(image.name) });
    invocationImages[image.name] = after;
    if ('reference' in after)
      note(image.name, before !== undefined && 'reference' in before ? before : undefined, after);
    else if (JSON.stringify(sortKeys(before)) !== JSON.stringify(sortKeys(after))) {
      changes.push({
        kind: before === undefined ? 'added' : 'moved',
        name: image.name,
        reference: image.source.kind,
      });
    }
  }
  const images: Record<string, SealedReference> = {};
  for (const image of bundle.images) {
    images[image.key] = await lockReference(referencedText(image), own(previous.images, image.key), {
      access,
      isMoved: isMoved(image.key),
    });
    note(image.key, own(previous.images, image.key), images[image.key] as LockedReference);
  }
  const dependencies: Record<string, SealedReference> = {};
  for (const dependency of bundle.dependencies) {
    const before = own(previous.dependencies, dependency.name);
    dependencies[dependency.name] = await lockReference(dependency.reference, before, {
      access,
      isMoved: isMoved(dependency.name),
    });
    note(dependency.name, before, dependencies[dependency.name] as LockedReference);
  }
  const lock: Lock = { lockVersion: 1, invocationImages, images, dependencies };
  for (const group of ['invocationImages', 'images', 'dependencies'] as const) {
    for (const name of Object.keys(previous[group])) {
      if (Object.hasOwn(lock[group], name)) continue;
      const gone = previous[group][name];
      changes.push({
        kind: 'dropped',
        name,
        reference: gone !== undefined && 'reference' in gone ? gone.reference : name,
      });
    }
  }
  return { lock, changes };
}

async function lockImage(
  image: InvocationImage,
  before: Lock['invocationImages'][string] | undefined,
  context: { readonly access: ImageAccess; readonly inputs: BuildInputs; readonly isMoved: boolean },
): Promise<Lock['invocationImages'][string]> {
  const { source } = image;
  if (source.kind === 'build') {
    const found = await context.inputs.build(source);
    const bases: Record<string, string> = {};
    const known = before !== undefined && 'build' in before ? before.build.bases : {};
    for (const base of found.bases) {
      const kept = context.isMoved ? undefined : known[base];
      bases[base] = kept ?? (await context.access.digestOf(base));
    }
    return {
      build: {
        context: found.context,
        dockerfile: found.dockerfile,
        ...(source.target === undefined ? {} : { target: source.target }),
        args: source.args,
        bases,
      },
    };
  }
  if (source.kind === 'bake') {
    return { bake: { file: source.file, name: source.name, digest: await context.inputs.file(source.file) } };
  }
  const reference = formatReference(withDefaultTag(parseReference(source.image)));
  const kept =
    before !== undefined && 'reference' in before && before.reference === reference ? before : undefined;
  if (kept !== undefined && !context.isMoved) return kept;
  const described = await context.access.describe(source.image);
  const platforms: Record<string, LockedImage['platforms'][string]> = {};
  for (const pinned of described.platforms)
    platforms[formatPlatform(pinned.platform)] = lockedPlatform(pinned);
  return { reference, digest: described.digest, platforms };
}

async function lockReference(
  text: string,
  before: SealedReference | undefined,
  { access, isMoved }: { access: ImageAccess; isMoved: boolean },
): Promise<SealedReference> {
  const parsed = withDefaultTag(parseReference(text));
  const reference = formatReference(parsed);
  if (before !== undefined && before.reference === reference && !isMoved) return before;
  return sealed({ reference, digest: parsed.digest ?? (await access.digestOf(text)) });
}
