import { errorTable, notUtf8At, type SkycapError } from '../kernel/index.ts';

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

/** What a file of the bundle says, porter.yaml or its lock. @throws BUNDLE_UNREADABLE where it is no UTF-8 */
export function bundleText(bytes: Buffer, file: string): string {
  const fault = notUtf8At(bytes);
  if (fault === undefined) return bytes.toString('utf8');
  throw bundleError('BUNDLE_UNREADABLE', `${file} is no UTF-8 text`, {
    hint: 'save it as UTF-8',
    place: { file, ...fault },
  });
}
