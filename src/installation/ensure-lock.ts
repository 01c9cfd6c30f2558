import { readFile } from 'node:fs/promises';
import type { Bundle } from '../bundle/index.ts';
import { didYouMean } from '../document/index.ts';
import {
  emptyLock,
  formatLock,
  imagesError,
  type Lock,
  type LockChange,
  makeLock,
  tagsNow,
} from '../images/index.ts';
import { failpoint, isSkycapError, own } from '../kernel/index.ts';
import { writeFileAtomic } from '../kernel/system/index.ts';
import { buildInputs } from './build-inputs.ts';
import { type LoadedBundle, readBundleFile, readLock } from './bundle-source.ts';
import type { ActionDeps, ActionRequest, BundleSource } from './types.ts';

/** Someone who writes the lock more often than that while it is made has the last word. */
const MOST_TRIES = 5;

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
    ...names.filter((name) => own(lock.invocationImages, name) === undefined),
    ...bundle.images
      .filter((image) => image.digest === undefined && own(lock.images, image.key) === undefined)
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
      // What lint could not say without it: `with:` against the interfaces, `args:` behind entrypoints.
      await readBundleFile(request.source, made.lock);
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
  // Without the lock that is about to change: it must not stand in the way of a better one.
  const { bundle } = await readBundleFile(source);
  checkNames(bundle, options.update);
  const made = await makeAndWrite(source.lockFile, options, async () =>
    makeLock(
      { bundle, previous: await previousLock(source.lockFile, options.update), update: options.update },
      deps.images,
      buildInputs(source.directory),
    ),
  );
  const { moved } = options.update === 'all' ? { moved: [] } : await tagsNow(bundle, made.lock, deps.images);
  return { ...made, moved };
}

type MadeLock = Awaited<ReturnType<typeof makeLock>>;

/** Registries take their time: what another command has pinned meanwhile is not taken back. */
async function makeAndWrite(
  file: string,
  { check }: { readonly check: boolean },
  make: () => Promise<MadeLock>,
): Promise<MadeLock> {
  for (let tries = 1; ; tries++) {
    const before = await textOf(file);
    const made = await make();
    if (check) return made;
    if (tries < MOST_TRIES && (await textOf(file)) !== before) continue;
    await writeLock(file, made.lock);
    return made;
  }
}

function textOf(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch(() => undefined);
}

/** @throws LOCK_NAME_UNKNOWN */
function checkNames(bundle: Bundle, update: 'all' | readonly string[]): void {
  if (update === 'all') return;
  const known = [
    ...bundle.invocationImages.map((image) => image.name),
    ...bundle.images.map((image) => image.key),
    ...bundle.dependencies.map((dependency) => dependency.name),
  ];
  const unknown = update.find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const meant = didYouMean(unknown, known);
  throw imagesError('LOCK_NAME_UNKNOWN', `${bundle.name} has nothing to pin that is named ${unknown}`, {
    hint: meant === undefined ? `it has ${known.join(', ') || 'no images'}` : `did you mean ${meant}?`,
    place: { file: bundle.file },
  });
}

/** Moving every pin needs nothing of the old lock, so one that cannot be read is in nobody's way. */
async function previousLock(file: string, update: 'all' | readonly string[]): Promise<Lock> {
  try {
    return (await readLock(file)) ?? emptyLock;
  } catch (error) {
    if (update === 'all' && isSkycapError(error, 'LOCK_INVALID')) return emptyLock;
    throw error;
  }
}

/** A lock that says the same stays as it is, with its time. */
async function writeLock(file: string, lock: Lock): Promise<void> {
  const text = formatLock(lock);
  if ((await textOf(file)) === text) return;
  await writeFileAtomic(file, text, {
    mode: 0o666,
    sweep: true,
    at: (moment) => failpoint(`lock.${moment}`),
  });
}
