import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
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
import { failpoint, isSkycapError, own, shellWord } from '../kernel/index.ts';
import { writeFileAtomic } from '../kernel/system/index.ts';
import { loadStore } from '../oci/index.ts';
import { buildInputs } from './build-inputs.ts';
import { type LoadedBundle, readBundleFile, readLock } from './bundle-source.ts';
import type { ActionDeps, ActionRequest, BundleSource } from './types.ts';

/** Who was too late that often keeps the others waiting. */
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
    const made = await offered(request.source, deps, { bundle, offer: deps.offerLock });
    if (made !== undefined) {
      // What lint could not say without it: `with:` against the interfaces, `args:` behind entrypoints.
      await readBundleFile(request.source, made);
      return made;
    }
  }
  const { given } = request.source;
  const code = loaded.hasLock ? 'LOCK_ENTRY_MISSING' : 'LOCK_MISSING';
  const what = loaded.hasLock
    ? `${request.source.lockFile} does not pin ${missing.join(', ')}`
    : `${bundle.name} has no lock: ${request.source.lockFile} does not exist`;
  throw imagesError(code, what, {
    hint: `pin the images with: skycap lock${given === undefined ? '' : ` -f ${shellWord(given)}`}`,
    place: { file: request.source.lockFile },
  });
}

/** Asks again where another command has changed the lock meanwhile: then the answer was to something else. */
async function offered(
  { directory, lockFile }: BundleSource,
  deps: Pick<ActionDeps, 'images' | 'signal'>,
  { bundle, offer }: { readonly bundle: Bundle; readonly offer: NonNullable<ActionDeps['offerLock']> },
): Promise<Lock | undefined> {
  for (;;) {
    const before = await textOf(lockFile);
    const previous = (await readLock(lockFile)) ?? emptyLock;
    const { changes, lock } = await makeLock(
      { bundle, previous, update: [] },
      deps.images,
      buildInputs(directory),
    );
    if (changes.length > 0 && !(await offer(changes))) return undefined;
    if (await writeUponSame(lockFile, { lock, before, signal: deps.signal })) return lock;
  }
}

/** `skycap lock`: pins what is missing, moves what is asked for, says what changed. */
export async function lockBundle(
  source: BundleSource,
  deps: Pick<ActionDeps, 'images' | 'signal'>,
  options: { readonly update: 'all' | readonly string[]; readonly check: boolean },
): Promise<{
  readonly changes: readonly LockChange[];
  readonly lock: Lock;
  readonly moved: readonly LockChange[];
}> {
  // Without the lock that is about to change: it must not stand in the way of a better one.
  const { bundle } = await readBundleFile(source);
  checkNames(bundle, options.update);
  const make = async (): Promise<MadeLock> =>
    makeLock(
      { bundle, previous: await previousLock(source.lockFile, options.update), update: options.update },
      deps.images,
      buildInputs(source.directory),
    );
  const made = options.check ? await make() : await makeAndWrite(source.lockFile, deps.signal, make);
  const { moved } = options.update === 'all' ? { moved: [] } : await tagsNow(bundle, made.lock, deps.images);
  return { ...made, moved };
}

type MadeLock = Awaited<ReturnType<typeof makeLock>>;

/** Registries take their time: what another command has pinned meanwhile is not taken back. */
async function makeAndWrite(
  file: string,
  signal: AbortSignal,
  make: () => Promise<MadeLock>,
): Promise<MadeLock> {
  for (let tries = 1; tries < MOST_TRIES; tries++) {
    const before = await textOf(file);
    const made = await make();
    if (await writeUponSame(file, { lock: made.lock, before, signal })) return made;
  }
  await using _turn = await turnWith(file, signal);
  const made = await make();
  await writeLock(file, formatLock(made.lock));
  return made;
}

/** @returns false, and has written nothing, where the file is not as it was `before` */
async function writeUponSame(
  file: string,
  {
    lock,
    before,
    signal,
  }: { readonly lock: Lock; readonly before: string | undefined; readonly signal: AbortSignal },
): Promise<boolean> {
  const text = formatLock(lock);
  // A lock that says the same stays as it is, with its time, and where nothing can be written.
  if (text === before && !existsSync(turnOf(file))) return true;
  // Another command's, or that of one that was killed, which goes with this one.
  await using _turn = await turnWith(file, signal);
  if ((await textOf(file)) !== before) return false;
  await writeLock(file, text);
  return true;
}

/** One command at a time looks at the lock and writes it; without locks or rights to files one goes without. */
async function turnWith(file: string, signal: AbortSignal): Promise<AsyncDisposable | undefined> {
  const { takeTurnSoon } = await loadStore();
  return (await takeTurnSoon(turnOf(file), signal)).turn;
}

const turnOf = (file: string): string => join(dirname(file), `.${basename(file)}.skycap-lock`);

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

async function writeLock(file: string, text: string): Promise<void> {
  if ((await textOf(file)) === text) return;
  await writeFileAtomic(file, text, {
    mode: 0o666,
    sweep: true,
    at: (moment) => failpoint(`lock.${moment}`),
  });
}
