import { existsSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { arch, platform } from 'node:os';
import { basename, resolve } from 'node:path';
import { type Bundle, bundleError, bundleNotFound, bundleText, loadLint } from '../bundle/index.ts';
import type { Problem } from '../document/index.ts';
import { emptyLock, type Lock, lockFacts, parseLock } from '../images/index.ts';
import { isSkycapError } from '../kernel/index.ts';
import { formatPlatform, hostPlatform } from '../oci/names/index.ts';
import type { BundleSource } from './types.ts';

export interface LoadedBundle {
  readonly bundle: Bundle;
  readonly lock: Lock;
  readonly hasLock: boolean;
  /** Warnings and notes; errors throw. */
  readonly problems: readonly Problem[];
}

/**
 * A bundle and its lock, linted with what the lock says of images.
 * @throws BUNDLE_NOT_FOUND, BUNDLE_UNREADABLE, BUNDLE_INVALID with every problem in `details`, LOCK_INVALID
 */
export async function loadBundleSource(source: BundleSource): Promise<LoadedBundle> {
  const lock = await readLock(source.lockFile);
  const checked = await readBundleFile(source, lock);
  return { ...checked, lock: lock ?? emptyLock, hasLock: lock !== undefined };
}

/** A bundle linted with a lock, or without one. @throws BUNDLE_UNREADABLE, BUNDLE_INVALID */
export async function readBundleFile(
  source: BundleSource,
  lock?: Lock,
): Promise<Pick<LoadedBundle, 'bundle' | 'problems'>> {
  const text = await readSource(source.file);
  const { readBundle } = await loadLint();
  const { bundle, problems } = await readBundle(text, {
    file: source.file,
    exists: (path) => existsSync(resolve(source.directory, path)),
    ...(lock === undefined ? {} : { images: lockFacts(lock, thisPlatform()) }),
  });
  const errors = problems.filter((problem) => problem.severity === 'error');
  const first = errors[0];
  if (bundle === undefined) {
    const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
    throw bundleError(
      'BUNDLE_INVALID',
      `${basename(source.file)}: ${first?.message ?? 'it cannot be read'}${more}`,
      {
        hint: first?.hint ?? 'see all of them with: skycap lint',
        ...(first === undefined ? {} : { place: first.place }),
        details: {
          problems: errors.map(({ code, message, place }) => ({
            code,
            message,
            line: place.line,
            column: place.column,
          })),
        },
      },
    );
  }
  return { bundle, problems };
}

function thisPlatform(): string {
  return formatPlatform(hostPlatform({ platform: platform(), arch: arch() }));
}

/** Undefined where there is none. @throws LOCK_INVALID */
export async function readLock(file: string): Promise<Lock | undefined> {
  if (!existsSync(file)) return undefined;
  const text = await readSource(file);
  return text === undefined ? undefined : parseLock(text, file);
}

async function readSource(file: string): Promise<string> {
  let bytes: Buffer;
  try {
    // A pipe or device would never end.
    if (!statSync(file).isFile()) throw Object.assign(new Error(), { code: 'it is no regular file' });
    bytes = await readFile(file);
  } catch (cause) {
    if (isSkycapError(cause)) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') throw bundleNotFound(file);
    throw bundleError('BUNDLE_UNREADABLE', `${file} cannot be read: ${code ?? 'unknown reason'}`, {
      hint: 'name the file with --file',
      place: { file },
      cause,
    });
  }
  return bundleText(bytes, file);
}
