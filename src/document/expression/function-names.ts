/** The functions of expressions: all pure. What each does: `functions.ts`. */
export const FUNCTION_NAMES: ReadonlySet<string> = new Set([
  'default',
  'upper',
  'lower',
  'join',
  'split',
  'toJson',
  'fromJson',
  'base64',
  'sha256',
  'semver',
  'replace',
  'startsWith',
  'length',
]);
