import { open, rename, writeFile } from 'node:fs/promises';
import { formatLock, imagesError, type Lock, type LockChange, makeLock } from '../images/index.ts';
import { buildInputs } from './build-inputs.ts';
import { type LoadedBundle, loadBundleSource } from './bundle-source.ts';
import type { ActionDeps, ActionRequest, BundleSource } from './types.ts';

/**
 * The lock of an action. What is missing is added only after a question on a terminal; elsewhere it is an error that
 * names the command (docs/bundle.md, "Lock").
 *
 * @throws LOCK_MISSING, LOCK_ENTRY_MISSING
 */
export async function ensureLock(
  request: ActionRequest,
  deps: ActionDeps,
  { loaded, names }: { readonly loaded: LoadedBundle; readonly names: readonly string[] },
): Promise<Lock> {
  const { lock, bundle } = loaded;
  const missing = [
    ...names.filter((name) => lock.invocationImages[name] === undefined),
    ...bundle.images
      .filter((image) => image.digest === undefined && lock.images[image.key] === undefined)
      .map((image) => image.key),
  ];
  if (missing.length === 0) return lock;
  if (deps.offerLock !== undefined) {
    const made = await makeLock(
      { bundle, previous: lock, update: [] },
      deps.images,
      buildInputs(request.source.directory),
    );
    if (await deps.offerLock(made.changes)) {
      await writeLock(request.source.lockFile, made.lock);
      return made.lock;
    }
  }
  const code = loaded.hasLock ? 'LOCK_ENTRY_MISSING' : 'LOCK_MISSING';
  const what = loaded.hasLock
    ? `${request.source.lockFile} does not pin ${missing.join(', ')}`
    : `${bundle.name} has no lock: ${request.source.lockFile} does not exist`;
  throw imagesError(code, what, {
    hint: 'pin the images with: skycap lock',
    place: { file: request.source.lockFile },
  });
}

/** `skycap lock`: pins what is missing, moves what is asked for, says what changed. */
export async function lockBundle(
  source: BundleSource,
  deps: Pick<ActionDeps, 'images'>,
  options: { readonly update: 'all' | readonly string[]; readonly check: boolean },
): Promise<{
  readonly changes: readonly LockChange[];
  readonly lock: Lock;
  readonly moved: readonly LockChange[];
}> {
  const { bundle, lock } = await loadBundleSource(source);
  const made = await makeLock(
    { bundle, previous: lock, update: options.update },
    deps.images,
    buildInputs(source.directory),
  );
  if (!options.check) await writeLock(source.lockFile, made.lock);
  const moved = options.update === 'all' ? [] : await movedTags(source, deps, { made: made.lock });
  return { ...made, moved };
}

/** Pins whose tags name something else by now: a warning of `lock` and `lint`, never of a run. */
async function movedTags(
  source: BundleSource,
  deps: Pick<ActionDeps, 'images'>,
  { made }: { made: Lock },
): Promise<readonly LockChange[]> {
  const { bundle } = await loadBundleSource(source);
  const found: LockChange[] = [];
  for (const image of bundle.invocationImages) {
    const entry = made.invocationImages[image.name];
    if (
      image.source.kind !== 'registry' ||
      entry === undefined ||
      !('reference' in entry) ||
      image.source.image.includes('@')
    )
      continue;
    const now = await deps.images.digestOf(image.source.image).catch(() => undefined);
    if (now !== undefined && now !== entry.digest) {
      found.push({
        kind: 'moved',
        name: image.name,
        reference: entry.reference,
        from: entry.digest,
        to: now,
      });
    }
  }
  return found;
}

async function writeLock(file: string, lock: Lock): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  await writeFile(temporary, formatLock(lock));
  const handle = await open(temporary, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
}
