import { errorTable, type SkycapError } from '../kernel/index.ts';

export const bundleError = errorTable({
  BUNDLE_INVALID: { exit: 10, summary: 'porter.yaml has errors; lint lists them all' },
  BUNDLE_NOT_FOUND: { exit: 11, summary: 'there is no porter.yaml where one was looked for' },
  BUNDLE_UNREADABLE: { exit: 10, summary: 'porter.yaml cannot be read' },
});

/** The file that was meant, by `--file` or by standing in the folder, is not there. */
export function bundleNotFound(file: string): SkycapError {
  return bundleError('BUNDLE_NOT_FOUND', `there is no ${file}`, {
    hint: 'name the file with --file, or start a bundle with skycap create',
    place: { file },
  });
}
