import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { type Bundle, loadBundle } from '../bundle/index.ts';
import type { Problem } from '../document/index.ts';
import { emptyLock, type Lock, parseLock } from '../images/index.ts';
import { isSkycapError } from '../kernel/index.ts';
import { installationError } from './errors.ts';
import type { BundleSource } from './types.ts';

export interface LoadedBundle {
  readonly bundle: Bundle;
  readonly lock: Lock;
  readonly hasLock: boolean;
  /** Warnings and notes; errors throw. */
  readonly problems: readonly Problem[];
}

/** Reads, parses and lints. @throws BUNDLE_UNREADABLE, BUNDLE_INVALID with every problem in `details`, LOCK_INVALID */
export async function loadBundleSource(source: BundleSource): Promise<LoadedBundle> {
  const text = await readSource(source.file);
  const { parseBundle, lintBundle } = await loadBundle();
  const parsed = parseBundle(text, { file: source.file });
  const problems = [
    ...parsed.problems,
    ...(parsed.bundle === undefined ? [] : await lintBundle(parsed.bundle)),
  ];
  const errors = problems.filter((problem) => problem.severity === 'error');
  const first = errors[0];
  if (parsed.bundle === undefined || first !== undefined) {
    const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : '';
    throw installationError(
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
  const lockText = await readFile(source.lockFile, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return undefined;
    throw cause;
  });
  const lock = lockText === undefined ? emptyLock : parseLock(lockText, source.lockFile);
  return { bundle: parsed.bundle, lock, hasLock: lockText !== undefined, problems };
}

async function readSource(file: string): Promise<string> {
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (cause) {
    if (isSkycapError(cause)) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    throw installationError(
      'BUNDLE_UNREADABLE',
      `${file} cannot be read: ${code === 'ENOENT' ? 'there is no such file' : (code ?? 'unknown reason')}`,
      {
        hint: 'name the file with --file, or begin one with: skycap create',
        place: { file },
        cause,
      },
    );
  }
  return bytes.toString('utf8');
}
