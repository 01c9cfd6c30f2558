// Without node:fs/promises, as in commands/input.ts.
import { existsSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import {
  bundleError,
  bundleNotFound,
  bundleText,
  type FactsOf,
  loadLint,
  type TagState,
} from '../../bundle/index.ts';
import { applyEdits, mergeFixes, type Problem } from '../../document/index.ts';
import { readUserFile } from '../commands/input.ts';
import type { Context } from '../types.ts';

export interface Checked {
  readonly source: string;
  /** In file order. */
  readonly problems: readonly Problem[];
}

/** Fixes can lay bare other fixes; a file that still changes after this many rounds is one of ours to mend. */
const MAX_ROUNDS = 10;

/** @throws BUNDLE_NOT_FOUND, BUNDLE_UNREADABLE, FILE_UNREADABLE */
export async function readBundleText(file: string): Promise<string> {
  if (!existsSync(file)) {
    throw bundleNotFound(file);
  }
  if (!statSync(file).isFile()) {
    // A pipe or device would never end.
    throw bundleError('BUNDLE_UNREADABLE', `${file} is no regular file`, {
      hint: 'name the file with --file',
      place: { file },
    });
  }
  return bundleText(await readUserFile(file, 'bundle'), file);
}

export interface CheckedFile {
  /** Absolute. */
  readonly file: string;
  /** As messages name it. */
  readonly name: string;
  /** What porter.lock says, where there is one. */
  readonly images?: FactsOf;
  readonly tags?: ReadonlyMap<string, TagState>;
}

export async function checkSource(source: string, checked: CheckedFile): Promise<Checked> {
  const { file, name, images, tags } = checked;
  const { lintSource } = await loadLint();
  const folder = dirname(file);
  const exists = (path: string): boolean => existsSync(resolve(folder, path));
  const problems = await lintSource(source, {
    file: name,
    exists,
    ...(images === undefined ? {} : { images }),
    ...(tags === undefined ? {} : { tags }),
  });
  return { source, problems: [...problems].sort(byPlace) };
}

/** Applies fixes until there are none left. The source is unchanged where nothing could be mended. */
export async function fixSource(
  source: string,
  file: CheckedFile,
): Promise<Checked & { readonly fixed: number }> {
  let checked = await checkSource(source, file);
  let fixed = 0;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const fixes = checked.problems.flatMap((problem) => (problem.fix === undefined ? [] : [problem.fix]));
    const mended = applyEdits(checked.source, mergeFixes(fixes));
    if (mended === checked.source) {
      break;
    }
    fixed += fixes.length;
    checked = await checkSource(mended, file);
  }
  return { ...checked, fixed };
}

/** Whole or not at all, with the mode of the old file. */
export function replaceFile(file: string, text: string): void {
  const { mode } = statSync(file);
  const part = `${file}.skycap-part`;
  try {
    writeFileSync(part, text, { mode: mode & 0o777, flag: 'wx' });
    renameSync(part, file);
  } finally {
    rmSync(part, { force: true });
  }
}

/** How a file is named in messages: relative where it lies below the working folder. */
export function shownName(file: string, context: Context): string {
  const name = relative(context.host.cwd, file);
  return name === '' || name.startsWith('..') ? file : name;
}

function byPlace(a: Problem, b: Problem): number {
  return (a.place.line ?? 0) - (b.place.line ?? 0) || (a.place.column ?? 0) - (b.place.column ?? 0);
}
